"""Steps: nodes that can be claimed, that wait to be resumed, or that may be overdue.

    READY, of a graph ─────▶ ready      can be claimed now
    RUNNING, with a lease ─▶ leased     of a graph, can be claimed when the lease expires; after the last permitted
                                        attempt it is overdue then
    WAITING ───────────────▶ waiting    until it is resumed with its key; overdue at its deadline, if any

An execution that is being cancelled has no steps: its nodes can no longer be claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pyoco_server.domain.ids import NodeId, RunId


class StepKind(Enum):
    """The kinds of steps; the values are stored."""

    READY = "ready"
    LEASED = "leased"
    WAITING = "waiting"

    __hash__ = object.__hash__


class Step(NamedTuple):
    """An actionable node; `place` is its index among the nodes.

    `due_at` is when it becomes overdue, `since` when it began to wait, `prompt` the JSON text of its question (empty if
    the snapshot had to drop it). A tuple, because a thousand are made whenever one node of a wide graph changes.
    """

    node_id: NodeId
    place: int
    kind: StepKind
    attempt: int
    claimable: bool
    due_at: float | None = None
    since: float | None = None
    wait_key: str | None = None
    prompt: bytes | None = None
    worker_id: str | None = None
    lease_until: float | None = None


NodeKey = tuple[RunId, NodeId]


class ClaimableNode(NamedTuple):
    """A node that can be claimed; `attempt` is its last attempt, 0 if there was none."""

    run_id: RunId
    node_id: NodeId
    attempt: int
    graph_id: str

    @property
    def key(self) -> NodeKey:
        return (self.run_id, self.node_id)


class WaitingNode(NamedTuple):
    """A node that waits to be resumed. Lists of waits are sorted by the first three fields, ascending."""

    since: float
    run_id: RunId
    place: int
    node_id: NodeId
    attempt: int
    wait_key: str | None
    prompt: bytes | None
    due_at: float | None
    worker_id: str | None
    graph_id: str

    @property
    def key(self) -> tuple[float, str, int]:
        return (self.since, self.run_id, self.place)


class DueNode(NamedTuple):
    run_id: RunId
    node_id: NodeId
    attempt: int
    kind: StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQuery:
    """Which waiting nodes to list; None means any. Pass the `key` of the last node as `after` for the next page."""

    limit: int = 50
    tenant_id: str | None = None
    graph_id: str | None = None
    run_id: RunId | None = None
    after: tuple[float, str, int] | None = None
