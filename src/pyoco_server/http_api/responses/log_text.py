"""What the dialects share about logs as plain text: who wants it, and what its headers say; reads no log."""

from __future__ import annotations

from typing import Any

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import tokens

NEXT_TOKEN, COMPLETE = "X-Next-Token", "X-Log-Complete"
MEDIA_TYPE = "text/plain; charset=utf-8"
# Many times what a browser sends; to look through whatever fits into a head would keep all others waiting.
MAX_ACCEPT_CHARS = 2048

# For the OpenAPI document.
DESCRIBED_CONTENT: dict[str, Any] = {
    "text/plain": {"schema": {"type": "string"}, "example": "loading\nloaded 3 rows\n"}
}
DESCRIBED_HEADERS: dict[str, Any] = {
    NEXT_TOKEN: {"schema": {"type": "string"}, "description": "With text/plain only."},
    COMPLETE: {"schema": {"enum": ["true", "false"]}, "description": "With text/plain only."},
}


def wants_text(accept: str) -> bool:
    """Whether plain text is named and JSON is not wanted more; an endless list of wishes is none."""
    if len(accept) > MAX_ACCEPT_CHARS:
        return False
    wish = {"text/plain": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        media, _, parameters = "".join(part.split()).partition(";")
        if media in wish:
            wish[media] = _quality(parameters)
    return wish["text/plain"] > wish["application/json"]


def text_headers(run_id: RunId, following: tokens.LogPosition, *, complete: bool) -> dict[str, str]:
    """Where to go on, which in JSON is said beside the lines."""
    return {
        NEXT_TOKEN: tokens.encode(following, run_id),
        COMPLETE: "true" if complete else "false",
        # What a flow prints must not become a page because a browser thinks that it looks like one.
        "X-Content-Type-Options": "nosniff",
    }


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0
