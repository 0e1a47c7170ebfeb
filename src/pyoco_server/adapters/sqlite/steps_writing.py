"""Steps into tables, inside the caller's transaction and by difference: a step that stays as it is costs no write.

An execution of a thousand nodes changes one of them at a time; and of a run that has no steps, and had none, nothing is
looked for.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pyoco_server.adapters.sqlite.cells import inserted_id
from pyoco_server.domain.queries.rows import RunRow
from pyoco_server.domain.queries.steps import StepKind

# Ready steps have no time of their own; with the same one for all they are in the order of the ids.
READY_AT = 0.0

_STORED = """
    SELECT place, tray, at, due_at, node_id, attempt, wait_key, worker_id, prompt FROM steps WHERE run = ?
"""
_PUT = """
    INSERT OR REPLACE INTO steps (
        run, run_id, place, tray, at, due_at, node_id, attempt, wait_key, worker_id, prompt
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_REMOVE = "DELETE FROM steps WHERE run = ? AND place = ?"
_DESK = "SELECT tray FROM trays WHERE kind = ? AND claimable = ? AND flow = ? AND tenant_id = ?"
_NEW_DESK = "INSERT INTO trays (kind, claimable, flow, tenant_id) VALUES (?, ?, ?, ?)"
_COUNT = """
    INSERT INTO step_counts (kind, steps) SELECT kind, ? FROM trays WHERE tray = ?
    ON CONFLICT DO UPDATE SET steps = steps + excluded.steps
"""
_CLEAR_EMPTY_DESK = """
    DELETE FROM trays WHERE tray = ? AND NOT EXISTS (SELECT 1 FROM steps WHERE steps.tray = trays.tray)
"""

TrayKey = tuple[str, bool, str, str]
Columns = tuple[Any, ...]
"""What is stored of a step, from its tray on."""


@dataclass(slots=True)
class StepChanges:
    """What a batch changes of the steps; mostly nothing."""

    runs: list[tuple[int, RunRow | None, int]] = field(default_factory=list)

    def change(self, run: int, row: RunRow, *, before: int) -> None:
        """The run, of which `before` steps are stored, has those of the row now."""
        if before or row.steps:
            self.runs.append((run, row, before))

    def remove(self, run: int, *, before: int) -> None:
        """The run, of which `before` steps are stored, is gone."""
        if before:
            self.runs.append((run, None, before))

    def carry_out(self, writer: sqlite3.Connection) -> None:
        if not self.runs:
            return
        trays = _Trays(writer)
        difference = _Difference()
        for run, row, before in self.runs:
            stored = {found[0]: found[1:] for found in writer.execute(_STORED, (run,))} if before else {}
            if row is None:
                difference.add(run, "", stored, {})
            else:
                difference.add(run, row.run_id, stored, _wanted(row, trays))
        difference.carry_out(writer)


@dataclass(slots=True)
class _Difference:
    """Between what is stored of some runs and what should be."""

    puts: list[Columns] = field(default_factory=list)
    removals: list[tuple[int, int]] = field(default_factory=list)
    moved: Counter[int] = field(default_factory=Counter)

    def add(self, run: int, run_id: str, stored: dict[int, Columns], wanted: dict[int, Columns]) -> None:
        for place, columns in wanted.items():
            if stored.get(place) != columns:
                self.puts.append((run, run_id, place, *columns))
                self.moved[columns[0]] += 1
        for place, columns in stored.items():
            if place not in wanted:
                self.removals.append((run, place))
            if wanted.get(place) != columns:
                self.moved[columns[0]] -= 1

    def carry_out(self, writer: sqlite3.Connection) -> None:
        writer.executemany(_REMOVE, self.removals)
        writer.executemany(_PUT, self.puts)
        writer.executemany(_COUNT, [(by, tray) for tray, by in self.moved.items() if by])
        writer.executemany(_CLEAR_EMPTY_DESK, [(tray,) for tray, by in self.moved.items() if by < 0])


class _Trays:
    """The trays of one batch, each looked up once."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self._writer = writer
        self._known: dict[TrayKey, int] = {}

    def of(self, row: RunRow) -> dict[tuple[StepKind, bool], int]:
        """The trays of the row's steps, by kind and by whether they can be claimed."""
        kinds = {(step.kind, step.claimable) for step in row.steps}
        return {
            (kind, claimable): self._tray((kind.value, claimable, row.flow, row.tenant_id)) for kind, claimable in kinds
        }

    def _tray(self, key: TrayKey) -> int:
        tray = self._known.get(key)
        if tray is None:
            found = self._writer.execute(_DESK, key).fetchone()
            tray = self._known[key] = int(found[0]) if found else inserted_id(self._writer.execute(_NEW_DESK, key))
        return tray


def _wanted(row: RunRow, trays: _Trays) -> dict[int, Columns]:
    at_tray = trays.of(row)
    wanted: dict[int, Columns] = {}
    for node_id, place, kind, attempt, claimable, due_at, since, wait_key, prompt, worker_id, lease_until in row.steps:
        at = lease_until if since is None else since
        columns = (due_at, node_id, attempt, wait_key, worker_id, prompt)
        wanted[place] = (at_tray[kind, claimable], READY_AT if at is None else at, *columns)
    return wanted
