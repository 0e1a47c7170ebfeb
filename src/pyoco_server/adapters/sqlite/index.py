"""The index of runs in SQLite: one connection that writes, one that reads beside it, for any thread.

It answers lists with the stored bytes and never parses them. When the file turns out to be damaged it answers nothing
any more (a half list would look true) until the follower starts again: `position` is then None, and `reset` makes a
new file.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from pyoco_server.adapters.sqlite import drawers_listing, listing, steps_listing, sums
from pyoco_server.adapters.sqlite.migrate import Claim, claim, open_reader, open_writer, start_empty
from pyoco_server.adapters.sqlite.writing import put_rows, remove_runs
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import Tallies, Waiting
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery
from pyoco_server.domain.queries.query import AT_WORK, IndexPosition, Listed, RunQuery, SnapshotSeen
from pyoco_server.domain.queries.rows import fresh, newest
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery
from pyoco_server.errors import BrokerUnavailable

# A mark of our own: what the bucket held up to here was there before the file.
_LIVED_AFTER = "lived after"


class SqliteRunIndex:
    """See `application.ports.RunIndex`."""

    def __init__(self, held: Claim, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self._claim = held
        self._writer = writer
        self._reader = reader
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._damaged = False
        self._marks: dict[str, int] = {}
        self._lived_after: int | None = None

    @classmethod
    def open(cls, path: Path) -> SqliteRunIndex:
        """The index in this file, or an empty one; never fails for what the file holds or who else has it."""
        held = claim(path)
        return cls(held, open_writer(held.path), open_reader(held.path))

    @property
    def path(self) -> Path:
        """The file in use: another one than was asked for when another process has that."""
        return self._claim.path

    def close(self) -> None:
        with suppress(BrokerUnavailable), self._writing() as writer:
            self._store_marks(writer)
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()
            self._claim.release()

    def position(self) -> IndexPosition | None:
        try:
            with self._writing() as writer:
                return _position(writer)
        except BrokerUnavailable:
            return None

    def reset(self, *, lived_after: int = 0) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()
            self._writer = start_empty(self.path)
            self._reader = open_reader(self.path)
            self._writer.execute("INSERT INTO marks VALUES (?, ?)", (_LIVED_AFTER, lived_after))
            self._lived_after = lived_after
            self._marks.clear()
            self._damaged = False

    def apply(self, changes: Sequence[SnapshotSeen], position: IndexPosition) -> None:
        with self._writing() as writer:
            known = _position(writer)
            if self._lived_after is None:
                self._lived_after = _marked(writer, _LIVED_AFTER)
            news = fresh(changes, after=known.sequence if known else 0)
            for removed, group in groupby(news, key=lambda seen: seen.plain is None):
                if removed:
                    remove_runs(writer, [seen.run_id for seen in group])
                else:
                    put_rows(writer, newest(group), lived_after=self._lived_after)
            if known is None or position.sequence > known.sequence:
                writer.execute(
                    "INSERT OR REPLACE INTO position VALUES (1, ?, ?, ?)",
                    (position.stream_created, position.sequence, position.last_key),
                )
            self._store_marks(writer)

    def rows(self, query: RunQuery) -> Sequence[Listed]:
        with self._reading() as reader:
            statements = _plan(reader, query)
            found = _run(reader, statements)
        if len(statements) > 1:
            found.sort(key=lambda row: row[:2], reverse=True)
        return [Listed(*row) for row in found[: query.limit]]

    def changed(self, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
        with self._reading() as reader:
            shelves = _shelves(reader, query)
            if not shelves:
                return []
            few = reader.execute(listing.CHANGES, (since,)).fetchone()[0] <= listing.MAX_CHANGES_SORTED
            found = _run(reader, listing.changed(query, shelves, since=since, after=after, upto=upto, sort=few))
        return [Listed(*row) for row in found]

    def last_run_id(self) -> str:
        with self._reading() as reader:
            return str(reader.execute(listing.LAST_RUN_ID).fetchone()[0])

    def summaries(self, query: RunQuery) -> Sequence[bytes]:
        return [row.summary for row in self.rows(query)]

    def run_ids(self, query: RunQuery) -> Sequence[RunId]:
        return [row.run_id for row in self.rows(query)]

    def jobs(self, query: JobQuery) -> JobPage:
        with self._reading() as reader:
            return drawers_listing.jobs(reader, query)

    def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        with self._reading() as reader:
            return drawers_listing.labels(reader, query)

    def known(self, run_ids: Sequence[RunId]) -> Mapping[RunId, tuple[int, str]]:
        with self._reading() as reader:
            found = reader.execute(listing.KNOWN, (orjson.dumps(run_ids).decode(),))
            return {RunId(run_id): (version, status) for run_id, version, status in found}

    def tenants(self, run_ids: Sequence[RunId]) -> Mapping[RunId, str]:
        with self._reading() as reader:
            found = reader.execute(listing.TENANTS, (orjson.dumps(run_ids).decode(),))
            return {RunId(run_id): tenant_id for run_id, tenant_id in found}

    def mark(self, name: str) -> int:
        if name in self._marks:
            return self._marks[name]
        with self._reading() as reader:
            return _marked(reader, name)

    def set_mark(self, name: str, value: int) -> None:
        # Stored with the next batch: the event loop must not wait for the thread that writes one, and a mark that is
        # lost only has its owner look at some commits twice.
        self._marks[name] = value

    def counts(self, tenant_id: str | None = None) -> Mapping[str, int]:
        with self._reading() as reader:
            return sums.counts(reader, tenant_id)

    def waiting(self, tenant_id: str | None = None, *, limit: int) -> Sequence[Waiting]:
        with self._reading() as reader:
            return sums.waiting(reader, tenant_id, limit)

    def tallies(self, tenant_id: str | None = None) -> Tallies:
        with self._reading() as reader:
            return sums.tallies(reader, tenant_id)

    def finished_before(self, ended_at: float, limit: int) -> Sequence[RunId]:
        with self._reading() as reader:
            found = reader.execute(
                "SELECT run_id FROM runs WHERE ended_at < ? ORDER BY ended_at, run_id LIMIT ?", (ended_at, limit)
            )
            return [RunId(run_id) for (run_id,) in found]

    def at_work(self, limit: int) -> Mapping[RunId, int]:
        with self._reading() as reader:
            found_shelves = [reader.execute(listing.UNFINISHED_SHELVES, (status,)).fetchall() for status in AT_WORK]
            shelves = [shelf for rows in found_shelves for (shelf,) in rows]
            found = reader.execute(listing.AT_WORK, (listing.numbers(shelves), limit))
            return {RunId(run_id): revision for run_id, revision in found}

    def unfinished(self, *, status: str, tag: str, updated_before: float, limit: int) -> Sequence[RunId]:
        with self._reading() as reader:
            shelves = [shelf for (shelf,) in reader.execute(listing.UNFINISHED_SHELVES, (status,))]
            found = _run(reader, listing.unfinished(shelves, tag, updated_before, limit))
        return [RunId(run_id) for _, run_id in sorted(found)[:limit]]

    def oldest(self, status: str, *, after: tuple[float, str] | None = None, limit: int) -> Sequence[Listed]:
        with self._reading() as reader:
            shelves = [shelf for (shelf,) in reader.execute(listing.UNFINISHED_SHELVES, (status,))]
            found = _run(reader, listing.oldest(shelves, after, limit))
        return [Listed(*row) for row in sorted(found)[:limit]]

    def claimable(
        self, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
    ) -> Sequence[ClaimableNode]:
        with self._reading() as reader:
            return steps_listing.claimable(reader, graph_ids, tenant_id=tenant_id, now=now, limit=limit)

    def next_lease_end(self, graph_ids: Collection[str], *, tenant_id: str | None) -> float | None:
        with self._reading() as reader:
            return steps_listing.next_lease_end(reader, graph_ids, tenant_id)

    def waits(self, query: WaitQuery) -> Sequence[WaitingNode]:
        with self._reading() as reader:
            return steps_listing.waits(reader, query)

    def due(self, *, before: float, limit: int) -> Sequence[DueNode]:
        with self._reading() as reader:
            return steps_listing.due(reader, before, limit)

    def steps_count(self) -> Mapping[StepKind, int]:
        with self._reading() as reader:
            return steps_listing.counts(reader)

    def _store_marks(self, writer: sqlite3.Connection) -> None:
        writer.executemany("INSERT OR REPLACE INTO marks VALUES (?, ?)", list(self._marks.items()))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._write_lock, self._transaction(self._writer, "BEGIN IMMEDIATE"):
            yield self._writer

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        # A transaction around reading too: the shelves and what lies on them must be of the same moment.
        with self._read_lock, self._transaction(self._reader, "BEGIN"):
            yield self._reader

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection, begin: str) -> Iterator[None]:
        if self._damaged:
            raise BrokerUnavailable("the index of runs is being built again")
        try:
            connection.execute(begin)
            try:
                yield
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as broken:
            self._damaged = True
            raise BrokerUnavailable(f"the index of runs cannot be used ({broken}) and will be built again") from broken


def _position(connection: sqlite3.Connection) -> IndexPosition | None:
    found = connection.execute("SELECT stream_created, sequence, last_key FROM position").fetchone()
    return IndexPosition(stream_created=found[0], sequence=found[1], last_key=found[2]) if found else None


def _marked(connection: sqlite3.Connection, name: str) -> int:
    found = connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
    return int(found[0]) if found else 0


def _run(reader: sqlite3.Connection, statements: Sequence[listing.Statement]) -> list[tuple[Any, ...]]:
    return [row for statement in statements for row in reader.execute(statement.sql, statement.params)]


def _shelves(reader: sqlite3.Connection, query: RunQuery) -> list[int]:
    return [shelf for (shelf,) in reader.execute(listing.SHELVES, listing.shelves(query))]


def _rarest_first(reader: sqlite3.Connection, terms: Sequence[str]) -> Sequence[str]:
    if len(terms) < 2:
        return terms
    return sorted(terms, key=lambda term: reader.execute(listing.TERM_FAMILIES, (term,)).fetchone()[0])


def _plan(reader: sqlite3.Connection, query: RunQuery) -> list[listing.Statement]:
    """The cheapest of the ways to read the page; all of them give the same one."""
    shelves = _shelves(reader, query)
    if not query.terms and (query.flow is None or query.tag is None):
        return listing.in_order(query, shelves)
    found = listing.families(query, _rarest_first(reader, query.terms))
    families = [family for (family,) in reader.execute(found.sql, found.params)]
    if len(families) > listing.MAX_FAMILIES:
        return listing.in_order(query, shelves)
    counted = reader.execute(listing.CELLS, (listing.numbers(families), listing.numbers(shelves))).fetchall()
    cells = [(family, shelf) for family, shelf, _ in counted]
    if len(cells) <= listing.MAX_MERGED:
        return listing.by_cells(query, cells)
    if sum(runs for _, _, runs in counted) <= listing.MAX_GATHERED:
        return listing.gathered(query, families, shelves)
    return listing.in_order(query, sorted({shelf for _, shelf in cells}))
