"""Responses: JSON, errors, and streams of unbounded length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The value as JSON; bytes are JSON already."""
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    return Response(body, status_code=status, headers=headers, media_type="application/json")
