"""What is left of an interleaving when it is over: logs, snapshots, indexes, and what everybody was told. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.state import Execution, NodeStatus
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries.steps import WaitQuery
from pyoco_server.ports import RunIndex
from simulation.requests import Told

Log = Sequence[StoredCommit]
NodeAt = tuple[RunId, NodeId, int]
Finding = tuple[str, str]
"""What it is about, and what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSeen:
    """What the index of a living gateway proposes and shows, at any time to come."""

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
    """`ends` are the executions as their logs tell them in the end. `quiet`: it came to rest in time. `troubles`: what
    the program did not expect, or nobody caught."""

    logs: Mapping[RunId, Log]
    ends: Mapping[RunId, Execution]
    snapshots: Mapping[RunId, Execution]
    indexes: tuple[IndexSeen, ...]
    told: tuple[Told, ...]
    quiet: bool
    troubles: tuple[str, ...]


def is_at_rest(execution: Execution) -> bool:
    """It is finished, or rightly waits: for its start, for a person who may take for ever, or, where no graph says what
    follows, for whoever drives it."""
    if execution.status.is_terminal:
        return True
    if execution.cancel is not None:
        return False
    if execution.started_at is None or execution.graph is None:
        return True
    open_nodes = [node for node in execution.nodes.values() if not node.status.is_terminal]
    waiting = [node for node in open_nodes if node.status is NodeStatus.WAITING and node.deadline_at is None]
    idle = [node for node in open_nodes if node.status is NodeStatus.IDLE]
    return bool(waiting) and len(waiting) + len(idle) == len(open_nodes)
