"""Makes foreign text safe to print: the name of a flow, a task or a label must not control the terminal."""

from __future__ import annotations

import json
import re
import sys

# C0, DEL and C1 control terminals; lone surrogates cannot be encoded; line and paragraph separators break lines; the
# rest changes the direction of writing, so that a name can look like another.
_CONTROL = "\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[{_CONTROL}]")
_UNSAFE_IN_LINES = re.compile(f"(?![\n\t])[{_CONTROL}]")
_SPACES = re.compile(r"[\r\n\t]+")
REPLACEMENT = "\ufffd"


def escape_line(text: object) -> str:
    """The text on one line; control characters become replacement characters."""
    return _UNSAFE.sub(REPLACEMENT, _SPACES.sub(" ", str(text)))


def escape_lines(text: str) -> str:
    """The same for text of several lines."""
    return _UNSAFE_IN_LINES.sub(REPLACEMENT, text)


def to_json(value: object, *, indent: int | None = None) -> str:
    """The value as JSON: unchanged for a program, harmless on a terminal."""
    ascii_only = "utf" not in (getattr(sys.stdout, "encoding", None) or "").lower()
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    # In JSON such a character occurs only inside a string, where its escape means the same.
    return _UNSAFE_IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
