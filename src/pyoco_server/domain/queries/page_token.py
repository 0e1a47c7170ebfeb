"""Opaque texts that stand for a place in a list between two requests, checked against mistakes. They hide nothing.

Against forgery there is no need to check: whoever makes one up reads nothing that the query would not show.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from hashlib import blake2b

import orjson

from pyoco_server.errors import InvalidListQuery

MAX_SEALED_CHARS = 2048
_CHECK_BYTES = 8


def seal(payload: bytes, *, about: tuple[object, ...]) -> str:
    """A text that is good for a list about the same only."""
    return urlsafe_b64encode(_check(payload, about) + payload).rstrip(b"=").decode()


def unseal(text: str, *, about: tuple[object, ...], name: str, afresh: str) -> bytes:
    """The payload; `InvalidListQuery`, which says how to start `afresh`, unless `seal` made it about the same."""
    raw = _raw(text, name, afresh)
    check, payload = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if check != _check(payload, about):
        raise InvalidListQuery(
            f"{name}: it is damaged, or of a list with other filters; {afresh}, and keep the filters"
        )
    return payload


def _raw(text: str, name: str, afresh: str) -> bytes:
    if len(text) > MAX_SEALED_CHARS:
        raise InvalidListQuery(f"{name}: it has more than {MAX_SEALED_CHARS} characters")
    try:
        return b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
    except ValueError as error:
        raise InvalidListQuery(f"{name}: it is damaged; {afresh}") from error


def _check(payload: bytes, about: tuple[object, ...]) -> bytes:
    key = blake2b(orjson.dumps(about), digest_size=32).digest()
    return blake2b(payload, key=key, digest_size=_CHECK_BYTES).digest()
