"""The run index in SQLite: one connection that writes and one that reads beside it, for any thread.

Lists return the stored summaries without parsing them, but compare each with its checksum. When the file turns out to
be damaged, every call raises `IndexUnavailable` (half a list would look complete) and `position` is None, so that the
indexer rebuilds it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from pyoco_server.adapters.sqlite import counters, listing, posting_lists, steps
from pyoco_server.adapters.sqlite import stats as time_series
from pyoco_server.adapters.sqlite.cache_file import CacheFile
from pyoco_server.adapters.sqlite.files import RUN_SCHEMA
from pyoco_server.adapters.sqlite.statements import json_array
from pyoco_server.adapters.sqlite.writing import put_rows, remove_runs
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import Tallies, Waiting
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery
from pyoco_server.domain.queries.query import AT_WORK, IndexPosition, KnownRun, Listed, RunQuery, SearchPage
from pyoco_server.domain.queries.rows import Change, Removed, RunRow, fresh
from pyoco_server.domain.queries.stats import Stats, StatsQuery
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery
from pyoco_server.errors import IndexUnavailable

# A mark for internal use: the argument of the last reset.
_COUNT_AFTER = "count after"
_KNOWN = """
    SELECT run_id, version, status, tenant_id FROM runs JOIN partitions USING (partition)
    WHERE run_id IN (SELECT value FROM json_each(?))
"""

P = ParamSpec("P")
R = TypeVar("R")


class SqliteRunIndex:
    """See `ports.RunIndex`."""

    def __init__(self, file: CacheFile) -> None:
        self._file = file
        self._marks: dict[str, int] = {}
        self._count_after: int | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """The index in this file, or an empty one; never fails because of the file's content or another user of it."""
        return cls(CacheFile.open(path, RUN_SCHEMA))

    @property
    def path(self) -> Path:
        """The file in use; not the requested one when another process has that."""
        return self._file.path

    def close(self) -> None:
        with suppress(IndexUnavailable), self._file.writing() as writer:
            self._store_marks(writer)
        self._file.close()

    def position(self) -> IndexPosition | None:
        try:
            with self._file.writing() as writer:
                return _position(writer)
        except IndexUnavailable:
            return None

    def reset(self, *, count_after: int = 0) -> None:
        with self._file.replacing() as writer:
            writer.execute("INSERT INTO marks VALUES (?, ?)", (_COUNT_AFTER, count_after))
            self._count_after = count_after
            self._marks.clear()

    def apply(self, changes: Sequence[Change], position: IndexPosition) -> None:
        with self._file.writing() as writer:
            known = _position(writer)
            if self._count_after is None:
                self._count_after = _marked(writer, _COUNT_AFTER)
            news = fresh(changes, after=known.sequence if known else 0)
            for _, group in groupby(news, key=type):
                some = list(group)
                put_rows(writer, [row for row in some if isinstance(row, RunRow)], count_after=self._count_after)
                remove_runs(writer, [change.run_id for change in some if isinstance(change, Removed)])
            if known is None or position.sequence > known.sequence:
                writer.execute(
                    "INSERT OR REPLACE INTO position VALUES (1, ?, ?, ?)",
                    (position.stream_created, position.sequence, position.last_key),
                )
            self._store_marks(writer)

    def rows(self, query: RunQuery) -> Sequence[Listed]:
        return self._read(listing.runs, query)

    def search(self, query: RunQuery) -> SearchPage:
        return self._read(listing.search, query)

    def count(self, query: RunQuery) -> int | None:
        return self._read(listing.count, query) if query.is_counted else None

    def changed(self, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
        return self._read(listing.changed, query, since=since, after=after, upto=upto)

    def last_run_id(self) -> str:
        with self._file.reading() as reader:
            return str(reader.execute("SELECT coalesce(max(run_id), '') FROM runs").fetchone()[0])

    def jobs(self, query: JobQuery) -> JobPage:
        return self._read(listing.jobs, query)

    def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        return self._read(posting_lists.labels, query)

    def known(self, run_ids: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        with self._file.reading() as reader:
            found = reader.execute(_KNOWN, (json_array(run_ids),))
            return {RunId(run_id): KnownRun(*columns) for run_id, *columns in found}

    def mark(self, name: str) -> int:
        if name in self._marks:
            return self._marks[name]
        with self._file.reading() as reader:
            return _marked(reader, name)

    def set_mark(self, name: str, value: int) -> None:
        # Stored with the next batch: the event loop must not wait for the writing thread, and after a lost mark its
        # owner only reads some commits twice.
        self._marks[name] = value

    def counts(self, tenant_id: str | None = None) -> Mapping[str, int]:
        return self._read(counters.counts, tenant_id)

    def waiting(self, tenant_id: str | None = None, *, limit: int) -> Sequence[Waiting]:
        return self._read(counters.waiting, tenant_id, limit)

    def tallies(self, tenant_id: str | None = None) -> Tallies:
        return self._read(counters.histograms, tenant_id)

    def stats(self, query: StatsQuery) -> Stats:
        return self._read(time_series.stats, query)

    def finished_before(self, ended_at: float, limit: int) -> Sequence[RunId]:
        with self._file.reading() as reader:
            found = reader.execute(
                "SELECT run_id FROM runs WHERE ended_at < ? ORDER BY ended_at, run_id LIMIT ?", (ended_at, limit)
            )
            return [RunId(run_id) for (run_id,) in found]

    def at_work(self, limit: int) -> Mapping[RunId, int]:
        with self._file.reading() as reader:
            partitions = [each for status in AT_WORK for each in listing.status_partitions(reader, status)]
            found = reader.execute(
                "SELECT run_id, revision FROM runs WHERE partition IN (SELECT value FROM json_each(?)) LIMIT ?",
                (json_array(partitions), limit),
            )
            return {RunId(run_id): revision for run_id, revision in found}

    def oldest(
        self,
        status: str,
        *,
        tag: str | None = None,
        updated_before: float | None = None,
        after: tuple[float, str] | None = None,
        limit: int,
    ) -> Sequence[Listed]:
        return self._read(listing.oldest, status, tag=tag, updated_before=updated_before, after=after, limit=limit)

    def claimable(
        self, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
    ) -> Sequence[ClaimableNode]:
        return self._read(steps.claimable, graph_ids, tenant_id=tenant_id, now=now, limit=limit)

    def next_lease_end(self, graph_ids: Collection[str], *, tenant_id: str | None) -> float | None:
        return self._read(steps.next_lease_end, graph_ids, tenant_id)

    def waits(self, query: WaitQuery) -> Sequence[WaitingNode]:
        return self._read(steps.waits, query)

    def due(self, *, before: float, limit: int) -> Sequence[DueNode]:
        return self._read(steps.due, before, limit)

    def steps_count(self, tenant_id: str | None = None) -> Mapping[StepKind, int]:
        return self._read(steps.counts, tenant_id)

    def _store_marks(self, writer: sqlite3.Connection) -> None:
        writer.executemany("INSERT OR REPLACE INTO marks VALUES (?, ?)", list(self._marks.items()))

    def _read(self, query: Callable[Concatenate[sqlite3.Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        with self._file.reading() as reader:
            return query(reader, *args, **kwargs)


def _position(connection: sqlite3.Connection) -> IndexPosition | None:
    found = connection.execute("SELECT stream_created, sequence, last_key FROM position").fetchone()
    return IndexPosition(stream_created=found[0], sequence=found[1], last_key=found[2]) if found else None


def _marked(connection: sqlite3.Connection, name: str) -> int:
    found = connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
    return int(found[0]) if found else 0
