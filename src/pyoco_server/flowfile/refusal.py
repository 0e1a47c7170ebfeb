"""How a flow.yaml is refused: in one sentence that says what is wrong and on which line."""

from __future__ import annotations

from pyoco_server.errors import InvalidRequest

# What is quoted from a file is cut: whoever sends nonsense does not get all of it back.
SHOWN_CHARS = 60


def refusal(what: str, line: int | None = None) -> InvalidRequest:
    """The error for a flow.yaml with this fault."""
    place = "flow.yaml" if line is None else f"flow.yaml, line {line}"
    return InvalidRequest(f"{place}: {what}", line=line)


def shown(text: object) -> str:
    """A piece of the file as it may stand in a message."""
    quoted = repr(text)
    return quoted if len(quoted) <= SHOWN_CHARS else f"{quoted[:SHOWN_CHARS]}…"
