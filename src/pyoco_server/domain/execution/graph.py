"""Which nodes become ready and when a graph is done: the process manager as three pure questions about edges.

A graph says nothing about who does the work; it only says what may follow what.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pyoco_server.domain.execution.cycles import unreachable_nodes
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId

T = TypeVar("T")

MAX_EDGES = 20_000
# So many nodes, or cycles, are named in one sentence; whoever drew thousands begins with these.
MAX_NAMED = 20


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


class _Asked:
    """Room for answers beside the fields: a graph never changes, and each of a thousand steps asks it the same."""

    __slots__ = ("_answers",)

    _answers: dict[object, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(_Asked):
    """Nodes and the edges between them. Several predecessors are a join, several successors a fork."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[NodeId, NodeId], ...]

    def once(self, work: Callable[[Graph], T]) -> T:
        """What a pure function makes of this graph, worked out when it is first asked for; nobody may change it."""
        try:
            answers = self._answers
        except AttributeError:
            answers = {}
            object.__setattr__(self, "_answers", answers)
        if work not in answers:
            answers[work] = work(self)
        return cast(T, answers[work])

    def node(self, node_id: NodeId) -> GraphNode | None:
        place = self.once(_ways).places.get(node_id)
        return None if place is None else self.nodes[place]

    def before(self, node_id: NodeId) -> Sequence[NodeId]:
        """The predecessors of a node, in the order of the edges."""
        return self.once(_ways).before.get(node_id, ())

    def roots(self) -> Iterator[GraphNode]:
        """The nodes that nothing precedes."""
        return (node for node in self.nodes if not self.before(node.node_id))

    def ready_after(self, done: NodeId, has_succeeded: Callable[[NodeId], bool]) -> Iterator[GraphNode]:
        """The successors of `done` whose predecessors have all succeeded now."""
        ways = self.once(_ways)
        for place in ways.after.get(done, ()):
            node = self.nodes[place]
            # Work is taken in the order of the nodes: the last predecessor tells soonest that it is too early.
            if all(source == done or has_succeeded(source) for source in reversed(ways.before[node.node_id])):
                yield node

    def is_done_with(self, done: NodeId, has_succeeded: Callable[[NodeId], bool]) -> bool:
        """Whether `done` was the last node that had not succeeded."""
        return all(node.node_id == done or has_succeeded(node.node_id) for node in reversed(self.nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ways:
    """Where each node stands, what is before it, and the places of what is after it, in the order of the nodes."""

    places: Mapping[NodeId, int]
    before: Mapping[NodeId, Sequence[NodeId]]
    after: Mapping[NodeId, Sequence[int]]


def _ways(graph: Graph) -> _Ways:
    places: dict[NodeId, int] = {}
    for place, node in enumerate(graph.nodes):
        places.setdefault(node.node_id, place)
    before: defaultdict[NodeId, list[NodeId]] = defaultdict(list)
    after: defaultdict[NodeId, set[int]] = defaultdict(set)
    for source, target in graph.edges:
        before[target].append(source)
        if target in places:
            after[source].add(places[target])
    in_order = {node_id: sorted(followers) for node_id, followers in after.items()}
    return _Ways(places=places, before=dict(before), after=in_order)


def problems(graph: Graph) -> list[str]:
    """What is wrong with a graph, by name: doubled nodes and edges, edges to nowhere, nodes that are never reached.

    Without a cycle every node is reached from a root; so those that are not stand on a cycle or behind one.
    """
    if len(graph.edges) > MAX_EDGES:
        return [f"{len(graph.edges)} edges are more than {MAX_EDGES}"]
    known = Counter(node.node_id for node in graph.nodes)
    found = [*_wrong_nodes(known), *_wrong_edges(graph, known)]
    never = unreachable_nodes(known, (edge for edge in graph.edges if edge[0] in known and edge[1] in known))
    circles = [circle for circle in never.circles if len(circle) > 1]  # of an edge to itself is told above
    found += [f"these nodes wait for each other: {_listed(circle)}" for circle in circles[:MAX_NAMED]]
    if never.behind:
        found.append(f"these nodes are behind nodes that wait for each other: {_listed(never.behind)}")
    return found


def _wrong_nodes(known: Mapping[NodeId, int]) -> Iterator[str]:
    if not known:
        yield "a graph needs at least one node"
    for name, count in known.items():
        if not 1 <= len(name) <= MAX_NODE_ID_CHARS:
            yield f"node id {name[:20]!r} does not have 1 to {MAX_NODE_ID_CHARS} characters"
        if count > 1:
            yield f"node {name!r} is defined twice"


def _wrong_edges(graph: Graph, known: Mapping[NodeId, int]) -> Iterator[str]:
    unknown = {end: None for edge in graph.edges for end in edge if end not in known}
    yield from (f"edge from or to unknown node {end!r}" for end in unknown)
    for (source, target), count in Counter(graph.edges).items():
        if source == target:
            yield f"node {source!r} has an edge to itself"
        if count > 1:
            yield f"the edge from {source!r} to {target!r} is drawn twice"


def _listed(names: Sequence[NodeId]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
