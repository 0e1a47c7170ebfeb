"""Jobs and labels from the drawers: pages by id, newest first, each within a bounded amount of work.

    no label, or one and any status ─▶ the drawers are read in order, merged
    several, or one and a status ────▶ the rarest proposes, the others are asked for each of its runs, stretch by
                                       stretch; before a stretch it leaps over what one of them does not reach

Who asks for what seldom or never comes together gets a short page after some thousand looks, and where to go on. A
run has one tenant, so what several tenants have is looked for tenant by tenant.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby, takewhile
from typing import Any, NamedTuple

import orjson

from pyoco_server.adapters.sqlite.drawers_writing import of_shelf
from pyoco_server.adapters.sqlite.listing import Param, Statement, all_of, equal, merged
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery, order_of, run_id_of
from pyoco_server.domain.queries.query import Listed

# How often another drawer is asked about a run for one page: some milliseconds.
MAX_LOOKS = 4096
# Of many tenants each gets its share, but so much that every page comes on.
MIN_LOOKS = 64
FIRST_STRETCH = 128

SHELVES = """
    SELECT tenant_id, shelf, runs FROM shelves
    WHERE runs > 0 AND archived = 0 AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
      AND (:status IS NULL OR status IN (SELECT value FROM json_each(:status)))
    ORDER BY tenant_id
"""
LISTED = """
    SELECT updated_at, run_id, summary FROM json_each(?) AS wanted CROSS JOIN runs ON run_id = wanted.value
"""

_RUNS = "SELECT run FROM postings WHERE drawer = ? AND run < ?"
_HAS = """EXISTS (
    SELECT 1 FROM postings AS other{nth} WHERE other{nth}.drawer IN ({drawers}) AND other{nth}.run = postings.run
)"""
_NEWEST_FIRST = "run DESC"
# Behind every id of ours, and every other.
_ABOVE_ALL = b"\xff" * 17

Run = bytes
"""A run, as `order_of` has it."""


class Stream(NamedTuple):
    """The runs that fit one thing that is asked for: how many, and the drawers that they are in."""

    runs: int
    drawers: tuple[int, ...]


class Found(NamedTuple):
    """Runs that fit, the newest first, and down to which one these are all; None: to the end."""

    runs: Sequence[Run]
    down_to: Run | None

    def with_(self, other: Found, limit: int) -> Found:
        """What both have found, as far down as both have come, and no more than the limit."""
        down_to = max((each.down_to for each in (self, other) if each.down_to is not None), default=b"")
        runs = sorted((run for run in (*self.runs, *other.runs) if run >= down_to), reverse=True)[:limit]
        return Found(runs, runs[-1] if len(runs) == limit else down_to or None)


def jobs(reader: sqlite3.Connection, query: JobQuery) -> JobPage:
    tenants = _streams(reader, query)
    below = _ABOVE_ALL if query.before is None else order_of(query.before)
    # One more than asked for: so the last page knows that it is the last.
    limit = query.limit + 1
    if all(len(streams) == 1 for streams in tenants):
        drawers = [drawer for (only,) in tenants for drawer in only.drawers]
        found = _in_order(reader, drawers, below=below, limit=limit)
    else:
        found = _met_by_tenants(reader, tenants, below=below, limit=limit)
    runs = found.runs[: query.limit]
    following = runs[-1] if len(found.runs) > len(runs) else found.down_to
    listed = reader.execute(LISTED, (orjson.dumps([run_id_of(run) for run in runs]).decode(),))
    return JobPage(runs=[Listed(*row) for row in listed], following=None if following is None else run_id_of(following))


def labels(reader: sqlite3.Connection, query: LabelQuery) -> Sequence[LabelCount]:
    found = (LabelCount(*row) for row in _rows(reader, counted(query)))
    return list(takewhile(lambda counted: counted.label.startswith(query.prefix), found))


def newest(drawers: Sequence[int], *, below: Run, limit: int) -> list[Statement]:
    """For the runs in these drawers; of several statements each gives a page, to be merged."""
    return merged(_RUNS, [(drawer, below) for drawer in drawers], order=_NEWEST_FIRST, limit=limit)


def stretch_end(proposing: Stream, *, below: Run, length: int) -> Statement:
    """For the last run of a stretch of so many; nothing when fewer are left."""
    (page,) = newest(proposing.drawers, below=below, limit=1)
    return Statement(sql=f"{page.sql} OFFSET ?", params=(*page.params, length - 1))


def stretch(proposing: Stream, asked: Sequence[Stream], *, below: Run, down_to: Run, limit: int) -> Statement:
    """For the runs of the stretch that all of those asked have too."""
    has = [_HAS.format(nth=nth, drawers=", ".join("?" * len(each.drawers))) for nth, each in enumerate(asked)]
    part = " AND ".join([f"{_RUNS} AND run >= ?", *has])
    theirs = tuple(chain.from_iterable(each.drawers for each in asked))
    values: list[tuple[Param, ...]] = [(drawer, below, down_to, *theirs) for drawer in proposing.drawers]
    (page,) = merged(part, values, order=_NEWEST_FIRST, limit=limit)
    return page


def with_labels(labels: Collection[str], tenant_id: str | None) -> Statement:
    """For (tenant_id, runs, drawer) of these labels."""
    where, params = all_of(equal(tenant_id=tenant_id))
    # Each bound by itself: of a text in JSON the functions of SQLite give what is before a NUL, which is another label.
    wanted = ", ".join("?" * len(labels))
    return Statement(
        sql=f"SELECT tenant_id, runs, drawer FROM drawers WHERE label IN ({wanted}){where}", params=(*labels, *params)
    )


def counted(query: LabelQuery) -> Statement:
    """For (label, runs) by code points, from where the query begins; what has not its prefix comes behind."""
    begin = ("label >= ?", query.prefix)
    if query.after is not None and query.after >= query.prefix:
        begin = ("label > ?", query.after)
    where, params = all_of(equal(tenant_id=query.tenant_id))
    sql = f"SELECT label, sum(runs) FROM drawers WHERE {begin[0]}{where} GROUP BY label ORDER BY label LIMIT ?"
    return Statement(sql=sql, params=(begin[1], *params, query.limit))


def _streams(reader: sqlite3.Connection, query: JobQuery) -> list[list[Stream]]:
    """Of each tenant that may have such runs: a stream for each thing that is asked for."""
    wanted = set(query.labels)
    labelled: dict[str, list[Stream]] = {}
    for tenant_id, runs, drawer in _rows(reader, with_labels(wanted, query.tenant_id)):
        labelled.setdefault(tenant_id, []).append(Stream(runs, (drawer,)))
    with_all = {tenant_id: streams for tenant_id, streams in labelled.items() if len(streams) == len(wanted)}
    if wanted and not query.status:
        return list(with_all.values())
    status = orjson.dumps(query.status).decode() if query.status else None
    shelves = reader.execute(SHELVES, {"tenant_id": query.tenant_id, "status": status})
    return [
        [*with_all.get(tenant_id, ()), _on_shelves(theirs)]
        for tenant_id, theirs in groupby(shelves, key=lambda row: row[0])
        if tenant_id in with_all or not wanted
    ]


def _on_shelves(shelves: Iterable[tuple[str, int, int]]) -> Stream:
    found = [(runs, of_shelf(shelf)) for _, shelf, runs in shelves]
    return Stream(sum(runs for runs, _ in found), tuple(drawer for _, drawer in found))


def _in_order(reader: sqlite3.Connection, drawers: Sequence[int], *, below: Run, limit: int) -> Found:
    runs = [run for each in newest(drawers, below=below, limit=limit) for run in _column(reader, each)]
    runs = sorted(runs, reverse=True)[:limit]
    return Found(runs, runs[-1] if len(runs) == limit else None)


def _met_by_tenants(
    reader: sqlite3.Connection, tenants: Sequence[Sequence[Stream]], *, below: Run, limit: int
) -> Found:
    """Those that reach highest first: below what is found, or where somebody's looks end, nobody needs to be asked."""
    looks = max(MIN_LOOKS, MAX_LOOKS // len(tenants))
    reached = [(_leap(reader, streams, below), streams) for streams in tenants]
    found = Found([], None)
    for top, streams in sorted(((top, streams) for top, streams in reached if top is not None), reverse=True):
        if found.down_to is not None and top <= found.down_to:
            break
        found = found.with_(_met(reader, streams, below=top, limit=limit, looks=looks), limit)
    return found


def _met(reader: sqlite3.Connection, streams: Sequence[Stream], *, below: Run, limit: int, looks: int) -> Found:
    """The runs that are in all streams, as far as so many looks go."""
    proposing, *asked = sorted(streams)
    runs: list[Run] = []
    left, length = looks // max(1, len(asked)), FIRST_STRETCH
    while True:
        reached = _leap(reader, asked, below)
        if reached is None:
            return Found(runs, None)
        length = min(length, left)
        end = next(_column(reader, stretch_end(proposing, below=reached, length=length)), None)
        missing = limit - len(runs)
        runs += _column(reader, stretch(proposing, asked, below=reached, down_to=end or b"", limit=missing))
        left -= length
        if len(runs) == limit:
            return Found(runs, runs[-1])
        if end is None or left == 0:
            return Found(runs, end)
        below, length = end, length * 4


def _leap(reader: sqlite3.Connection, streams: Sequence[Stream], below: Run) -> Run | None:
    """A bound over which no run is lost, for one of the streams reaches no higher; None: one of them is at its end."""
    for stream in streams:
        (page,) = newest(stream.drawers, below=below, limit=1)
        top = next(_column(reader, page), None)
        if top is None:
            return None
        below = min(below, top + b"\0")  # the least that is more than `top`
    return below


def _column(reader: sqlite3.Connection, statement: Statement) -> Iterator[Any]:
    return iter([value for (value,) in _rows(reader, statement)])


def _rows(reader: sqlite3.Connection, statement: Statement) -> list[Any]:
    return reader.execute(statement.sql, statement.params).fetchall()
