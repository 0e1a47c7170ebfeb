"""The evidence of an interleaving: logs, snapshots, indexes and responses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.state import Execution, NodeStatus
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from pyoco_server.domain.queries.steps import WaitQuery
from pyoco_server.ports import RunIndex
from simulation.requests import Response

Log = Sequence[StoredCommit]
NodeAt = tuple[RunId, NodeId, int]
Finding = tuple[str, str]
"""Subject and description of a violation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSeen:
    """The claims and rows in the index of a running gateway, now or later."""

    gateway: str
    claimable: frozenset[NodeAt]
    waits: frozenset[NodeAt]
    known: Mapping[RunId, tuple[int, str]]

    @classmethod
    def of(cls, gateway: str, index: RunIndex, graph_ids: Sequence[str], run_ids: Sequence[RunId]) -> IndexSeen:
        claimable = index.claimable(graph_ids, tenant_id=None, now=float("inf"), limit=1_000)
        waits = index.waits(WaitQuery(limit=1_000))
        return cls(
            gateway=gateway,
            claimable=frozenset((node.run_id, node.node_id, node.attempt) for node in claimable),
            waits=frozenset((wait.run_id, wait.node_id, wait.attempt) for wait in waits),
            known={run_id: (run.version, run.status) for run_id, run in index.known(run_ids).items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """`ends` are the executions as their final logs have them. `quiet`: they became idle in time. `troubles` are logged
    and uncaught errors. `batches_running` are those of requests that run in their engine at the end.
    """

    logs: Mapping[RunId, Log]
    ends: Mapping[RunId, Execution]
    snapshots: Mapping[RunId, Execution]
    indexes: tuple[IndexSeen, ...]
    responses: tuple[Response, ...]
    quiet: bool
    troubles: tuple[str, ...]
    batches_running: tuple[tuple[RunId, int], ...] = ()


def is_at_rest(execution: Execution) -> bool:
    """Whether it is finished, or waits for its start, a person without a deadline, or the client of an open graph."""
    if execution.status.is_terminal:
        return True
    if execution.cancel is not None or execution.request.flow_name == REQUEST_FLOW:
        return False
    if execution.started_at is None or execution.graph is None:
        return True
    open_nodes = [node for node in execution.nodes.values() if not node.status.is_terminal]
    waiting = [node for node in open_nodes if node.status is NodeStatus.WAITING and node.deadline_at is None]
    idle = [node for node in open_nodes if node.status is NodeStatus.IDLE]
    return bool(waiting) and len(waiting) + len(idle) == len(open_nodes)
