"""Which nodes become ready and when a graph is done: the process manager as three pure questions about edges.

A graph says nothing about who does the work; it only says what may follow what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyoco_server.execution.ids import MAX_NODE_ID_CHARS, NodeId

MAX_EDGES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A node of a graph; a wait node waits for somebody to resume it instead of being worked on.

    `timeout_sec` bounds a wait, `max_attempts` how often a task is begun; `params` are for whoever takes the task.
    """

    node_id: NodeId
    wait_key: str | None = None
    prompt: Any = None
    timeout_sec: float | None = None
    max_attempts: int | None = None
    params: Mapping[str, Any] | None = None

    @property
    def is_wait(self) -> bool:
        return self.wait_key is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes and the edges between them. Several predecessors are a join, several successors a fork."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[NodeId, NodeId], ...]

    def node(self, node_id: NodeId) -> GraphNode | None:
        return next((node for node in self.nodes if node.node_id == node_id), None)

    def roots(self) -> Iterator[GraphNode]:
        """The nodes that nothing precedes."""
        targets = {target for _, target in self.edges}
        return (node for node in self.nodes if node.node_id not in targets)

    def ready_after(self, done: NodeId, succeeded: Iterable[NodeId]) -> Iterator[GraphNode]:
        """The successors of `done` whose predecessors have all succeeded now."""
        finished = {*succeeded, done}
        followers = {target for source, target in self.edges if source == done}
        blocked = {target for source, target in self.edges if target in followers and source not in finished}
        return (node for node in self.nodes if node.node_id in followers - blocked)


def problems(graph: Graph) -> list[str]:
    """What is wrong with a graph, by name: doubled nodes, edges to nowhere, cycles (whose nodes are never reached)."""
    found = []
    known = Counter(node.node_id for node in graph.nodes)
    if not known:
        found.append("a graph needs at least one node")
    found += [
        f"node id {name[:20]!r} does not have 1 to {MAX_NODE_ID_CHARS} characters"
        for name in known
        if not 1 <= len(name) <= MAX_NODE_ID_CHARS
    ]
    found += [f"node {name!r} is defined twice" for name, count in sorted(known.items()) if count > 1]
    found += [f"edge from or to unknown node {end!r}" for edge in graph.edges for end in edge if end not in known]
    if len(graph.edges) > MAX_EDGES:
        found.append(f"{len(graph.edges)} edges are more than {MAX_EDGES}")
    if not found and (loop := _in_cycles(graph)):
        found.append("these nodes wait for each other: " + ", ".join(loop[:20]))
    return found


def _in_cycles(graph: Graph) -> list[NodeId]:
    waiting: dict[NodeId, int] = {node.node_id: 0 for node in graph.nodes}
    successors: Mapping[NodeId, list[NodeId]] = {node.node_id: [] for node in graph.nodes}
    for source, target in set(graph.edges):
        waiting[target] += 1
        successors[source].append(target)
    free = [name for name, count in waiting.items() if count == 0]
    while free:
        name = free.pop()
        del waiting[name]
        for target in successors[name]:
            waiting[target] -= 1
            if waiting[target] == 0:
                free.append(target)
    return sorted(waiting)
