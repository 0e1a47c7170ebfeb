"""Opaque tokens for positions in lists and logs. They carry a checksum against mistakes and hide nothing.

Forgery is no threat: a forged token reads nothing that its query would not show.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import TypeVar

import msgspec
import orjson

from pyoco_server.errors import InvalidListQuery, PyocoError

T = TypeVar("T")

MAX_TOKEN_CHARS = 2048
_CHECK_BYTES = 8


def seal(position: object, *, about: tuple[object, ...]) -> str:
    """A token for a position (JSON), valid only together with the same `about`."""
    payload = msgspec.json.encode(position)
    return urlsafe_b64encode(_check(payload, about) + payload).rstrip(b"=").decode()


def unseal(
    token: str,
    kind: type[T],
    *,
    about: tuple[object, ...],
    name: str,
    restart: str,
    error: type[PyocoError] = InvalidListQuery,
) -> T:
    """The position; `error` unless `seal` made the token for a position of this kind in the same list."""
    if len(token) > MAX_TOKEN_CHARS:
        raise error(f"{name}: it has more than {MAX_TOKEN_CHARS} characters")
    try:
        raw = b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True)
    except ValueError as fault:
        raise error(f"{name}: it is damaged; {restart}") from fault
    check, payload = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if check != _check(payload, about):
        raise error(f"{name}: it is damaged, or was made with other filters or for another run; {restart}")
    try:
        return msgspec.json.decode(payload, type=kind)
    except ValueError as fault:
        raise error(f"{name}: it was not made by this server; {restart}") from fault


def _check(payload: bytes, about: tuple[object, ...]) -> bytes:
    key = blake2b(orjson.dumps(about), digest_size=32).digest()
    return blake2b(payload, key=key, digest_size=_CHECK_BYTES).digest()
