"""Content negotiation: logs as text or JSON, errors in English or Japanese, files of the dashboard compressed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from starlette.requests import HTTPConnection

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
    """Whether Accept names text/plain and does not prefer JSON."""
    quality = _qualities(accept, "text/plain", "application/json")
    return quality["text/plain"] > quality["application/json"]


def wants_html(accept: str) -> bool:
    """Whether Accept names text/html and does not prefer JSON, as browsers do when they open an address."""
    quality = _qualities(accept, "text/html", "application/json")
    return quality["text/html"] > quality["application/json"]


def preferred_encoding(accept_encoding: str, available: Iterable[str]) -> str:
    """The best accepted of these encodings, the first of equal ones; "" is no encoding, and always acceptable."""
    quality = _qualities(accept_encoding, *filter(None, available))
    best = max(quality, key=lambda name: quality[name], default="")
    return best if quality.get(best) else ""


def preferred_language(request: HTTPConnection) -> str:
    """`ja` when Accept-Language prefers Japanese to English, else `en`."""
    quality = _qualities(request.headers.get("accept-language", ""), "en", "ja")
    return "ja" if quality["ja"] > quality["en"] else "en"


def text_headers(run_id: RunId, following: tokens.LogPosition, *, complete: bool) -> dict[str, str]:
    """The position behind the lines, which JSON has beside them."""
    return {
        NEXT_TOKEN: tokens.encode(following, run_id),
        COMPLETE: "true" if complete else "false",
        # A browser must not render the output of a flow as a page.
        "X-Content-Type-Options": "nosniff",
    }


def _qualities(field: str, *names: str) -> dict[str, float]:
    """The highest quality of each name, 0 if it is missing; an endless field counts as none."""
    quality = dict.fromkeys(names, 0.0)
    for part in field.lower().split(",") if len(field) <= MAX_ACCEPT_CHARS else ():
        name, *parameters = "".join(part.split()).split(";")
        # A language may name a region: ja-JP.
        name = name if "/" in name else name.partition("-")[0]
        if name in quality:
            given = next((one[2:] for one in parameters if one.startswith("q=")), "1")
            with suppress(ValueError):
                quality[name] = max(quality[name], float(given))
    return quality
