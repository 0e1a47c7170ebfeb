"""Graphs: roots, successors, and graphs that cannot run."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.graph import MAX_EDGES, MAX_NAMED, Graph, GraphNode, problems
from pyoco_server.domain.ids import NodeId
from unit.domain.execution.strategies import NODE_IDS, graphs, node_ids, thorough


def _graph(names: str, *edges: str) -> Graph:
    """Nodes and edges by single letters: `_graph("abc", "ab", "bc")`."""
    return Graph(
        nodes=tuple(GraphNode(node_id=NodeId(name)) for name in names),
        edges=tuple((NodeId(edge[0]), NodeId(edge[1])) for edge in edges),
    )


def none_succeeded(node_id: NodeId) -> bool:
    return False


def _names(nodes: Iterable[GraphNode]) -> str:
    return "".join(node.node_id for node in nodes)


def test_roots_are_the_nodes_without_predecessors() -> None:
    assert _names(_graph("abcd", "ac", "bc", "cd").roots()) == "ab"


def test_a_join_is_ready_only_after_all_predecessors() -> None:
    graph = _graph("abc", "ac", "bc")

    assert _names(graph.ready_after(NodeId("a"), none_succeeded)) == ""
    assert _names(graph.ready_after(NodeId("a"), [NodeId("b")].__contains__)) == "c"


def test_a_fork_makes_its_successors_ready_in_the_order_of_the_nodes() -> None:
    assert _names(_graph("acb", "ab", "ac").ready_after(NodeId("a"), none_succeeded)) == "cb"


def test_a_duplicate_edge_is_refused_and_traversed_once() -> None:
    graph = _graph("ab", "ab", "ab")

    assert problems(graph) == ["the edge from 'a' to 'b' is defined twice"]
    assert _names(graph.ready_after(NodeId("a"), none_succeeded)) == "b"


def test_a_graph_is_done_when_its_last_node_succeeds() -> None:
    graph = _graph("abc", "ac", "bc")

    assert not graph.is_done_with(NodeId("c"), [NodeId("a")].__contains__)
    assert graph.is_done_with(NodeId("c"), [NodeId("a"), NodeId("b")].__contains__)


def test_predecessors_are_in_the_order_of_the_edges() -> None:
    graph = _graph("abc", "bc", "ac")

    assert graph.before(NodeId("c")) == ["b", "a"]
    assert not graph.before(NodeId("a"))


def test_a_cached_result_does_not_change_equality_or_repr() -> None:
    cached, fresh = _graph("ab", "ab"), _graph("ab", "ab")

    assert cached.once(lambda graph: len(graph.nodes)) == 2

    assert cached == fresh
    assert repr(cached) == repr(fresh)


def test_a_node_is_found_by_name() -> None:
    graph = _graph("ab")

    assert graph.node(NodeId("b")) == GraphNode(node_id=NodeId("b"))
    assert graph.node(NodeId("z")) is None


def test_problems_of_a_graph_are_named() -> None:
    assert problems(_graph("")) == ["a graph needs at least one node"]
    assert problems(_graph("aba")) == ["node 'a' is defined twice"]
    assert problems(_graph("a", "az")) == ["edge from or to unknown node 'z'"]
    assert problems(_graph("ab", "ab", "bb")) == ["node 'b' has an edge to itself"]
    assert problems(_graph("ab", *["ab"] * (MAX_EDGES + 1))) == [f"{MAX_EDGES + 1} edges are more than {MAX_EDGES}"]


def test_one_cycle_is_reported_from_its_first_node() -> None:
    assert problems(_graph("abcd", "ab", "bc", "cb", "cd")) == ["these nodes wait for each other: b, c"]
    assert problems(_graph("abc", "aa", "ab")) == ["node 'a' has an edge to itself"]


def test_a_long_cycle_is_shortened() -> None:
    names = [NodeId(f"n{number}") for number in range(2_000)]
    ring = zip(names, [*names[1:], names[0]], strict=True)

    (problem,) = problems(Graph(nodes=tuple(GraphNode(node_id=name) for name in names), edges=tuple(ring)))

    assert problem.startswith("these nodes wait for each other: n0, n1, ")
    assert problem.endswith(f"n{MAX_NAMED - 1} and {2_000 - MAX_NAMED} more")


@given(st.lists(st.tuples(node_ids, node_ids), unique=True, max_size=12))
@thorough
def test_the_reported_nodes_are_a_cycle(edges: list[tuple[NodeId, NodeId]]) -> None:
    graph = Graph(nodes=tuple(GraphNode(node_id=name) for name in NODE_IDS), edges=tuple(edges))

    for problem in problems(graph):
        if problem.startswith("these nodes wait for each other: "):
            cycle = problem.partition(": ")[2].split(", ")
            assert set(zip(cycle, [*cycle[1:], cycle[0]], strict=True)) <= set(edges)


@thorough
@given(graphs())
def test_a_graph_without_problems_can_be_completed(graph: Graph) -> None:
    done: list[NodeId] = []
    ready = [node.node_id for node in graph.roots()]

    while ready:
        name = ready.pop()
        ready += [node.node_id for node in graph.ready_after(name, done.__contains__)]
        done.append(name)

    assert problems(graph) == []
    assert sorted(done) == sorted(node.node_id for node in graph.nodes)
    assert all(done.index(source) < done.index(target) for source, target in graph.edges)


@thorough
@given(st.lists(st.tuples(node_ids, node_ids), max_size=8, unique=True))
def test_a_graph_has_a_problem_exactly_if_some_node_is_unreachable(edges: list[tuple[NodeId, NodeId]]) -> None:
    graph = Graph(nodes=tuple(GraphNode(node_id=name) for name in NODE_IDS), edges=tuple(edges))
    done: set[NodeId] = set()

    for _ in NODE_IDS:
        done |= {name for name in NODE_IDS if all(source in done for source, target in edges if target == name)}

    assert (problems(graph) == []) == (done == set(NODE_IDS))
