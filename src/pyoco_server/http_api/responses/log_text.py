"""Logs as plain text: content negotiation and headers."""

from __future__ import annotations

from typing import Any

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import tokens

NEXT_TOKEN, COMPLETE = "X-Next-Token", "X-Log-Complete"
MEDIA_TYPE = "text/plain; charset=utf-8"
# Many times what a browser sends; parsing a whole head of it would block other requests.
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
    """Whether Accept names text/plain and does not prefer JSON; an endless header counts as none."""
    if len(accept) > MAX_ACCEPT_CHARS:
        return False
    quality = {"text/plain": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        media, _, parameters = "".join(part.split()).partition(";")
        if media in quality:
            quality[media] = _quality(parameters)
    return quality["text/plain"] > quality["application/json"]


def text_headers(run_id: RunId, following: tokens.LogPosition, *, complete: bool) -> dict[str, str]:
    """The position behind the lines, which JSON has beside them."""
    return {
        NEXT_TOKEN: tokens.encode(following, run_id),
        COMPLETE: "true" if complete else "false",
        # A browser must not render the output of a flow as a page.
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
