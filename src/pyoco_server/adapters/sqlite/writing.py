"""Writes rows inside the caller's transaction: an older row changes nothing, and counts and posting lists follow.

The stored row is read first, so that a heartbeat, which changes no indexed column, rewrites no index.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

import orjson

from pyoco_server.adapters.sqlite.blocks import BlockBounds
from pyoco_server.adapters.sqlite.counters import HistogramChanges
from pyoco_server.adapters.sqlite.posting_lists import Posted, PostingChanges
from pyoco_server.adapters.sqlite.statements import KeyIds, json_array, undamaged
from pyoco_server.adapters.sqlite.stats import Source, StatsChanges
from pyoco_server.adapters.sqlite.steps import StepChanges
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.jobs import order_of
from pyoco_server.domain.queries.query import terms_of
from pyoco_server.domain.queries.rows import Position, RunRow
from pyoco_server.domain.queries.stats import RunTimes

_STORED = """
    SELECT run_id, number, version, revision, status, tenant_id, archived, steps, summary, checksum, submitted_at,
        partition, flow, tag, updated_at, ended_at, error
    FROM runs JOIN partitions USING (partition) WHERE run_id IN (SELECT value FROM json_each(?))
"""
_INSERT = """
    INSERT INTO runs (
        version, revision, summary, checksum, steps, changed, partition, flow, tag, updated_at, ended_at, error,
        run_id, run_key, submitted_at, number
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = """
    UPDATE runs SET version = ?, revision = ?, summary = ?, checksum = ?, steps = ?, changed = ?,
        partition = ?, flow = ?, tag = ?, updated_at = ?, ended_at = ?, error = ?
    WHERE number = ?
"""
# Apart from the others: it hardly ever changes, and its index is then left alone.
_RESUBMIT = "UPDATE runs SET submitted_at = ? WHERE number = ?"
_REFRESH = "UPDATE runs SET revision = ?, summary = ?, checksum = ?, steps = ? WHERE number = ?"
_COUNT = "UPDATE partitions SET runs = runs + ? WHERE partition = ?"


class Keys(NamedTuple):
    """The indexed columns of a run."""

    partition: int
    flow: str
    tag: str
    updated_at: float
    ended_at: float | None
    error: str | None


class _Stored(NamedTuple):
    number: int
    position: Position
    status: str
    tenant_id: str
    archived: int
    steps: int
    summary: bytes
    checksum: int
    submitted_at: float
    keys: Keys

    @property
    def source(self) -> Source:
        return (self.tenant_id, self.keys.flow, self.keys.tag)

    def read_summary(self) -> tuple[Posted, RunTimes]:
        summary = orjson.loads(undamaged(self.summary, self.checksum))
        terms = terms_of(summary["tags"], summary.get("workflow_yaml_sha256"))
        times = RunTimes(self.status, self.submitted_at, summary["start_time"], summary["end_time"], self.keys.ended_at)
        return Posted(self.tenant_id, bool(self.archived), terms), times


class _Batch:
    """What a batch changes, by statement."""

    def __init__(self, writer: sqlite3.Connection, *, count_after: int = 0) -> None:
        self._writer = writer
        self._partitions = KeyIds(writer, "partitions", "partition", "status", "tenant_id", "archived")
        self._next_number = writer.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0]
        self._inserts: list[tuple[object, ...]] = []
        self._updates: list[tuple[object, ...]] = []
        self._resubmissions: list[tuple[float, int]] = []
        self._refreshes: list[tuple[object, ...]] = []
        self._removals: list[tuple[int]] = []
        self._counts: Counter[int] = Counter()
        self._histograms = HistogramChanges(count_after)
        self._stats = StatsChanges(writer)
        self._steps = StepChanges(writer)
        self._postings = PostingChanges(writer)
        self._bounds = BlockBounds()

    def insert(self, row: RunRow) -> None:
        keys, key, number = self._keys(row), order_of(row.run_id), self._next_number
        self._next_number += 1
        self._inserts.append((*_shown(row), *keys, row.run_id, key, row.submitted_at, number))
        self._steps.change(number, row, before=0)
        self._postings.change(number, None, _posted(row))
        self._bounds.widen(number, key, row)
        self._counts[keys.partition] += 1
        self._histograms.add(row, before=None)
        self._stats.add(_source(row), row.run_times)

    def update(self, row: RunRow, known: _Stored) -> None:
        keys, posted = self._keys(row), _posted(row)
        posted_before, times_before = known.read_summary()
        self._steps.change(known.number, row, before=known.steps)
        is_same = (keys, posted, row.version) == (known.keys, posted_before, known.position[0])
        if is_same and row.submitted_at == known.submitted_at:
            self._refreshes.append((row.revision, row.summary, crc32(row.summary), len(row.steps), known.number))
            return
        self._updates.append((*_shown(row), *keys, known.number))
        self._postings.change(known.number, posted_before, posted)
        self._bounds.widen(known.number, order_of(row.run_id), row)
        if row.submitted_at != known.submitted_at:
            self._resubmissions.append((row.submitted_at, known.number))
        self._counts[known.keys.partition] -= 1
        self._counts[keys.partition] += 1
        self._histograms.add(row, before=known.status)
        self._stats.remove(known.source, times_before)
        self._stats.add(_source(row), row.run_times)

    def remove(self, known: _Stored) -> None:
        self._removals.append((known.number,))
        self._steps.change(known.number, None, before=known.steps)
        posted, times = known.read_summary()
        self._postings.change(known.number, posted, None)
        self._counts[known.keys.partition] -= 1
        self._stats.remove(known.source, times)

    def flush(self) -> None:
        self._writer.executemany("DELETE FROM runs WHERE number = ?", self._removals)
        self._writer.executemany(_REFRESH, self._refreshes)
        self._writer.executemany(_UPDATE, self._updates)
        self._writer.executemany(_RESUBMIT, self._resubmissions)
        self._writer.executemany(_INSERT, self._inserts)
        self._writer.executemany(_COUNT, [(by, partition) for partition, by in self._counts.items() if by])
        self._postings.flush()
        self._bounds.flush(self._writer)
        self._histograms.flush(self._writer)
        self._stats.flush()
        self._steps.flush()

    def _keys(self, row: RunRow) -> Keys:
        partition = self._partitions[row.status, row.tenant_id, row.archived]
        return Keys(partition, row.flow, row.tag, row.updated_at, row.ended_at, row.error)


def put_rows(writer: sqlite3.Connection, rows: Sequence[RunRow], *, count_after: int) -> None:
    """Store the rows that are newer than what is stored of their run."""
    newest: dict[RunId, RunRow] = {}
    for row in rows:
        newest[row.run_id] = max(newest.get(row.run_id, row), row, key=lambda row: row.position)
    stored = _stored(writer, newest)
    batch = _Batch(writer, count_after=count_after)
    for row in newest.values():
        known = stored.get(row.run_id)
        if known is None:
            batch.insert(row)
        elif row.position > known.position:
            batch.update(row, known)
    batch.flush()


def remove_runs(writer: sqlite3.Connection, run_ids: Sequence[RunId]) -> None:
    batch = _Batch(writer)
    for known in _stored(writer, run_ids).values():
        batch.remove(known)
    batch.flush()


def _stored(writer: sqlite3.Connection, run_ids: Iterable[RunId]) -> dict[RunId, _Stored]:
    found = writer.execute(_STORED, (json_array(list(run_ids)),))
    return {
        row[0]: _Stored(row[1], row[2:4], row[4], row[5], row[6], row[7], row[8], row[9], row[10], Keys(*row[11:]))
        for row in found
    }


def _shown(row: RunRow) -> tuple[object, ...]:
    return (row.version, row.revision, row.summary, crc32(row.summary), len(row.steps), row.revision)


def _source(row: RunRow) -> Source:
    return (row.tenant_id, row.flow, row.tag)


def _posted(row: RunRow) -> Posted:
    return Posted(row.tenant_id, row.archived, row.terms)
