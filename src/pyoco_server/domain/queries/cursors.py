"""Cursors of lists of runs: positions in a walk from the newest change to the oldest. Reads no list.

A run that changes during the walk moves to the top, behind the reader. So the walk is followed by a tail: the runs that
changed since the walk began, in the order of their ids, which never change.

    walk ─▶ newest … ─▶ … oldest ─▶ tail: runs changed after the mark, by id, up to the last id when it began ─▶ end

A cursor is valid at every gateway: the mark is a sequence of the snapshot bucket, which all of them read.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from pyoco_server.domain.queries.page_token import MAX_TOKEN_CHARS, seal, unseal
from pyoco_server.domain.queries.query import RunQuery

MAX_CURSOR_CHARS = MAX_TOKEN_CHARS
RUNS, EXECUTIONS = "runs", "executions"  # the routes whose lists have these cursors
Mark = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # up to the largest integer of SQLite


class Walk(msgspec.Struct, frozen=True, kw_only=True, tag="w", array_like=True):
    """Before this run in the walk; changes after `mark` belong to the tail."""

    mark: Mark
    before: tuple[float, str] | None = None


class Tail(msgspec.Struct, frozen=True, kw_only=True, tag="t", array_like=True):
    """After this id among the runs that changed after `mark`; the tail ends with the id `upto`."""

    mark: Mark
    after: str
    upto: str


Place = Walk | Tail


class _Position(msgspec.Struct, array_like=True):
    place: Place


def encode(place: Place, query: RunQuery, stream: str, route: str = RUNS) -> str:
    """The cursor of a position in the list of `query` of a route, for the snapshot bucket `stream`."""
    return seal(_Position(place), about=_about(query, stream, route))


def decode(cursor: str, query: RunQuery, stream: str, route: str = RUNS) -> Place:
    """The position of a cursor; `InvalidListQuery` unless `encode` made it for the same list of the same route."""
    about = _about(query, stream, route)
    return unseal(cursor, _Position, about=about, name="cursor", restart="start with an empty one").place


def _about(query: RunQuery, stream: str, route: str) -> tuple[object, ...]:
    partition = (query.status, sorted(set(query.statuses)), query.tenant_id, query.archived)
    about = (stream, *partition, query.flow, query.tag, query.terms, query.updated_after, *query.given_ranges)
    # Cursors of lists without it stay as they are.
    about = about if query.error is None else (*about, "error", query.error)
    # `/runs` had cursors before there were other routes with them.
    return about if route == RUNS else (route, *about)
