"""Places in a list of runs, and the opaque text that stands for one between two requests. It reads no list.

A list is walked from the newest change to the oldest. A run that changes meanwhile jumps to the top, behind the
reader's back; so after the walk comes a tail: what has changed since the walk began, in the order of the ids, which
never change.

    walk ─▶ newest … ─▶ … oldest ─▶ tail: runs changed behind the mark, by id, up to the last id when it began ─▶ end

Nothing in a cursor belongs to one gateway: the mark is a sequence of the snapshot bucket, which all of them read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

from pyoco_server.domain.queries.page_token import MAX_SEALED_CHARS, seal, unseal
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.errors import InvalidListQuery

MAX_CURSOR_CHARS = MAX_SEALED_CHARS
_MAX_MARK = 2**63 - 1  # what SQLite compares with


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """On the way down; what changes behind `mark` is left to the tail."""

    mark: int
    before: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Among the runs that changed behind `mark`, after this id; the tail ends with the id `upto`."""

    mark: int
    after: str
    upto: str


Place = Walk | Tail


def encode(place: Place, query: RunQuery, stream: str) -> str:
    """The cursor of a place in the list that `query` asks for, of the snapshot bucket `stream`."""
    match place:
        case Walk(mark=mark, before=before):
            words = ["w", mark, *(before or ())]
        case Tail(mark=mark, after=after, upto=upto):
            words = ["t", mark, after, upto]
    return seal(orjson.dumps(words), about=_about(query, stream))


def decode(cursor: str, query: RunQuery, stream: str) -> Place:
    """The place a cursor stands for; `InvalidListQuery` unless `encode` made it for the same list."""
    payload = unseal(cursor, about=_about(query, stream), name="cursor", afresh="start with an empty one")
    try:
        place = _place(orjson.loads(payload))
    except orjson.JSONDecodeError:
        place = None
    if place is None:
        raise InvalidListQuery("cursor: it was not made by this server; start with an empty one")
    return place


def _place(words: Any) -> Place | None:
    match words:
        case ["w", int(mark), float(at), str(run_id)] if 0 <= mark <= _MAX_MARK and isfinite(at):
            return Walk(mark=mark, before=(at, run_id))
        case ["t", int(mark), str(after), str(upto)] if 0 <= mark <= _MAX_MARK:
            return Tail(mark=mark, after=after, upto=upto)
        case _:
            return None


def _about(query: RunQuery, stream: str) -> tuple[object, ...]:
    shelves = (query.status, sorted(set(query.statuses)), query.tenant_id, query.archived)
    return (stream, *shelves, query.flow, query.tag, query.terms, query.updated_after)
