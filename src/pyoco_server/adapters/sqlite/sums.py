"""Counters beside the rows, kept in the rows' own transaction and read without looking at a row.

A queue knows how many runs of a tag wait on a shelf; a tally, what has happened to runs since the file was begun. A
queue becomes shorter again, a tally never does. How many runs lie on a shelf is known there.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyoco_server.domain.queries.histograms import Tallies, Waiting, bucket_of, gathered, news
from pyoco_server.domain.queries.rows import RunRow

WAITS = "PENDING"

_QUEUE = """
    INSERT INTO queues (shelf, tag, runs) VALUES (?, ?, ?)
    ON CONFLICT (shelf, tag) DO UPDATE SET runs = runs + excluded.runs
"""
_EMPTY_QUEUE = "DELETE FROM queues WHERE shelf = ? AND tag = ? AND runs = 0"
_TALLY = """
    INSERT INTO tallies (tenant_id, tally, label, bucket, runs, seconds) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant_id, tally, label, bucket)
    DO UPDATE SET runs = runs + excluded.runs, seconds = seconds + excluded.seconds
"""
_COUNTS = """
    SELECT status, sum(runs) FROM shelves WHERE :tenant_id IS NULL OR tenant_id = :tenant_id
    GROUP BY status HAVING sum(runs) > 0
"""
_DEEPEST = """
    WITH deepest AS (
        SELECT tag, sum(queues.runs) AS runs FROM queues JOIN shelves USING (shelf)
        WHERE :tenant_id IS NULL OR tenant_id = :tenant_id
        GROUP BY tag ORDER BY 2 DESC, tag LIMIT :limit
    )
    SELECT deepest.tag, deepest.runs, (
        SELECT min((SELECT min(updated_at) FROM runs WHERE runs.shelf = queues.shelf AND runs.tag = queues.tag))
        FROM queues JOIN shelves USING (shelf)
        WHERE queues.tag = deepest.tag AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
    ) FROM deepest ORDER BY 2 DESC, 1
"""
_TALLIES = """
    SELECT tally, label, bucket, runs, seconds FROM tallies WHERE :tenant_id IS NULL OR tenant_id = :tenant_id
"""


@dataclass(slots=True)
class Sums:
    """What a batch changes of the counters. Changes up to `lived_after` are rows, but nothing that happened."""

    lived_after: int = 0
    queues: Counter[tuple[int, str]] = field(default_factory=Counter)
    tallies: dict[tuple[str, str, str, int], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0, 0.0]))

    def come(self, status: str, shelf: int, tag: str) -> None:
        if status == WAITS:
            self.queues[shelf, tag] += 1

    def go(self, status: str, shelf: int, tag: str) -> None:
        if status == WAITS:
            self.queues[shelf, tag] -= 1

    def tell(self, row: RunRow, *, before: str | None) -> None:
        """Count the steps that this row has taken since the stored one."""
        if row.revision <= self.lived_after:
            return
        for tally, label, seconds in news(row.status, row.times, before=before):
            cell = self.tallies[row.tenant_id, tally.value, label, bucket_of(seconds)]
            cell[0] += 1
            cell[1] += seconds

    def carry_out(self, writer: sqlite3.Connection) -> None:
        queues = [(shelf, tag, by) for (shelf, tag), by in self.queues.items() if by]
        writer.executemany(_QUEUE, queues)
        writer.executemany(_EMPTY_QUEUE, [(shelf, tag) for shelf, tag, by in queues if by < 0])
        writer.executemany(_TALLY, list(self._cells()))

    def _cells(self) -> Iterator[tuple[object, ...]]:
        for key, (runs, seconds) in self.tallies.items():
            yield (*key, runs, seconds)


def counts(reader: sqlite3.Connection, tenant_id: str | None) -> dict[str, int]:
    return dict(reader.execute(_COUNTS, {"tenant_id": tenant_id}).fetchall())


def waiting(reader: sqlite3.Connection, tenant_id: str | None, limit: int) -> Sequence[Waiting]:
    found = reader.execute(_DEEPEST, {"tenant_id": tenant_id, "limit": limit})
    return [Waiting(tag=tag, runs=runs, since=since) for tag, runs, since in found]


def tallies(reader: sqlite3.Connection, tenant_id: str | None) -> Tallies:
    return gathered(reader.execute(_TALLIES, {"tenant_id": tenant_id}))
