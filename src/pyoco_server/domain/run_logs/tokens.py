"""Positions in a log, and their tokens. Reads no log.

A position is the number of the next line, with the sequence of the last chunk that was read to its end. The number is
authoritative and the sequence a shortcut: lines never change their numbers, so a token stays valid while the log grows,
after restarts, and in a log that was restored under other sequences.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.page_token import seal, unseal
from pyoco_server.errors import InvalidLogQuery

_MAX_NUMBER = 2**53


class LogPosition(NamedTuple):
    """Before this line, after the chunk with this sequence (0: no chunk was read to its end)."""

    line: Annotated[int, Meta(ge=1, le=_MAX_NUMBER)] = 1
    sequence: Annotated[int, Meta(ge=0, le=_MAX_NUMBER)] = 0


START = LogPosition()


def encode(place: LogPosition, run_id: RunId) -> str:
    return seal(place, about=("log", run_id))


def decode(token: str, run_id: RunId) -> LogPosition:
    """The position of a token; `InvalidLogQuery` unless `encode` made it for this run."""
    restart = "leave it out to read from the start"
    return unseal(token, LogPosition, about=("log", run_id), name="token", restart=restart, error=InvalidLogQuery)
