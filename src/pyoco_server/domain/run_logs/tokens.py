"""Places in a log, and the opaque text that stands for one between two requests; reads no log.

A place is the number of the line to read next, with the sequence of the last chunk that was read to its end. The number
is the truth and the sequence a short cut: lines never change their numbers, so a token is good while the log grows,
after restarts, and in a log that was restored under other sequences.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

import orjson

from pyoco_server.domain.ids import RunId
from pyoco_server.errors import InvalidLogQuery

MAX_TOKEN_CHARS = 256
_CHECK_BYTES = 6
_MAX_NUMBER = 2**53


class LogPosition(NamedTuple):
    """Before this line, which is behind the chunk with this sequence (0: none was read to its end)."""

    line: int = 1
    sequence: int = 0


START = LogPosition()


def encode(place: LogPosition, run_id: RunId) -> str:
    """The token of a place in the log of that run."""
    payload = orjson.dumps([place.line, place.sequence])
    return urlsafe_b64encode(_check(payload, run_id) + payload).rstrip(b"=").decode()


def decode(token: str, run_id: RunId) -> LogPosition:
    """The place a token stands for; `InvalidLogQuery` unless `encode` made it for this run."""
    if len(token) > MAX_TOKEN_CHARS:
        raise InvalidLogQuery(f"the token has more than {MAX_TOKEN_CHARS} characters")
    try:
        raw = b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True)
    except ValueError as error:
        raise InvalidLogQuery("the token is damaged; leave it out to read from the start") from error
    check, payload = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    # Against mistakes, not against forgery: whoever makes one up reads nothing that they could not read anyway.
    if check == _check(payload, run_id):
        match _numbers(payload):
            case [int(line), int(sequence)] if 1 <= line <= _MAX_NUMBER and 0 <= sequence <= _MAX_NUMBER:
                return LogPosition(line, sequence)
    raise InvalidLogQuery("the token is damaged, or of another run; leave it out to read from the start")


def _numbers(payload: bytes) -> object:
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None


def _check(payload: bytes, run_id: RunId) -> bytes:
    return blake2b(payload, key=run_id.encode(), digest_size=_CHECK_BYTES).digest()
