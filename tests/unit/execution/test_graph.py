"""Edges answered for: which nodes come first, which come next, and which graphs cannot be run."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.execution.graph import MAX_EDGES, Graph, GraphNode, problems
from pyoco_server.execution.ids import NodeId
from unit.execution.strategies import NODE_IDS, graphs, thorough


def _graph(names: str, *edges: str) -> Graph:
    """Nodes and edges by single letters: `_graph("abc", "ab", "bc")`."""
    return Graph(
        nodes=tuple(GraphNode(node_id=NodeId(name)) for name in names),
        edges=tuple((NodeId(edge[0]), NodeId(edge[1])) for edge in edges),
    )


def _names(nodes: Iterable[GraphNode]) -> str:
    return "".join(node.node_id for node in nodes)


def test_roots_are_the_nodes_that_nothing_precedes() -> None:
    assert _names(_graph("abcd", "ac", "bc", "cd").roots()) == "ab"


def test_a_join_is_ready_only_after_all_that_precede_it() -> None:
    graph = _graph("abc", "ac", "bc")

    assert _names(graph.ready_after(NodeId("a"), [])) == ""
    assert _names(graph.ready_after(NodeId("a"), [NodeId("b")])) == "c"


def test_a_fork_makes_its_successors_ready_in_the_order_of_the_nodes() -> None:
    assert _names(_graph("acb", "ab", "ac").ready_after(NodeId("a"), [])) == "cb"


def test_an_edge_drawn_twice_is_one_edge() -> None:
    graph = _graph("ab", "ab", "ab")

    assert problems(graph) == []
    assert _names(graph.ready_after(NodeId("a"), [])) == "b"


def test_a_graph_can_be_asked_for_a_node_by_name() -> None:
    graph = _graph("ab")

    assert graph.node(NodeId("b")) == GraphNode(node_id=NodeId("b"))
    assert graph.node(NodeId("z")) is None


def test_what_cannot_be_run_is_named() -> None:
    assert problems(_graph("")) == ["a graph needs at least one node"]
    assert problems(_graph("aba")) == ["node 'a' is defined twice"]
    assert problems(_graph("a", "az")) == ["edge from or to unknown node 'z'"]
    assert problems(_graph("ab", "ab", "bb")) == ["these nodes wait for each other: b"]
    assert problems(_graph("abcd", "ab", "bc", "cb", "cd")) == ["these nodes wait for each other: b, c, d"]
    assert problems(_graph("ab", *["ab"] * (MAX_EDGES + 1))) == [f"{MAX_EDGES + 1} edges are more than {MAX_EDGES}"]


@thorough
@given(graphs())
def test_a_graph_without_problems_is_walked_to_its_end(graph: Graph) -> None:
    done: list[NodeId] = []
    ready = [node.node_id for node in graph.roots()]

    while ready:
        name = ready.pop()
        ready += [node.node_id for node in graph.ready_after(name, done)]
        done.append(name)

    assert problems(graph) == []
    assert sorted(done) == sorted(node.node_id for node in graph.nodes)
    assert all(done.index(source) < done.index(target) for source, target in graph.edges)


@thorough
@given(st.lists(st.tuples(st.sampled_from(NODE_IDS), st.sampled_from(NODE_IDS)), max_size=8))
def test_a_graph_has_a_problem_exactly_when_a_walk_cannot_reach_every_node(edges: list[tuple[NodeId, NodeId]]) -> None:
    graph = Graph(nodes=tuple(GraphNode(node_id=name) for name in NODE_IDS), edges=tuple(edges))
    done: set[NodeId] = set()

    for _ in NODE_IDS:
        done |= {name for name in NODE_IDS if all(source in done for source, target in edges if target == name)}

    assert (problems(graph) == []) == (done == set(NODE_IDS))
