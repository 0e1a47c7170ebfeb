"""Cursors of lists of runs: positions in a walk from the newest change to the oldest. Reads no list.

A run that changes during the walk moves to the top, behind the reader. So the walk is followed by a tail: the runs that
changed since the walk began, in the order of their ids, which never change.

    walk ─▶ newest … ─▶ … oldest ─▶ tail: runs changed after the mark, by id, up to the last id when it began ─▶ end

A cursor is valid at every gateway: the mark is a sequence of the snapshot bucket, which all of them read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from pyoco_server.domain.queries.page_token import MAX_TOKEN_CHARS, seal, unseal
from pyoco_server.domain.queries.query import RunQuery

MAX_CURSOR_CHARS = MAX_TOKEN_CHARS
_MAX_MARK = 2**63 - 1  # the largest integer of SQLite


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Before this run in the walk; changes after `mark` belong to the tail."""

    mark: int
    before: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """After this id among the runs that changed after `mark`; the tail ends with the id `upto`."""

    mark: int
    after: str
    upto: str


Place = Walk | Tail


def encode(place: Place, query: RunQuery, stream: str) -> str:
    """The cursor of a position in the list of `query`, for the snapshot bucket `stream`."""
    match place:
        case Walk(mark=mark, before=before):
            position = ["w", mark, *(before or ())]
        case Tail(mark=mark, after=after, upto=upto):
            position = ["t", mark, after, upto]
    return seal(position, about=_about(query, stream))


def decode(cursor: str, query: RunQuery, stream: str) -> Place:
    """The position of a cursor; `InvalidListQuery` unless `encode` made it for the same list."""
    return unseal(cursor, _place, about=_about(query, stream), name="cursor", restart="start with an empty one")


def _place(position: Any) -> Place:
    match position:
        case ["w", int(mark), float(at), str(run_id)] if 0 <= mark <= _MAX_MARK and isfinite(at):
            return Walk(mark=mark, before=(at, run_id))
        case ["t", int(mark), str(after), str(upto)] if 0 <= mark <= _MAX_MARK:
            return Tail(mark=mark, after=after, upto=upto)
        case _:
            raise ValueError("not a position of a list")


def _about(query: RunQuery, stream: str) -> tuple[object, ...]:
    partition = (query.status, sorted(set(query.statuses)), query.tenant_id, query.archived)
    return (stream, *partition, query.flow, query.tag, query.terms, query.updated_after)
