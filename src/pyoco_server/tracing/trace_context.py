"""W3C Trace Context as text: which `traceparent` is accepted, and the ids of spans that two processes derive alike."""

from __future__ import annotations

import re
from hashlib import sha256

# https://www.w3.org/TR/trace-context-1/: later versions may have more parts, behind a dash.
_TRACEPARENT = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<trace_id>[0-9a-f]{32})-(?!0{16})(?P<span_id>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-[\x21-\x7e]{0,200})?"
)
# What every implementation has to propagate at least; ours forwards no more.
MAX_TRACESTATE_CHARS = 512


def parse_traceparent(text: object) -> tuple[int, int, int] | None:
    """The ids of trace and span, and the flags; None unless the text follows the specification."""
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    if found is None or (found["version"] == "00" and found["more"] is not None):
        return None
    return int(found["trace_id"], 16), int(found["span_id"], 16), int(found["flags"], 16)


def format_traceparent(trace_id: int, span_id: int, flags: int) -> str:
    return f"00-{trace_id:032x}-{span_id:016x}-{flags & 1:02x}"


def accepted_tracestate(text: object) -> str | None:
    """The text if it can be a `tracestate`; its members are checked where it is used."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_TRACESTATE_CHARS:
        return None
    return text if text.isascii() and text.isprintable() else None


def task_span_id(traceparent: str, node: str, nth: int) -> int:
    """The id of the span of a task's start.

    The runner needs it while the task runs, and its supervisor, which exports the span, when the task has ended.
    """
    digest = sha256(f"{traceparent} {nth} {node}".encode("utf-8", "backslashreplace")).digest()
    return int.from_bytes(digest[:8], "big") or 1
