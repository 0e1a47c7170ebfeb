"""Counts of runs by status and tag, and histograms of what has happened to runs since the file was created."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyoco_server.domain.queries.histograms import Tallies, Waiting, bucket_of, gathered, news
from pyoco_server.domain.queries.rows import RunRow

_ADD = """
    INSERT INTO histograms (tenant_id, name, label, bucket, runs, seconds) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant_id, name, label, bucket)
    DO UPDATE SET runs = runs + excluded.runs, seconds = seconds + excluded.seconds
"""
_COUNTS = """
    SELECT status, sum(runs) FROM partitions WHERE :tenant_id IS NULL OR tenant_id = :tenant_id
    GROUP BY status HAVING sum(runs) > 0
"""
# The inner groups are read in the order of their index, so nothing is sorted but the result.
_WAITING = """
    SELECT tag, sum(runs), min(since) FROM (
        SELECT tag, count(*) AS runs, min(updated_at) AS since FROM runs INDEXED BY by_tag
        WHERE partition IN (
            SELECT partition FROM partitions
            WHERE status = 'PENDING' AND runs > 0 AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
        )
        GROUP BY partition, tag
    )
    GROUP BY tag ORDER BY 2 DESC, 1 LIMIT :limit
"""
_HISTOGRAMS = """
    SELECT name, label, bucket, runs, seconds FROM histograms WHERE :tenant_id IS NULL OR tenant_id = :tenant_id
"""


@dataclass(slots=True)
class HistogramChanges:
    """What a batch adds to the histograms. Revisions up to `count_after` add nothing: they are older than the file."""

    count_after: int
    added: dict[tuple[str, str, str, int], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0, 0.0]))

    def add(self, row: RunRow, *, before: str | None) -> None:
        """Count what has happened to the run since its status was `before`."""
        if row.revision <= self.count_after:
            return
        for name, label, seconds in news(row.status, row.times, before=before):
            bucket = self.added[row.tenant_id, name.value, label, bucket_of(seconds)]
            bucket[0] += 1
            bucket[1] += seconds

    def flush(self, writer: sqlite3.Connection) -> None:
        writer.executemany(_ADD, [(*key, runs, seconds) for key, (runs, seconds) in self.added.items()])


def counts(reader: sqlite3.Connection, tenant_id: str | None) -> dict[str, int]:
    return dict(reader.execute(_COUNTS, {"tenant_id": tenant_id}).fetchall())


def waiting(reader: sqlite3.Connection, tenant_id: str | None, limit: int) -> Sequence[Waiting]:
    return [Waiting(*row) for row in reader.execute(_WAITING, {"tenant_id": tenant_id, "limit": limit})]


def histograms(reader: sqlite3.Connection, tenant_id: str | None) -> Tallies:
    return gathered(reader.execute(_HISTOGRAMS, {"tenant_id": tenant_id}))
