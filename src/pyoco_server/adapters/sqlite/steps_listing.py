"""Questions about steps, each answered through an index whose order is that of the answer.

The trays of a question are found first; then each is read from its beginning and no further than the limit, so what
lies at other trays, or far behind, costs nothing. Only leases that have ended are sorted, because a tray keeps them by
their end; they do not become many, for somebody takes each of them soon.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyoco_server.adapters.sqlite.listing import Condition, Statement, all_of, equal, merged, numbers
from pyoco_server.adapters.sqlite.steps_writing import READY_AT
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery

_OLDEST_RUN_FIRST = "run_id, place"
_LONGEST_WAIT_FIRST = "at, run_id, place"
_WAITS = "at, run_id, place, node_id, attempt, wait_key, prompt, due_at, worker_id"

Tray = tuple[int, str]
"""Its number and its flow."""


def claimable_trays(kind: StepKind, graph_ids: Collection[str], tenant_id: str | None) -> Statement:
    """For the trays where steps of these graphs can be claimed."""
    where, params = all_of(equal(tenant_id=tenant_id))
    flows = ", ".join("?" * len(graph_ids))
    sql = f"SELECT tray, flow FROM trays WHERE kind = ? AND claimable = 1 AND flow IN ({flows}){where}"
    return Statement(sql=sql, params=(kind.value, *graph_ids, *params))


def waiting_trays(query: WaitQuery) -> Statement:
    """For the trays where the steps asked for wait."""
    where, params = all_of(equal(claimable=False, flow=query.graph_id, tenant_id=query.tenant_id))
    return Statement(
        sql=f"SELECT tray, flow FROM trays WHERE kind = ?{where}", params=(StepKind.WAITING.value, *params)
    )


def ready(trays: Sequence[Tray], limit: int) -> list[Statement]:
    """For what is ready at these trays, by id: (run_id, place, flow, node_id, attempt)."""
    part = "SELECT run_id, place, ? AS flow, node_id, attempt FROM steps WHERE tray = ? AND at = ?"
    values = [(flow, tray, READY_AT) for tray, flow in trays]
    return merged(part, values, order=_OLDEST_RUN_FIRST, limit=limit)


def ended_leases(trays: Sequence[Tray], now: float, limit: int) -> Statement:
    """For the same of leases that have ended at these trays; sorted by what the index has, then the few are fetched."""
    sql = f"""
        SELECT steps.run_id, steps.place, flow, node_id, attempt FROM (
            SELECT run, place FROM steps WHERE tray IN (SELECT value FROM json_each(?)) AND at <= ?
            ORDER BY {_OLDEST_RUN_FIRST} LIMIT ?
        ) AS ended CROSS JOIN steps USING (run, place) CROSS JOIN trays USING (tray)
    """
    return Statement(sql=sql, params=(numbers([tray for tray, _ in trays]), now, limit))


def first_lease_end(trays: Sequence[Tray]) -> Statement:
    """For the earliest end, or null."""
    sql = "SELECT min((SELECT min(at) FROM steps WHERE tray = wanted.value)) FROM json_each(?) AS wanted"
    return Statement(sql=sql, params=(numbers([tray for tray, _ in trays]),))


def waiting(query: WaitQuery, trays: Sequence[Tray]) -> list[Statement]:
    """For what waits at these trays, the longest wait first; of several statements each gives a page, to be merged."""
    where, params = all_of(_behind(query))
    part = f"SELECT {_WAITS}, ? AS flow FROM steps WHERE tray = ?{where}"
    values = [(flow, tray, *params) for tray, flow in trays]
    return merged(part, values, order=_LONGEST_WAIT_FIRST, limit=query.limit)


def waiting_of_run(query: WaitQuery, run_id: RunId) -> Statement:
    """For the same of one run, whose steps are few enough to be sorted."""
    where, params = all_of([*equal(flow=query.graph_id, tenant_id=query.tenant_id), *_behind(query)])
    sql = f"""
        SELECT {_WAITS}, flow FROM steps CROSS JOIN trays USING (tray)
        WHERE run = (SELECT id FROM runs WHERE run_id = ?) AND kind = ?{where}
        ORDER BY {_LONGEST_WAIT_FIRST} LIMIT ?
    """
    return Statement(sql=sql, params=(run_id, StepKind.WAITING.value, *params, query.limit))


def over(before: float, limit: int) -> Statement:
    """For (run_id, node_id, attempt, kind), the earliest first."""
    # CROSS: the steps first, in their order.
    sql = """
        SELECT run_id, node_id, attempt, kind FROM steps CROSS JOIN trays USING (tray)
        WHERE due_at <= ? ORDER BY due_at, run_id, place LIMIT ?
    """
    return Statement(sql=sql, params=(before, limit))


def claimable(
    reader: sqlite3.Connection, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
) -> Sequence[ClaimableNode]:
    with_ready = _rows(reader, claimable_trays(StepKind.READY, graph_ids, tenant_id))
    with_leases = _rows(reader, claimable_trays(StepKind.LEASED, graph_ids, tenant_id))
    found = _rows(reader, *ready(with_ready, limit))
    if with_leases:
        found += _rows(reader, ended_leases(with_leases, now, limit))
    return [
        ClaimableNode(run_id=RunId(run_id), node_id=NodeId(node_id), attempt=attempt, graph_id=flow)
        for run_id, _, flow, node_id, attempt in sorted(found)[:limit]
    ]


def next_lease_end(reader: sqlite3.Connection, graph_ids: Collection[str], tenant_id: str | None) -> float | None:
    with_leases = _rows(reader, claimable_trays(StepKind.LEASED, graph_ids, tenant_id))
    ((earliest,),) = _rows(reader, first_lease_end(with_leases))
    return float(earliest) if earliest is not None else None


def waits(reader: sqlite3.Connection, query: WaitQuery) -> Sequence[WaitingNode]:
    if query.run_id is not None:
        found = _rows(reader, waiting_of_run(query, query.run_id))
    else:
        found = _rows(reader, *waiting(query, _rows(reader, waiting_trays(query))))
        found.sort(key=lambda row: row[:3])
    return [
        WaitingNode(
            run_id=RunId(run_id),
            node_id=NodeId(node_id),
            place=place,
            graph_id=flow,
            attempt=attempt,
            wait_key=wait_key,
            prompt=prompt,
            since=at,
            due_at=due_at,
            worker_id=worker_id,
        )
        for at, run_id, place, node_id, attempt, wait_key, prompt, due_at, worker_id, flow in found[: query.limit]
    ]


def due(reader: sqlite3.Connection, before: float, limit: int) -> Sequence[DueNode]:
    return [
        DueNode(run_id=RunId(run_id), node_id=NodeId(node_id), attempt=attempt, kind=StepKind(kind))
        for run_id, node_id, attempt, kind in _rows(reader, over(before, limit))
    ]


def counts(reader: sqlite3.Connection) -> Mapping[StepKind, int]:
    found = dict(reader.execute("SELECT kind, steps FROM step_counts").fetchall())
    return {kind: found.get(kind.value, 0) for kind in StepKind}


def _behind(query: WaitQuery) -> list[Condition]:
    return [("(at, run_id, place) > (?, ?, ?)", query.after)] if query.after is not None else []


def _rows(reader: sqlite3.Connection, *statements: Statement) -> list[Any]:
    return [row for statement in statements for row in reader.execute(statement.sql, statement.params)]
