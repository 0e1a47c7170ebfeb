"""Snapshots → steps: nodes that can be claimed, that wait to be resumed, or that may be overdue.

    READY, of a graph ─────▶ ready      can be claimed now
    RUNNING, with a lease ─▶ leased     of a graph, can be claimed when the lease expires; after the last permitted
                                        attempt it is overdue then
    WAITING ───────────────▶ waiting    until it is resumed with its key; overdue at its deadline, if any

Total: a malformed snapshot has no steps and raises nothing. An execution that is being cancelled has none either: its
nodes can no longer be claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import orjson

from pyoco_server.domain.execution.state import MAX_NODE_ATTEMPTS, NodeStatus
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries.json_values import integer, moment, text

_OPEN = ("PENDING", "RUNNING")
_CODES = {status: code for code, status in enumerate(NodeStatus)}
_READY, _RUNNING, _WAITING = (_CODES[status] for status in (NodeStatus.READY, NodeStatus.RUNNING, NodeStatus.WAITING))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimableNode:
    """A node that can be claimed; `attempt` is its last attempt, 0 if there was none."""

    run_id: RunId
    node_id: NodeId
    attempt: int
    graph_id: str

    @property
    def key(self) -> NodeKey:
        return (self.run_id, self.node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingNode:
    """A node that waits to be resumed."""

    run_id: RunId
    node_id: NodeId
    place: int
    graph_id: str
    attempt: int
    wait_key: str | None
    prompt: bytes | None
    since: float
    due_at: float | None
    worker_id: str | None

    @property
    def key(self) -> tuple[float, str, int]:
        """The sort key of lists of waits, ascending."""
        return (self.since, self.run_id, self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueNode:
    """A node whose wait or last lease has expired."""

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


def steps_of(plain: Mapping[str, Any]) -> tuple[Step, ...]:
    """The steps of a stored snapshot, in the order of its nodes."""
    if plain.get("status") not in _OPEN:
        return ()
    state, tasks = plain.get("state"), plain.get("tasks")
    if not isinstance(state, dict) or not isinstance(tasks, dict):
        return ()
    nodes = state.get("nodes")
    if not isinstance(nodes, list) or len(nodes) != len(tasks):
        return ()
    return tuple(_steps(plain, tasks, nodes, state.get("graph")))


def _steps(plain: Mapping[str, Any], tasks: Mapping[str, Any], nodes: list[Any], graph: Any) -> Iterator[Step]:
    for place, (name, node) in enumerate(zip(tasks, nodes, strict=True)):
        if not isinstance(node, list) or len(node) < 2:
            continue
        if node[0] == _READY and graph is not None:
            yield Step(NodeId(name), place, StepKind.READY, integer(node[1]), True)
        elif node[0] == _RUNNING:
            yield from _leased(name, place, node, graph)
        elif node[0] == _WAITING:
            yield _waiting(plain, name, place, node)


def _leased(name: str, place: int, node: list[Any], graph: Any) -> Iterator[Step]:
    seldom, attempt = _seldom(node), integer(node[1])
    lease_until = moment(seldom.get("l"))
    if lease_until is not None:
        is_last = graph is not None and attempt >= _most_attempts(graph, place)
        yield Step(
            node_id=NodeId(name),
            place=place,
            kind=StepKind.LEASED,
            attempt=attempt,
            claimable=graph is not None and not is_last,
            due_at=lease_until if is_last else None,
            worker_id=text(seldom.get("w")),
            lease_until=lease_until,
        )


def _most_attempts(graph: Any, place: int) -> int:
    """How many attempts a node of the graph may have; the graph lists its nodes in the order of their creation."""
    drawn = graph.get("nodes") if isinstance(graph, dict) else None
    node = drawn[place] if isinstance(drawn, list) and place < len(drawn) else None
    return (integer(node.get("maxAttempts")) if isinstance(node, dict) else 0) or MAX_NODE_ATTEMPTS


def _waiting(plain: Mapping[str, Any], name: str, place: int, node: list[Any]) -> Step:
    seldom = _seldom(node)
    since = moment(seldom.get("s"))
    return Step(
        node_id=NodeId(name),
        place=place,
        kind=StepKind.WAITING,
        attempt=integer(node[1]),
        claimable=False,
        due_at=moment(seldom.get("d")),
        since=since if since is not None else moment(plain.get("updated_at")) or 0.0,
        wait_key=text(seldom.get("k")),
        prompt=_prompt(plain, name),
        worker_id=text(seldom.get("w")),
    )


def _seldom(node: list[Any]) -> Mapping[str, Any]:
    return node[2] if len(node) > 2 and isinstance(node[2], dict) else {}


def _prompt(plain: Mapping[str, Any], name: str) -> bytes | None:
    records = plain.get("task_records")
    record = records.get(name) if isinstance(records, dict) else None
    prompt = record.get("prompt") if isinstance(record, dict) else None
    if prompt is None and plain.get("task_records_truncated") is True:
        return b""
    try:
        return orjson.dumps(prompt) if prompt is not None else None
    except orjson.JSONEncodeError:  # nested deeper than it writes, though it reads it
        return None
