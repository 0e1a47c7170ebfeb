"""Which request is this: `X-Request-Id` and `X-Correlation-Id`, in scope, log lines and answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import Token

from starlette.types import Scope

from pyoco_server.domain.ulid import Ulid, parse_ulid
from pyoco_server.log_context import Fields, begin_work

_NAMES = (b"x-request-id", b"x-correlation-id")
_CORRELATION_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_ULID_BYTES = 26

Headers = list[tuple[bytes, bytes]]


def identify(scope: Scope, new_id: Callable[[], str]) -> tuple[Headers, Token[Fields]]:
    """The two headers of the answer, and the token that ends the ids in log lines.

    The request id is the caller's if that is a ULID, else a new one. The correlation id ties several requests together:
    the caller's in any safe form, else the request id.
    """
    given = {name: value for name, value in scope["headers"] if name in _NAMES}
    request_id: str = _ulid_in(given.get(b"x-request-id")) or new_id()
    sent = given.get(b"x-correlation-id")
    correlation_id = sent.decode() if sent is not None and _CORRELATION_ID.fullmatch(sent) else request_id
    scope["request_id"], scope["correlation_id"] = request_id, correlation_id
    headers = [(_NAMES[0], request_id.encode()), (_NAMES[1], correlation_id.encode())]
    return headers, begin_work(request_id, correlation_id)


def _ulid_in(value: bytes | None) -> Ulid | None:
    return None if value is None or len(value) != _ULID_BYTES else parse_ulid(value.decode("latin-1"))
