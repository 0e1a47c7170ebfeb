"""Steps of executions: written by difference, and listed through an index in the order of the answer.

An execution of a thousand nodes changes one of them at a time, so an unchanged step costs no write. A list finds the
step queues of its query and reads each from its beginning up to the limit. Only ended leases are sorted, because a
queue keeps them by their end; they stay few, because each is soon claimed again.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from pyoco_server.adapters.sqlite.statements import Condition, KeyIds, all_of, equal, json_array, merged
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.rows import RunRow
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery

# Ready steps have no time of their own; with the same one for all they are in the order of the ids.
READY_AT = 0.0

_COLUMNS = "run, run_id, place, queue, at, due_at, node_id, attempt, wait_key, worker_id, prompt"
_STORED = f"SELECT {_COLUMNS} FROM steps WHERE run = ?"
_PUT = f"INSERT OR REPLACE INTO steps ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM steps WHERE run = ? AND place = ?"
_REMOVE_EMPTY_QUEUES = """
    DELETE FROM step_queues WHERE NOT EXISTS (SELECT 1 FROM steps WHERE steps.queue = step_queues.queue)
"""
_COUNTS = """
    SELECT kind, sum((SELECT count(*) FROM steps WHERE steps.queue = step_queues.queue)) FROM step_queues
    WHERE :tenant_id IS NULL OR tenant_id = :tenant_id GROUP BY kind
"""


class StepChanges:
    """The steps that a batch puts and removes."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self._writer = writer
        self._queues = KeyIds(writer, "step_queues", "queue", "kind", "claimable", "flow", "tenant_id")
        self._puts: list[tuple[Any, ...]] = []
        self._removals: list[tuple[int, int]] = []

    def change(self, run: int, row: RunRow | None, *, before: int) -> None:
        """Replace the `before` stored steps of the run by those of the row; None removes them."""
        if not before and (row is None or not row.steps):
            return
        stored = {step[2]: step for step in self._writer.execute(_STORED, (run,))} if before else {}
        wanted = [] if row is None else self._wanted(run, row)
        self._puts += [step for step in wanted if stored.pop(step[2], None) != step]
        self._removals += [(run, place) for place in stored]

    def flush(self) -> None:
        self._writer.executemany(_REMOVE, self._removals)
        self._writer.executemany(_PUT, self._puts)
        if self._removals or self._puts:
            self._writer.execute(_REMOVE_EMPTY_QUEUES)

    def _wanted(self, run: int, row: RunRow) -> list[tuple[Any, ...]]:
        kinds = {(step.kind, step.claimable) for step in row.steps}
        queues = {kind: self._queues[kind[0].value, kind[1], row.flow, row.tenant_id] for kind in kinds}
        wanted = []
        # Unpacked at once: a wide graph has a thousand steps, and each change of a node passes all of them.
        for node_id, place, kind, attempt, claimable, due_at, since, wait_key, prompt, worker_id, lease in row.steps:
            at = lease if since is None else since
            columns = (READY_AT if at is None else at, due_at, node_id, attempt, wait_key, worker_id, prompt)
            wanted.append((run, row.run_id, place, queues[kind, claimable], *columns))
        return wanted


_OLDEST_RUN_FIRST = "run_id, place"
_LONGEST_WAIT_FIRST = "at, run_id, place"
_WAITS = "at, run_id, place, node_id, attempt, wait_key, prompt, due_at, worker_id"

Queue = tuple[int, str]
"""A step queue and its flow."""


def claimable(
    reader: sqlite3.Connection, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
) -> Sequence[ClaimableNode]:
    part = "SELECT run_id, place, node_id, attempt, ? AS flow FROM steps WHERE queue = ? AND at = ?"
    values = [
        (flow, queue, READY_AT) for queue, flow in _claimable_queues(reader, StepKind.READY, graph_ids, tenant_id)
    ]
    found = list(chain.from_iterable(merged(reader, part, values, order=_OLDEST_RUN_FIRST, limit=limit)))
    if with_leases := _claimable_queues(reader, StepKind.LEASED, graph_ids, tenant_id):
        # The ended ones are sorted within the index, and only the result is fetched.
        sql = f"""
            SELECT steps.run_id, steps.place, node_id, attempt, flow FROM (
                SELECT run, place FROM steps WHERE queue IN (SELECT value FROM json_each(?)) AND at <= ?
                ORDER BY {_OLDEST_RUN_FIRST} LIMIT ?
            ) AS ended CROSS JOIN steps USING (run, place) CROSS JOIN step_queues USING (queue)
        """
        found += reader.execute(sql, (_numbers(with_leases), now, limit))
    return [ClaimableNode(run_id, *columns) for run_id, _, *columns in sorted(found)[:limit]]


def next_lease_end(reader: sqlite3.Connection, graph_ids: Collection[str], tenant_id: str | None) -> float | None:
    with_leases = _claimable_queues(reader, StepKind.LEASED, graph_ids, tenant_id)
    sql = "SELECT min((SELECT min(at) FROM steps WHERE queue = wanted.value)) FROM json_each(?) AS wanted"
    (earliest,) = reader.execute(sql, (_numbers(with_leases),)).fetchone()
    return float(earliest) if earliest is not None else None


def waits(reader: sqlite3.Connection, query: WaitQuery) -> Sequence[WaitingNode]:
    behind: list[Condition] = [("(at, run_id, place) > (?, ?, ?)", query.after)] if query.after is not None else []
    if query.run_id is not None:
        found = _waits_of_run(reader, query, query.run_id, behind)
    else:
        of_query, values = all_of(equal(claimable=False, flow=query.graph_id, tenant_id=query.tenant_id))
        sql = f"SELECT queue, flow FROM step_queues WHERE kind = ?{of_query}"
        queues = reader.execute(sql, (StepKind.WAITING.value, *values)).fetchall()
        where, params = all_of(behind)
        part = f"SELECT {_WAITS}, ? AS flow FROM steps WHERE queue = ?{where}"
        every = [(flow, queue, *params) for queue, flow in queues]
        found = chain.from_iterable(merged(reader, part, every, order=_LONGEST_WAIT_FIRST, limit=query.limit))
    return [WaitingNode(*row) for row in sorted(found, key=lambda row: row[:3])[: query.limit]]


def due(reader: sqlite3.Connection, before: float, limit: int) -> Sequence[DueNode]:
    # CROSS keeps the order of the steps.
    sql = """
        SELECT run_id, node_id, attempt, kind FROM steps CROSS JOIN step_queues USING (queue)
        WHERE due_at <= ? ORDER BY due_at, run_id, place LIMIT ?
    """
    found = reader.execute(sql, (before, limit))
    return [DueNode(run_id, node_id, attempt, StepKind(kind)) for run_id, node_id, attempt, kind in found]


def counts(reader: sqlite3.Connection, tenant_id: str | None) -> Mapping[StepKind, int]:
    found = dict(reader.execute(_COUNTS, {"tenant_id": tenant_id}).fetchall())
    return {kind: found.get(kind.value, 0) for kind in StepKind}


def _claimable_queues(
    reader: sqlite3.Connection, kind: StepKind, graph_ids: Collection[str], tenant_id: str | None
) -> list[Queue]:
    where, params = all_of(equal(tenant_id=tenant_id))
    flows = ", ".join("?" * len(graph_ids))
    sql = f"SELECT queue, flow FROM step_queues WHERE kind = ? AND claimable = 1 AND flow IN ({flows}){where}"
    return reader.execute(sql, (kind.value, *graph_ids, *params)).fetchall()


def _waits_of_run(
    reader: sqlite3.Connection, query: WaitQuery, run_id: RunId, behind: Sequence[Condition]
) -> Iterable[Any]:
    """The waits of one run are few enough to be sorted."""
    where, params = all_of([*equal(flow=query.graph_id, tenant_id=query.tenant_id), *behind])
    sql = f"""
        SELECT {_WAITS}, flow FROM steps CROSS JOIN step_queues USING (queue)
        WHERE run = (SELECT number FROM runs WHERE run_id = ?) AND kind = ?{where}
        ORDER BY {_LONGEST_WAIT_FIRST} LIMIT ?
    """
    return reader.execute(sql, (run_id, StepKind.WAITING.value, *params, query.limit))


def _numbers(queues: Sequence[Queue]) -> str:
    return json_array([queue for queue, _ in queues])
