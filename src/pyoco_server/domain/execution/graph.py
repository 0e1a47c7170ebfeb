"""Graphs of nodes: which nodes become ready or are skipped, when a graph is complete, and whether it can run at all.

A graph does not know who does the work; it only knows the order of its nodes. An edge with `when` is followed only if
the choice of its source is listed there. An edge is decided when its source has succeeded or was skipped. A node whose
incoming edges are all decided becomes ready if one of them is followed; otherwise it is skipped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from pyoco_server.domain.execution.choices import choices_of
from pyoco_server.domain.execution.choices import shown as shown_choices
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId

T = TypeVar("T")
Edge = tuple[NodeId, NodeId]
When = Mapping[Edge, tuple[str, ...]]
# Whether an edge with this source and these choices is followed; None: the source is not finished.
IsFollowed = Callable[[NodeId, tuple[str, ...]], bool | None]

MAX_EDGES = 20_000
# At most so many nodes are named in one message.
MAX_NAMED = 20


class GraphNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A node of a graph. A wait node (with `wait_key`) is resumed from outside instead of being worked on.

    `timeout_sec` bounds a wait, `max_attempts` the attempts of a task; `params` are passed to the worker of the task.
    """

    node_id: NodeId = msgspec.field(name="id")
    wait_key: str | None = None
    prompt: Any = None
    timeout_sec: float | None = None
    max_attempts: int | None = None
    params: Mapping[str, Any] | None = None

    @property
    def is_wait(self) -> bool:
        return self.wait_key is not None


class Follow(NamedTuple):
    """What a finished node leads to: the nodes that become ready, and those that can no longer be reached."""

    ready: list[GraphNode]
    skipped: list[NodeId]


class Graph:
    """Nodes and the edges between them; immutable. Several predecessors are a join, several successors a fork.

    `when` has the choices of those edges that are followed on certain choices only.

    No struct: its stored form has edges as indexes of nodes, see `codec`.
    """

    __slots__ = ("_derived", "edges", "nodes", "when")

    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    when: When

    def __init__(
        self, *, nodes: tuple[GraphNode, ...], edges: tuple[Edge, ...], when: When = MappingProxyType({})
    ) -> None:
        self.nodes = nodes
        self.edges = edges
        self.when = when
        self._derived: dict[object, object] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return False
        return (self.nodes, self.edges, self.when) == (other.nodes, other.edges, other.when)

    def __repr__(self) -> str:
        return f"Graph(nodes={self.nodes!r}, edges={self.edges!r}, when={dict(self.when)!r})"

    def once(self, derive: Callable[[Graph], T]) -> T:
        """The result of a pure function of this graph, computed on first use. Do not mutate it."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        return cast(T, self._derived[derive])

    def node(self, node_id: NodeId) -> GraphNode | None:
        index = self.once(_adjacency).index.get(node_id)
        return None if index is None else self.nodes[index]

    def before(self, node_id: NodeId) -> Sequence[NodeId]:
        """The predecessors of a node, in the order of the edges."""
        return self.once(_adjacency).before.get(node_id, ())

    def roots(self) -> Iterator[GraphNode]:
        """The nodes without predecessors."""
        return (node for node in self.nodes if not self.before(node.node_id))

    def follow(self, done: NodeId, is_followed: IsFollowed) -> Follow:
        """The consequences of the end of `done`, which `is_followed` knows already; each edge is examined once."""
        adjacency = self.once(_adjacency)
        follow = Follow([], [])
        settled: set[NodeId] = set()
        skipped: set[NodeId] = set()
        reached: set[NodeId] = set()
        left: dict[NodeId, int] = {}
        sources = [done]
        for source in sources:  # grows by the skipped nodes: their successors may be out of reach, too
            for index in adjacency.after.get(source, ()):
                node_id = self.nodes[index].node_id
                before = adjacency.before[node_id]
                # Nodes are claimed in order, so the last predecessor is the one most likely to be unfinished.
                place = left.get(node_id, len(before))
                while place:
                    origin = before[place - 1]
                    when = self.when.get((origin, node_id), ()) if self.when else ()
                    followed = False if origin in skipped else is_followed(origin, when)
                    if followed is None:
                        break
                    if followed:
                        reached.add(node_id)
                    place -= 1
                left[node_id] = place
                if place or node_id in settled:
                    continue
                settled.add(node_id)
                if node_id in reached:
                    follow.ready.append(self.nodes[index])
                else:
                    skipped.add(node_id)
                    follow.skipped.append(node_id)
                    sources.append(node_id)
        return follow

    def is_complete(self, is_finished: Callable[[NodeId], bool]) -> bool:
        """Whether every node is finished: succeeded or skipped."""
        return all(is_finished(node.node_id) for node in reversed(self.nodes))


class _Adjacency(msgspec.Struct, frozen=True, kw_only=True):
    """The index of each node, its predecessors, and the indexes of its successors in the order of the nodes."""

    index: Mapping[NodeId, int]
    before: Mapping[NodeId, Sequence[NodeId]]
    after: Mapping[NodeId, Sequence[int]]


def _adjacency(graph: Graph) -> _Adjacency:
    index: dict[NodeId, int] = {}
    for place, node in enumerate(graph.nodes):
        index.setdefault(node.node_id, place)
    before: defaultdict[NodeId, list[NodeId]] = defaultdict(list)
    after: defaultdict[NodeId, set[int]] = defaultdict(set)
    for source, target in graph.edges:
        before[target].append(source)
        if target in index:
            after[source].add(index[target])
    in_order = {node_id: sorted(successors) for node_id, successors in after.items()}
    return _Adjacency(index=index, before=dict(before), after=in_order)


def problems(graph: Graph) -> list[str]:
    """What is wrong with a graph, by name: duplicate nodes and edges, unknown ends of edges, the first cycle found."""
    if len(graph.edges) > MAX_EDGES:
        return [f"{len(graph.edges)} edges are more than {MAX_EDGES}"]
    known = Counter(node.node_id for node in graph.nodes)
    return [
        *_node_problems(known),
        *_edge_problems(graph, known),
        *_choice_problems(graph),
        *_cycle_problems(graph, known),
    ]


def _node_problems(known: Mapping[NodeId, int]) -> Iterator[str]:
    if not known:
        yield "a graph needs at least one node"
    for name, count in known.items():
        if not 1 <= len(name) <= MAX_NODE_ID_CHARS:
            yield f"node id {name[:20]!r} does not have 1 to {MAX_NODE_ID_CHARS} characters"
        if count > 1:
            yield f"node {name!r} is defined twice"


def _edge_problems(graph: Graph, known: Mapping[NodeId, int]) -> Iterator[str]:
    unknown = {end: None for edge in graph.edges for end in edge if end not in known}
    yield from (f"edge from or to unknown node {end!r}" for end in unknown)
    for (source, target), count in Counter(graph.edges).items():
        if source == target:
            yield f"node {source!r} has an edge to itself"
        if count > 1:
            yield f"the edge from {source!r} to {target!r} is defined twice"


def _choice_problems(graph: Graph) -> Iterator[str]:
    """The prompt of a wait node is known before it runs, so its edges can be checked; that of a task is not."""
    for (source, target), when in graph.when.items():
        node = graph.node(source)
        if node is None or not node.is_wait:
            continue
        choices = choices_of(node.prompt)
        if not choices:
            yield f"the edge from {source!r} to {target!r} has `when`, but the prompt of {source!r} has no choices"
        elif unknown := [choice for choice in when if choice not in choices]:
            yield (
                f"the edge from {source!r} to {target!r} has `when` {shown_choices(unknown)}; "
                f"the choices of {source!r} are {shown_choices(choices)}"
            )


def _cycle_problems(graph: Graph, known: Mapping[NodeId, int]) -> Iterator[str]:
    sorter = TopologicalSorter[NodeId]()
    for source, target in graph.edges:
        if source != target and source in known and target in known:
            sorter.add(target, source)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[NodeId] = error.args[1][1:]  # the first node is repeated at the end
        start = min(range(len(cycle)), key=lambda place: graph.once(_adjacency).index[cycle[place]])
        cycle = cycle[start:] + cycle[:start]
        more = f" and {len(cycle) - MAX_NAMED} more" if len(cycle) > MAX_NAMED else ""
        yield f"these nodes wait for each other: {', '.join(cycle[:MAX_NAMED])}{more}"
