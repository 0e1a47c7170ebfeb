"""Rows into tables, inside the caller's transaction: an older row changes nothing, and counters and labels go along.

What is stored is read first, so that a heartbeat, which changes no column that is asked for, rewrites no index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from pyoco_server.adapters.sqlite.sums import Sums
from pyoco_server.execution.ids import RunId
from pyoco_server.readmodel.rows import Position, RunRow

_STORED = """
    SELECT run_id, id, version, revision, status, shelf, flow, tag, updated_at, ended_at, labels
    FROM runs JOIN shelves USING (shelf) WHERE run_id IN (SELECT value FROM json_each(?))
"""
_INSERT = """
    INSERT INTO runs (version, revision, summary, shelf, flow, tag, updated_at, ended_at, labels, run_id, id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = """
    UPDATE runs
    SET version = ?, revision = ?, summary = ?, shelf = ?, flow = ?, tag = ?, updated_at = ?, ended_at = ?, labels = ?
    WHERE id = ?
"""
_REFRESH = "UPDATE runs SET version = ?, revision = ?, summary = ? WHERE id = ?"

Keys = tuple[int, str, str, float, float | None, str]


@dataclass(frozen=True, slots=True)
class _Stored:
    id: int
    position: Position
    status: str
    keys: Keys

    @property
    def place(self) -> tuple[str, int, str]:
        return self.status, self.keys[0], self.keys[2]

    @property
    def labels(self) -> str:
        return self.keys[-1]


@dataclass(slots=True)
class _Plan:
    """What a batch changes, sorted by statement."""

    next_id: int
    sums: Sums
    inserts: list[tuple[object, ...]] = field(default_factory=list)
    updates: list[tuple[object, ...]] = field(default_factory=list)
    refreshes: list[tuple[object, ...]] = field(default_factory=list)
    labels_gone: list[tuple[str, int]] = field(default_factory=list)
    labels_come: list[tuple[str, int]] = field(default_factory=list)

    def insert(self, row: RunRow, keys: Keys) -> None:
        self.inserts.append((row.version, row.revision, row.summary, *keys, row.run_id, self.next_id))
        self.labels_come += [(label, self.next_id) for label in row.labels]
        self.sums.come(row.status, keys[0], row.tag)
        self.sums.tell(row, before=None)
        self.next_id += 1

    def update(self, row: RunRow, keys: Keys, known: _Stored) -> None:
        if keys == known.keys:
            self.refreshes.append((row.version, row.revision, row.summary, known.id))
            return
        self.updates.append((row.version, row.revision, row.summary, *keys, known.id))
        self.sums.go(*known.place)
        self.sums.come(row.status, keys[0], row.tag)
        self.sums.tell(row, before=known.status)
        if keys[-1] != known.labels:
            self.labels_gone += _labels_of(known)
            self.labels_come += [(label, known.id) for label in row.labels]

    def carry_out(self, writer: sqlite3.Connection) -> None:
        writer.executemany(_REFRESH, self.refreshes)
        writer.executemany(_UPDATE, self.updates)
        writer.executemany(_INSERT, self.inserts)
        _label(writer, gone=self.labels_gone, come=self.labels_come)
        self.sums.carry_out(writer)


def put_rows(writer: sqlite3.Connection, rows: Sequence[RunRow], *, lived_after: int) -> None:
    """Store the rows (one per run) that are newer than what is stored of their run."""
    stored = _stored(writer, [row.run_id for row in rows])
    shelves: dict[tuple[str, str, bool], int] = {}
    next_id = writer.execute("SELECT coalesce(max(id), 0) + 1 FROM runs").fetchone()[0]
    plan = _Plan(next_id=next_id, sums=Sums(lived_after))
    for row in rows:
        known = stored.get(row.run_id)
        if known is None:
            plan.insert(row, _keys(writer, row, shelves))
        elif row.position > known.position:
            plan.update(row, _keys(writer, row, shelves), known)
    plan.carry_out(writer)


def remove_runs(writer: sqlite3.Connection, run_ids: Sequence[RunId]) -> None:
    """Forget the runs."""
    stored = list(_stored(writer, run_ids).values())
    writer.executemany("DELETE FROM runs WHERE id = ?", [(known.id,) for known in stored])
    _label(writer, gone=[pair for known in stored for pair in _labels_of(known)], come=())
    sums = Sums()
    for known in stored:
        sums.go(*known.place)
    sums.carry_out(writer)


def _stored(writer: sqlite3.Connection, run_ids: Iterable[RunId]) -> dict[RunId, _Stored]:
    found = writer.execute(_STORED, (orjson.dumps(list(run_ids)).decode(),))
    return {row[0]: _Stored(row[1], row[2:4], row[4], row[5:]) for row in found}


def _keys(writer: sqlite3.Connection, row: RunRow, shelves: dict[tuple[str, str, bool], int]) -> Keys:
    kind = (row.status, row.tenant_id, row.archived)
    shelf = shelves.get(kind)
    if shelf is None:
        shelf = shelves[kind] = _shelf(writer, kind)
    return (shelf, row.flow, row.tag, row.updated_at, row.ended_at, orjson.dumps(row.labels).decode())


def _shelf(writer: sqlite3.Connection, kind: tuple[str, str, bool]) -> int:
    find = "SELECT shelf FROM shelves WHERE status = ? AND tenant_id = ? AND archived = ?"
    found = writer.execute(find, kind).fetchone()
    if found is None:
        writer.execute("INSERT INTO shelves (status, tenant_id, archived) VALUES (?, ?, ?)", kind)
        found = writer.execute(find, kind).fetchone()
    return int(found[0])


def _labels_of(known: _Stored) -> list[tuple[str, int]]:
    return [(label, known.id) for label in orjson.loads(known.labels)]


def _label(writer: sqlite3.Connection, *, gone: Sequence[tuple[str, int]], come: Sequence[tuple[str, int]]) -> None:
    writer.executemany("DELETE FROM labels WHERE label = ? AND id = ?", gone)
    writer.executemany("INSERT INTO labels (label, id) VALUES (?, ?)", come)
