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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from heapq import merge
from itertools import chain, groupby, islice, takewhile
from typing import Any, NamedTuple

import orjson

from pyoco_server.adapters.sqlite.drawers_writing import of_shelf
from pyoco_server.adapters.sqlite.listing import Param, Statement, merged
from pyoco_server.readmodel.jobs import JobPage, JobQuery, LabelCount, LabelQuery, order_of, run_id_of
from pyoco_server.readmodel.query import Listed

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
DRAWERS = """
    SELECT runs, drawer FROM json_each(?) AS wanted CROSS JOIN drawers ON tenant_id = ? AND label = wanted.value
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


def jobs(reader: sqlite3.Connection, query: JobQuery) -> JobPage:
    tenants = _streams(reader, query)
    below = _ABOVE_ALL if query.before is None else order_of(query.before)
    if all(len(streams) == 1 for streams in tenants):
        drawers = [drawer for (only,) in tenants for drawer in only.drawers]
        found = [_in_order(reader, drawers, below=below, limit=query.limit + 1)]
    else:
        looks = max(MIN_LOOKS, MAX_LOOKS // len(tenants))
        found = [_met(reader, streams, below=below, limit=query.limit + 1, looks=looks) for streams in tenants]
    runs, following = _page(found, query.limit)
    listed = reader.execute(LISTED, (orjson.dumps([run_id_of(run) for run in runs]).decode(),))
    return JobPage(runs=[Listed(*row) for row in listed], following=None if following is None else run_id_of(following))


def labels(reader: sqlite3.Connection, query: LabelQuery) -> Sequence[LabelCount]:
    values = {"tenant_id": query.tenant_id, "status": None}
    tenants = sorted({tenant_id for tenant_id, _, _ in reader.execute(SHELVES, values)})
    with ExitStack() as cursors:
        found = [
            cursors.enter_context(closing(reader.execute(statement.sql, statement.params)))
            for statement in labelled(query, tenants)
        ]
        wanted = takewhile(lambda row: row[0].startswith(query.prefix), merge(*found))
        by_label = groupby(wanted, key=lambda row: row[0])
        counted = (LabelCount(label, sum(runs for _, runs in rows)) for label, rows in by_label)
        return list(islice(counted, query.limit))


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


def labelled(query: LabelQuery, tenants: Sequence[str]) -> list[Statement]:
    """For (label, runs) by code points, from where the query begins; read no further than needed."""
    goes_on = query.after is not None and query.after >= query.prefix
    part = f"SELECT label, runs FROM drawers WHERE tenant_id = ? AND label {'>' if goes_on else '>='} ?"
    begin = query.after if goes_on and query.after is not None else query.prefix
    values: list[tuple[Param, ...]] = [(tenant_id, begin) for tenant_id in tenants]
    return merged(part, values, order="label", limit=query.limit * len(tenants))


def _streams(reader: sqlite3.Connection, query: JobQuery) -> list[list[Stream]]:
    """Of each tenant that may have such runs: a stream for each thing that is asked for."""
    status = orjson.dumps(query.status).decode() if query.status else None
    shelves = reader.execute(SHELVES, {"tenant_id": query.tenant_id, "status": status}).fetchall()
    wanted = set(query.labels)
    found = []
    for tenant_id, theirs in groupby(shelves, key=lambda row: row[0]):
        drawers = reader.execute(DRAWERS, (orjson.dumps(list(wanted)).decode(), tenant_id)).fetchall()
        if len(drawers) < len(wanted):
            continue
        streams = [Stream(runs, (drawer,)) for runs, drawer in drawers]
        if query.status or not wanted:
            on_shelves = [(runs, of_shelf(shelf)) for _, shelf, runs in theirs]
            streams.append(Stream(sum(runs for runs, _ in on_shelves), tuple(drawer for _, drawer in on_shelves)))
        found.append(streams)
    return found


def _in_order(reader: sqlite3.Connection, drawers: Sequence[int], *, below: Run, limit: int) -> Found:
    runs = [run for each in newest(drawers, below=below, limit=limit) for run in _column(reader, each)]
    runs = sorted(runs, reverse=True)[:limit]
    return Found(runs, runs[-1] if len(runs) == limit else None)


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


def _page(found: Sequence[Found], limit: int) -> tuple[Sequence[Run], Run | None]:
    """The runs of all down to where all have come, and the one to go on behind."""
    down_to = max((each.down_to for each in found if each.down_to is not None), default=None)
    runs = sorted((run for each in found for run in each.runs if down_to is None or run >= down_to), reverse=True)
    return (runs[:limit], runs[limit - 1]) if len(runs) > limit else (runs, down_to)


def _column(reader: sqlite3.Connection, statement: Statement) -> Iterator[Any]:
    return iter([value for (value,) in reader.execute(statement.sql, statement.params)])
