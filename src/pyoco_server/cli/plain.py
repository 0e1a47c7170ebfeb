"""Other people's text made safe to show: what a flow, a task or a label is called must not steer the terminal."""

from __future__ import annotations

import json
import re
import sys

# C0, DEL and C1 steer terminals; lone surrogates cannot be written; line and paragraph separators break lines; the rest
# turns the direction of writing, so that a name can look like another.
_STEERING = "\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[{_STEERING}]")
_UNSAFE_IN_LINES = re.compile(f"(?![\n\t])[{_STEERING}]")
_SPACES = re.compile(r"[\r\n\t]+")
REPLACEMENT = "\ufffd"


def line(text: object) -> str:
    """The text on one line; what would steer the terminal is shown as a replacement character."""
    return _UNSAFE.sub(REPLACEMENT, _SPACES.sub(" ", str(text)))


def lines(text: str) -> str:
    """The same for text of several lines."""
    return _UNSAFE_IN_LINES.sub(REPLACEMENT, text)


def document(value: object, *, indent: int | None = None) -> str:
    """The value as JSON: the same value to a program, and harmless to a terminal."""
    ascii_only = "utf" not in (getattr(sys.stdout, "encoding", None) or "").lower()
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    # Inside of JSON such a character can only stand in a string, where its escape means the same.
    return _UNSAFE_IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
