"""Rows into tables, inside the caller's transaction: an older row changes nothing, and counters and labels go along.

What is stored is read first, so that a heartbeat, which changes no column that is asked for, rewrites no index.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from pyoco_server.execution.ids import RunId
from pyoco_server.readmodel.rows import Position, RunRow

_STORED = """
    SELECT run_id, id, version, revision, shelf, flow, tag, updated_at, ended_at, labels
    FROM runs WHERE run_id IN (SELECT value FROM json_each(?))
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
    keys: Keys

    @property
    def shelf(self) -> int:
        return self.keys[0]

    @property
    def labels(self) -> str:
        return self.keys[-1]


@dataclass(slots=True)
class _Plan:
    """What a batch changes, sorted by statement."""

    next_id: int
    inserts: list[tuple[object, ...]] = field(default_factory=list)
    updates: list[tuple[object, ...]] = field(default_factory=list)
    refreshes: list[tuple[object, ...]] = field(default_factory=list)
    moved: Counter[int] = field(default_factory=Counter)
    labels_gone: list[tuple[str, int]] = field(default_factory=list)
    labels_come: list[tuple[str, int]] = field(default_factory=list)

    def insert(self, row: RunRow, keys: Keys) -> None:
        self.inserts.append((row.version, row.revision, row.summary, *keys, row.run_id, self.next_id))
        self.labels_come += [(label, self.next_id) for label in row.labels]
        self.moved[keys[0]] += 1
        self.next_id += 1

    def update(self, row: RunRow, keys: Keys, known: _Stored) -> None:
        if keys == known.keys:
            self.refreshes.append((row.version, row.revision, row.summary, known.id))
            return
        self.updates.append((row.version, row.revision, row.summary, *keys, known.id))
        self.moved[known.shelf] -= 1
        self.moved[keys[0]] += 1
        if keys[-1] != known.labels:
            self.labels_gone += _labels_of(known)
            self.labels_come += [(label, known.id) for label in row.labels]

    def carry_out(self, writer: sqlite3.Connection) -> None:
        writer.executemany(_REFRESH, self.refreshes)
        writer.executemany(_UPDATE, self.updates)
        writer.executemany(_INSERT, self.inserts)
        _label(writer, gone=self.labels_gone, come=self.labels_come)
        _count(writer, self.moved)


def put_rows(writer: sqlite3.Connection, rows: Sequence[RunRow]) -> None:
    """Store the rows (one per run) that are newer than what is stored of their run."""
    stored = _stored(writer, [row.run_id for row in rows])
    shelves: dict[tuple[str, str, bool], int] = {}
    plan = _Plan(next_id=writer.execute("SELECT coalesce(max(id), 0) + 1 FROM runs").fetchone()[0])
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
    _count(writer, Counter({shelf: -n for shelf, n in Counter(known.shelf for known in stored).items()}))


def _stored(writer: sqlite3.Connection, run_ids: Iterable[RunId]) -> dict[RunId, _Stored]:
    found = writer.execute(_STORED, (orjson.dumps(list(run_ids)).decode(),))
    return {row[0]: _Stored(row[1], row[2:4], row[4:]) for row in found}


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


def _count(writer: sqlite3.Connection, moved: Counter[int]) -> None:
    changes = [(by, shelf) for shelf, by in moved.items() if by]
    writer.executemany("UPDATE shelves SET runs = runs + ? WHERE shelf = ?", changes)
