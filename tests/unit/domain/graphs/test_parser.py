"""Which graph documents are valid, and how invalid ones are reported."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.graph import MAX_EDGES, Graph, GraphNode
from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.graphs.document import GraphDocument, TitledNode, to_plain
from pyoco_server.domain.graphs.parser import (
    MAX_CONTENT_BYTES,
    MAX_DOCUMENT_BYTES,
    check_graph_id,
    read_document,
    read_yaml_document,
)
from pyoco_server.domain.ids import NodeId
from pyoco_server.errors import InvalidGraph
from unit.domain.execution.strategies import thorough

NODES = [f"n{number}" for number in range(12)]
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


def refused(value: Any) -> str:
    with pytest.raises(InvalidGraph) as caught:
        read_document(value)
    return caught.value.detail


def one(**fields: Any) -> dict[str, Any]:
    """A graph of one node with these fields."""
    return {"nodes": [{"id": "a", **fields}]}


def test_a_text_is_a_task_and_defaults_are_filled_in() -> None:
    document = read_document({"nodes": ["build", {"id": "approve", "type": "wait"}], "edges": [["build", "approve"]]})

    assert document == GraphDocument(
        nodes=(
            TitledNode(node=GraphNode(node_id=NodeId("build"))),
            TitledNode(node=GraphNode(node_id=NodeId("approve"), wait_key="approve")),
        ),
        edges=((NodeId("build"), NodeId("approve")),),
    )


def test_every_field_finds_its_place() -> None:
    build = {"id": "build", "type": "task", "title": "Build", "params": {"jobs": 4}, "maxAttempts": 3}
    approve = {
        "id": "approve",
        "type": "wait",
        "title": "Approve",
        "waitKey": "release-1",
        "prompt": {"question": "Ship it?"},
        "timeoutSec": 3600,
    }

    document = read_document({"title": "Release", "nodes": [build, approve], "edges": [["build", "approve"]]})

    assert document.title == "Release"
    assert [titled.title for titled in document.nodes] == ["Build", "Approve"]
    assert document.graph == Graph(
        nodes=(
            GraphNode(node_id=NodeId("build"), params={"jobs": 4}, max_attempts=3),
            GraphNode(
                node_id=NodeId("approve"),
                wait_key="release-1",
                prompt={"question": "Ship it?"},
                timeout_sec=3600.0,
            ),
        ),
        edges=((NodeId("build"), NodeId("approve")),),
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "a graph must be an object"),
        ([], "a graph must be an object"),
        ("a", "a graph must be an object"),
        ({}, "at least one node"),
        ({"nodes": []}, "at least one node"),
        ({"nodes": ["a"], "node": 1}, "unknown field 'node'; known are title, nodes, edges"),
        ({"nodes": "a"}, "nodes must be a list"),
        ({"nodes": None}, "nodes must be a list"),
        ({"nodes": ["a"], "edges": {}}, "edges must be a list"),
        ({"nodes": [1]}, "nodes[0] must be the id of a task, or an object"),
        ({"nodes": ["a", {}]}, "nodes[1].id: the id of a node has"),
        ({"nodes": [{"id": 1}]}, "nodes[0].id: the id of a node has"),
        ({"nodes": [""]}, "'' is none"),
        ({"nodes": ["a/b"]}, "'a/b' is none"),
        ({"nodes": [".."]}, "'..' is none"),
        ({"nodes": ["a\nb"]}, "is none"),
        ({"nodes": ["x" * 129]}, "is none"),
        ({"nodes": ["a", "a"]}, "node 'a' is defined twice"),
        ({"nodes": ["a"], "edges": [["a", "b"]]}, "unknown node 'b'"),
        ({"nodes": ["a"], "edges": [["a", "a"]]}, "node 'a' has an edge to itself"),
        ({"nodes": ["a", "b"], "edges": [["a", "b"], ["a", "b"]]}, "edge from 'a' to 'b' is defined twice"),
        ({"nodes": ["a", "b"], "edges": [["a", "b"], ["b", "a"]]}, "wait for each other: a, b"),
        ({"nodes": ["a"], "edges": ["ab"]}, "edges[0] must be a pair"),
        ({"nodes": ["a", "b"], "edges": [["a", "b", "c"]]}, "edges[0] must be a pair"),
        ({"nodes": ["a", "b"], "edges": [["a", "b"], ["a", 1]]}, "edges[1] must be a pair"),
        ({"nodes": ["a"], "edges": [{"from": "a"}]}, "edges[0] must be a pair"),
        ({"nodes": ["a"], "title": ""}, "the title of the graph must be 1 to 200"),
        ({"nodes": ["a"], "title": None}, "the title of the graph must be 1 to 200"),
        ({"nodes": ["a"], "title": "x" * 201}, "the title of the graph must be 1 to 200"),
        ({"nodes": ["a"], "title": "a\x1bb"}, "the title of the graph must be 1 to 200"),
        (one(type="fork"), "node 'a' has the type 'fork'; known are task and wait"),
        (one(type=["wait"]), "known are task and wait"),
        (one(retries=3), "node 'a', which is of the type task, has the unknown field 'retries'"),
        (one(waitKey="k"), "which is of the type task, has the unknown field 'waitKey'"),
        (one(type="wait", params={}), "which is of the type wait, has the unknown field 'params'"),
        (one(type="wait", maxAttempts=1), "unknown field 'maxAttempts'"),
        (one(title=7), "the title of node 'a' must be"),
        (one(params=[]), "params of node 'a' must be an object"),
        (one(params=None), "params of node 'a' must be an object"),
        (one(params={"x": "y" * MAX_CONTENT_BYTES}), "params of node 'a': "),
        (one(maxAttempts=0), "maxAttempts of node 'a' must be a whole number from 1 to 1000"),
        (one(maxAttempts=1001), "maxAttempts"),
        (one(maxAttempts=True), "maxAttempts"),
        (one(maxAttempts=1.0), "maxAttempts"),
        (one(type="wait", waitKey=""), "the waitKey of node 'a' must be 1 to 256"),
        (one(type="wait", waitKey="x" * 257), "the waitKey of node 'a' must be 1 to 256"),
        (one(type="wait", waitKey="a\tb"), "the waitKey of node 'a' must be 1 to 256"),
        (one(type="wait", prompt="x" * MAX_CONTENT_BYTES), "the prompt of node 'a': "),
        (one(type="wait", timeoutSec=0), "timeoutSec of node 'a' must be above 0"),
        (one(type="wait", timeoutSec=366 * 86_400 + 1), "at most 31622400"),
        (one(type="wait", timeoutSec="1"), "timeoutSec of node 'a' must be a number"),
        (one(type="wait", timeoutSec=True), "timeoutSec of node 'a' must be a number"),
        ({"nodes": [f"n{number}" for number in range(MAX_NODES + 1)]}, "2001 nodes are more than 2000"),
        ({"nodes": ["a"], "edges": [["a", "b"]] * (MAX_EDGES + 1)}, "20001 edges are more than 20000"),
    ],
)
def test_what_is_no_graph_is_refused_by_name(value: Any, words: str) -> None:
    detail = refused(value)

    assert words in detail
    assert len(detail) < 400


def test_the_whole_is_bounded_too() -> None:
    nodes = [{"id": f"n{number}", "params": {"text": "x" * (MAX_CONTENT_BYTES - 20)}} for number in range(17)]

    assert f"at most {MAX_DOCUMENT_BYTES} are kept" in refused({"nodes": nodes})
    assert len(read_document({"nodes": nodes[:15]}).nodes) == 15


def test_everything_that_is_wrong_with_the_edges_is_told_at_once_but_not_without_end() -> None:
    with pytest.raises(InvalidGraph) as caught:
        read_document({"nodes": ["a", "b"], "edges": [["a", "a"], ["b", "x"], *(["a", f"y{n}"] for n in range(500))]})

    problems = caught.value.facts["problems"]
    assert isinstance(problems, list)
    assert problems[0] == "edge from or to unknown node 'x'"
    assert len(problems) == 10
    assert caught.value.detail.endswith("; and 492 more")


@pytest.mark.parametrize("graph_id", ["", ".", "..", "a/b", "a\n", "x" * 129])
def test_a_graph_is_called_by_what_can_stand_in_a_path(graph_id: str) -> None:
    with pytest.raises(InvalidGraph):
        check_graph_id(graph_id)


def test_yaml_says_the_same_as_json() -> None:
    plain = {
        "title": "Release",
        "nodes": ["build", {"id": "approve", "type": "wait", "prompt": {"question": "Ship it?"}, "timeoutSec": 60}],
        "edges": [["build", "approve"]],
    }

    assert read_yaml_document(yaml.safe_dump(plain).encode()) == read_document(plain)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "aliases"),
        ("nodes: [a, a\n", "not YAML"),
        ("nodes: [a]\nnodes: [b]", "line 2: the key 'nodes' stands twice"),
        ("nodes: [a]\n---\nnodes: [b]", "second document"),
        ("nodes: [{id: a, params: {when: 2026-01-01}}]", "put it in quotes"),
        ("nodes: [1]", "nodes[0] must be the id of a task"),
        ("[" * 1_000, "nested deeper"),
        ("nodes: [" + "a, " * 120_000 + "]", "more than 100000 values"),
        ("", "empty"),
    ],
)
def test_yaml_that_could_be_misread_or_cost_much_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidGraph) as caught:
        read_yaml_document(text.encode())

    assert words in caught.value.detail


def test_a_yaml_file_may_have_as_many_nodes_and_edges_as_a_graph() -> None:
    names = [f"{number:x}" for number in range(200)]
    edges = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]][:MAX_EDGES]
    text = "\n".join([f"nodes: {names}", "edges:", *(f"- ['{a}', '{b}']" for a, b in edges)])

    assert len(read_yaml_document(text.encode()).edges) == 19_900


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """Nodes and edges in any order; the edges lead from earlier to later ones of another order."""
    names = draw(st.permutations(NODES))[: draw(st.integers(2, len(NODES)))]
    pairs = [[a, b] for place, a in enumerate(names) for b in names[place + 1 :]]
    edges = draw(st.lists(st.sampled_from(pairs), unique_by=tuple, max_size=30))
    return draw(st.permutations(names)), edges


@thorough
@given(dags())
def test_any_graph_without_a_cycle_is_accepted_and_comes_back(dag: tuple[list[str], list[list[str]]]) -> None:
    nodes, edges = dag

    document = read_document({"nodes": nodes, "edges": edges})

    assert [titled.node.node_id for titled in document.nodes] == nodes
    assert read_document(to_plain(document)) == document


@thorough
@given(dags(), st.data())
def test_any_back_edge_is_refused_and_the_nodes_named_are_on_a_cycle(
    dag: tuple[list[str], list[list[str]]], data: st.DataObject
) -> None:
    nodes, edges = dag
    first, *rest = data.draw(st.permutations(nodes))
    path = [first, *rest[: data.draw(st.integers(1, 4))]]
    chain = [list(step) for step in zip(path, [*path[1:], first], strict=True)]
    drawn = edges + [step for step in chain if step not in edges]

    detail = refused({"nodes": nodes, "edges": drawn})

    cycles = [problem for problem in detail.split("; ") if problem.startswith("these nodes wait for each other: ")]
    named = {name for problem in cycles for name in problem.partition(": ")[2].split(", ")}
    assert named
    assert all(_returns(name, drawn) for name in named)


def _returns(start: str, edges: list[list[str]]) -> bool:
    seen: set[str] = set()
    ways = [start]
    while ways:
        here = ways.pop()
        fresh = {target for source, target in edges if source == here} - seen
        seen |= fresh
        ways += fresh
    return start in seen
