"""Rows into tables, inside the caller's transaction: an older row changes nothing, and the counts go along.

What is stored is read first, so that a heartbeat, which changes no column that is asked for, rewrites no index.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from pyoco_server.adapters.sqlite.cells import Cell, Cells, count
from pyoco_server.adapters.sqlite.drawers_writing import DrawerChanges, Filing
from pyoco_server.adapters.sqlite.steps_writing import StepChanges
from pyoco_server.adapters.sqlite.sums import Sums
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.rows import Position, RunRow

_STORED = """
    SELECT run_id, id, version, revision, status, tenant_id, archived, steps,
        family, shelf, flow, tag, updated_at, ended_at
    FROM runs JOIN shelves USING (shelf) WHERE run_id IN (SELECT value FROM json_each(?))
"""
_INSERT = """
    INSERT INTO runs (
        version, revision, summary, steps, changed, family, shelf, flow, tag, updated_at, ended_at, run_id, id
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = """
    UPDATE runs SET version = ?, revision = ?, summary = ?, steps = ?, changed = ?,
        family = ?, shelf = ?, flow = ?, tag = ?, updated_at = ?, ended_at = ?
    WHERE id = ?
"""
_REFRESH = "UPDATE runs SET revision = ?, summary = ?, steps = ? WHERE id = ?"

Keys = tuple[int, int, str, str, float, float | None]


@dataclass(frozen=True, slots=True)
class _Stored:
    id: int
    position: Position
    status: str
    tenant_id: str
    archived: int
    steps: int
    keys: Keys

    @property
    def cell(self) -> Cell:
        return self.keys[:2]

    @property
    def filing(self) -> Filing:
        return Filing(*self.cell, self.tenant_id, bool(self.archived))

    @property
    def queue(self) -> tuple[str, int, str]:
        return self.status, self.keys[1], self.keys[3]


@dataclass(slots=True)
class _Plan:
    """What a batch changes, sorted by statement."""

    next_id: int
    sums: Sums
    inserts: list[tuple[object, ...]] = field(default_factory=list)
    updates: list[tuple[object, ...]] = field(default_factory=list)
    refreshes: list[tuple[object, ...]] = field(default_factory=list)
    moved: Counter[Cell] = field(default_factory=Counter)
    steps: StepChanges = field(default_factory=StepChanges)
    drawers: DrawerChanges = field(default_factory=DrawerChanges)

    def insert(self, row: RunRow, keys: Keys) -> None:
        shown = (row.version, row.revision, row.summary, len(row.steps), row.revision)
        self.inserts.append((*shown, *keys, row.run_id, self.next_id))
        self.steps.change(self.next_id, row, before=0)
        self.drawers.change(row.run_id, None, _filing(row, keys))
        self.moved[keys[:2]] += 1
        self.sums.come(row.status, keys[1], row.tag)
        self.sums.tell(row, before=None)
        self.next_id += 1

    def update(self, row: RunRow, keys: Keys, known: _Stored) -> None:
        self.steps.change(known.id, row, before=known.steps)
        if keys == known.keys and row.version == known.position[0]:
            self.refreshes.append((row.revision, row.summary, len(row.steps), known.id))
            return
        shown = (row.version, row.revision, row.summary, len(row.steps), row.revision)
        self.updates.append((*shown, *keys, known.id))
        if keys[:2] != known.cell:
            self.drawers.change(row.run_id, known.filing, _filing(row, keys))
        self.moved[known.cell] -= 1
        self.moved[keys[:2]] += 1
        self.sums.go(*known.queue)
        self.sums.come(row.status, keys[1], row.tag)
        self.sums.tell(row, before=known.status)

    def carry_out(self, writer: sqlite3.Connection) -> None:
        writer.executemany(_REFRESH, self.refreshes)
        writer.executemany(_UPDATE, self.updates)
        writer.executemany(_INSERT, self.inserts)
        self.drawers.carry_out(writer)
        count(writer, self.moved)
        self.sums.carry_out(writer)
        self.steps.carry_out(writer)


def put_rows(writer: sqlite3.Connection, rows: Sequence[RunRow], *, lived_after: int) -> None:
    """Store the rows (one per run) that are newer than what is stored of their run."""
    stored = _stored(writer, [row.run_id for row in rows])
    cells = Cells(writer)
    next_id = writer.execute("SELECT coalesce(max(id), 0) + 1 FROM runs").fetchone()[0]
    plan = _Plan(next_id=next_id, sums=Sums(lived_after))
    for row in rows:
        known = stored.get(row.run_id)
        if known is None:
            plan.insert(row, _keys(row, cells))
        elif row.position > known.position:
            plan.update(row, _keys(row, cells), known)
    plan.carry_out(writer)


def remove_runs(writer: sqlite3.Connection, run_ids: Sequence[RunId]) -> None:
    """Forget the runs."""
    stored = _stored(writer, run_ids)
    writer.executemany("DELETE FROM runs WHERE id = ?", [(known.id,) for known in stored.values()])
    sums, steps, drawers = Sums(), StepChanges(), DrawerChanges()
    for run_id, known in stored.items():
        sums.go(*known.queue)
        steps.remove(known.id, before=known.steps)
        drawers.change(run_id, known.filing, None)
    drawers.carry_out(writer)
    count(writer, Counter({cell: -n for cell, n in Counter(known.cell for known in stored.values()).items()}))
    sums.carry_out(writer)
    steps.carry_out(writer)


def _stored(writer: sqlite3.Connection, run_ids: Iterable[RunId]) -> dict[RunId, _Stored]:
    found = writer.execute(_STORED, (orjson.dumps(list(run_ids)).decode(),))
    return {row[0]: _Stored(row[1], row[2:4], row[4], row[5], row[6], row[7], row[8:]) for row in found}


def _keys(row: RunRow, cells: Cells) -> Keys:
    return (*cells.of(row), row.flow, row.tag, row.updated_at, row.ended_at)


def _filing(row: RunRow, keys: Keys) -> Filing:
    return Filing(*keys[:2], row.tenant_id, row.archived, row.labels)
