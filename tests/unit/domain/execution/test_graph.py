"""Graphs: roots, successors, and graphs that cannot run."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.graph import MAX_EDGES, MAX_NAMED, Graph, GraphNode, problems
from pyoco_server.domain.ids import NodeId
from unit.domain.execution.strategies import CHOICES, NODE_IDS, graphs, node_ids, thorough


def _graph(names: str, *edges: str) -> Graph:
    """Nodes and edges by single letters, and `when` behind a colon: `_graph("abc", "ab", "bc:ship,stop")`."""
    return Graph(
        nodes=tuple(GraphNode(node_id=NodeId(name)) for name in names),
        edges=tuple((NodeId(edge[0]), NodeId(edge[1])) for edge in edges),
        when={(NodeId(edge[0]), NodeId(edge[1])): tuple(edge[3:].split(",")) for edge in edges if edge[2:]},
    )


def _after(graph: Graph, done: str, *before: str, choice: str | None = None) -> tuple[str, str]:
    """What `done` makes ready and what it skips, after the ends of others; a name in upper case was skipped before."""

    def is_followed(source: NodeId, when: tuple[str, ...]) -> bool | None:
        if source == done or source in before:
            return not when or (choice if source == done else None) in when
        return False if source.upper() in before else None

    follow = graph.follow(NodeId(done), is_followed)
    return _names(follow.ready), "".join(follow.skipped)


def _names(nodes: Iterable[GraphNode]) -> str:
    return "".join(node.node_id for node in nodes)


def test_roots_are_the_nodes_without_predecessors() -> None:
    assert _names(_graph("abcd", "ac", "bc", "cd").roots()) == "ab"


def test_a_join_is_ready_only_after_all_predecessors() -> None:
    graph = _graph("abc", "ac", "bc")

    assert _after(graph, "a") == ("", "")
    assert _after(graph, "a", "b") == ("c", "")


def test_a_fork_makes_its_successors_ready_in_the_order_of_the_nodes() -> None:
    assert _after(_graph("acb", "ab", "ac"), "a") == ("cb", "")


def test_a_duplicate_edge_is_refused_and_traversed_once() -> None:
    graph = _graph("ab", "ab", "ab")

    assert problems(graph) == ["the edge from 'a' to 'b' is defined twice"]
    assert _after(graph, "a") == ("b", "")


def test_a_graph_is_complete_when_every_node_is_finished() -> None:
    graph = _graph("abc", "ac", "bc")

    assert not graph.is_complete([NodeId("a"), NodeId("c")].__contains__)
    assert graph.is_complete([NodeId("a"), NodeId("b"), NodeId("c")].__contains__)


def test_an_edge_with_when_is_followed_on_these_choices_only() -> None:
    graph = _graph("abc", "ab:ship,later", "ac:stop")

    assert _after(graph, "a", choice="ship") == ("b", "c")
    assert _after(graph, "a", choice="later") == ("b", "c")
    assert _after(graph, "a", choice="stop") == ("c", "b")
    assert _after(graph, "a", choice="other") == ("", "bc")
    assert _after(graph, "a") == ("", "bc")


def test_what_only_skipped_nodes_lead_to_is_skipped() -> None:
    graph = _graph("abcdx", "ab:ship", "bc", "cd", "xd")

    assert _after(graph, "a", choice="stop") == ("", "bc")
    assert _after(graph, "a", "x", choice="stop") == ("d", "bc")
    assert _after(graph, "x", "A", "B", "C") == ("d", "")


def test_a_join_of_skipped_and_followed_edges_runs_after_all_that_were_not_skipped() -> None:
    graph = _graph("abcj", "aj", "bj:ship", "cj")

    assert _after(graph, "b", "a", choice="stop") == ("", "")
    assert _after(graph, "b", "a", "c", choice="stop") == ("j", "")
    assert _after(graph, "b", "A", "C", choice="stop") == ("", "j")
    assert _after(graph, "b", "A", "C", choice="ship") == ("j", "")


def test_a_join_of_branches_that_end_together_is_decided_once() -> None:
    graph = _graph("abcd", "ab:ship", "ac:ship", "bd", "cd")

    assert _after(graph, "a", choice="stop") == ("", "bcd")
    assert _after(_graph("adbc", "ab:ship", "ad", "bd", "cd"), "a", "c", choice="stop") == ("d", "b")


def test_the_choices_of_a_wait_node_must_include_those_of_its_edges() -> None:
    def wait(prompt: object) -> Graph:
        asking = GraphNode(node_id=NodeId("a"), wait_key="a", prompt=prompt)
        graph = _graph("ab", "ab:shp,ship")
        return Graph(nodes=(asking, *graph.nodes[1:]), edges=graph.edges, when=graph.when)

    assert problems(_graph("ab", "ab:anything")) == []
    assert problems(wait({"choices": ["ship", "shp", "stop"]})) == []
    assert problems(wait({"choices": ["ship", "stop"]})) == [
        "the edge from 'a' to 'b' has `when` shp; the choices of 'a' are ship, stop"
    ]
    assert problems(wait("Ship it?")) == ["the edge from 'a' to 'b' has `when`, but the prompt of 'a' has no choices"]


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
@given(graphs(), st.dictionaries(node_ids, st.sampled_from([None, *CHOICES])))
def test_a_graph_without_problems_is_completed_by_any_choices(graph: Graph, chosen: dict[NodeId, str | None]) -> None:
    done: list[NodeId] = []
    skipped: list[NodeId] = []
    ready = [node.node_id for node in graph.roots()]

    def is_followed(source: NodeId, when: tuple[str, ...]) -> bool | None:
        if source in done:
            return not when or chosen.get(source) in when
        return False if source in skipped else None

    while ready:
        done.append(ready.pop())
        follow = graph.follow(done[-1], is_followed)
        ready += [node.node_id for node in follow.ready]
        skipped += follow.skipped

    assert problems(graph) == []
    assert sorted([*done, *skipped]) == sorted(node.node_id for node in graph.nodes)
    for node in graph.nodes:
        edges = [(source, graph.when.get((source, node.node_id), ())) for source in graph.before(node.node_id)]
        if node.node_id in done:
            assert all(source in skipped or done.index(source) < done.index(node.node_id) for source, _ in edges)
            assert not edges or any(is_followed(*edge) for edge in edges)
        else:
            assert edges
            assert not any(is_followed(*edge) for edge in edges)


@thorough
@given(st.lists(st.tuples(node_ids, node_ids), max_size=8, unique=True))
def test_a_graph_has_a_problem_exactly_if_some_node_is_unreachable(edges: list[tuple[NodeId, NodeId]]) -> None:
    graph = Graph(nodes=tuple(GraphNode(node_id=name) for name in NODE_IDS), edges=tuple(edges))
    done: set[NodeId] = set()

    for _ in NODE_IDS:
        done |= {name for name in NODE_IDS if all(source in done for source, target in edges if target == name)}

    assert (problems(graph) == []) == (done == set(NODE_IDS))
