"""How a flow.yaml is refused: in one sentence that says what is wrong and on which line."""

from __future__ import annotations

from pyoco_server.errors import InvalidRequest


def refusal(what: str, line: int | None = None) -> InvalidRequest:
    """The error for a flow.yaml with this fault."""
    place = "flow.yaml" if line is None else f"flow.yaml, line {line}"
    return InvalidRequest(f"{place}: {what}", line=line)
