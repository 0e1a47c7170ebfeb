"""Valid graph documents, reports of invalid ones, and their documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyoco_server.domain.execution import graph
from pyoco_server.domain.execution.graph import MAX_EDGES
from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.graphs import ConditionalEdge, DocumentNode, GraphDocument, is_same, of_tasks
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId
from pyoco_server.errors import InvalidGraph
from pyoco_server.http_api.api import graph_models
from pyoco_server.http_api.api.graph_models import (
    GRAPH_BODY,
    MAX_CONTENT_BYTES,
    MAX_DOCUMENT_BYTES,
    YAML_TYPES,
    check_graph_id,
    read_document,
    read_yaml_document,
)

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "reference" / "graphs.md").read_text("utf-8")
KIB = 1024


def refused(value: Any) -> str:
    with pytest.raises(InvalidGraph) as caught:
        read_document(value)
    return caught.value.detail


def one(**fields: Any) -> dict[str, Any]:
    """A graph of one node with these fields."""
    return {"nodes": [{"id": "a", **fields}]}


def edge(**fields: Any) -> dict[str, Any]:
    """A graph of two tasks and an edge with these fields."""
    return {"nodes": ["a", "b"], "edges": [{"from": "a", "to": "b", **fields}]}


def test_every_field_is_read_and_defaults_are_filled_in() -> None:
    test = {"id": "test", "type": "task", "title": "Test", "params": {"jobs": 4}, "maxAttempts": 3}
    approve = {"id": "approve", "type": "wait", "prompt": {"question": "Ship it?"}, "timeoutSec": 3600}
    last = {"id": "last", "type": "wait", "waitKey": "release-1"}

    document = read_document(
        {"title": "Release", "nodes": ["build", test, approve, last], "edges": [["build", "test"]]}
    )

    assert document == GraphDocument(
        title="Release",
        nodes=(
            DocumentNode(id=NodeId("build"), type="task"),
            DocumentNode(id=NodeId("test"), type="task", title="Test", params={"jobs": 4}, max_attempts=3),
            DocumentNode(
                id=NodeId("approve"),
                type="wait",
                wait_key="approve",
                prompt={"question": "Ship it?"},
                timeout_sec=3600.0,
            ),
            DocumentNode(id=NodeId("last"), type="wait", wait_key="release-1"),
        ),
        edges=((NodeId("build"), NodeId("test")),),
    )
    assert read_document({"nodes": ["a"]}) == of_tasks(["a"], [])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "a JSON object is required"),
        ([], "a JSON object is required"),
        ({}, "nodes: Field required"),
        ({"nodes": []}, "at least 1 item"),
        ({"nodes": ["a"], "node": 1}, "node: Extra inputs are not permitted"),
        ({"nodes": "a"}, "nodes: Input should be a valid list"),
        ({"nodes": None}, "nodes: Input should be a valid list"),
        ({"nodes": ["a"], "edges": {}}, "edges: Input should be a valid list"),
        ({"nodes": [1]}, "nodes.0: must be the id of a task, or an object of the type task or wait"),
        ({"nodes": ["a", {}]}, "nodes.1.task.id: Field required"),
        ({"nodes": [{"id": 1}]}, "nodes.0.task.id: Input should be a valid string"),
        ({"nodes": [""]}, "at least 1 character"),
        ({"nodes": ["a/b"]}, "without '/'"),
        ({"nodes": [".."]}, "not '.' or '..'"),
        ({"nodes": ["a\nb"]}, "printable"),
        ({"nodes": ["x" * 129]}, "at most 128 characters"),
        ({"nodes": ["a"], "edges": [["a", "b"]]}, "edge from or to unknown node 'b'"),
        ({"nodes": ["a"], "edges": ["ab"]}, "edges.0.pair: Input should be a valid list"),
        ({"nodes": ["a", "b"], "edges": [["a", "b", "c"]]}, "edges.0.pair: List should have at most 2 items"),
        ({"nodes": ["a", "b"], "edges": [["a", "b"], ["a", 1]]}, "edges.1.pair.1: Input should be a valid string"),
        (edge(when=[]), "edges.0.object.when: List should have at least 1 item"),
        (edge(when=["x"] * 101), "edges.0.object.when: List should have at most 100 items"),
        (edge(when=["x", "x"]), "edges.0.object.when: Value error, a choice is listed twice"),
        (edge(when=[""]), "edges.0.object.when: Value error, a choice must have 1 to 128 printable characters"),
        (edge(when="ship"), "edges.0.object.when: Input should be a valid list"),
        (edge(when=[None]), "edges.0.object.when.0"),
        (edge(when=None), "edges.0.object.when: Input should be a valid list"),
        (edge(wenn=["x"]), "edges.0.object.wenn: Extra inputs are not permitted"),
        ({"nodes": ["a"], "edges": [{"from": "a"}]}, "edges.0.object.to: Field required"),
        ({"nodes": ["a"], "edges": [{"to": "a"}]}, "edges.0.object.from: Field required"),
        (one(type="wait", prompt={"choices": "ship"}), "prompt: Value error, choices: must be a list of 1 to 100"),
        (one(type="wait", prompt={"choices": [{}]}), "a choice must be a text, a number, true or false"),
        ({"nodes": ["a"], "title": ""}, "title: String should have at least 1 character"),
        ({"nodes": ["a"], "title": None}, "title: Input should be a valid string"),
        ({"nodes": ["a"], "title": "x" * 201}, "title: String should have at most 200"),
        ({"nodes": ["a"], "title": "a\x1bb"}, "title: Value error, must be printable"),
        (one(type="fork"), "nodes.0: must be the id of a task, or an object of the type task or wait"),
        (one(type=["wait"]), "nodes.0: must be the id of a task, or an object of the type task or wait"),
        (one(waitKey="k"), "nodes.0.task.waitKey: Extra inputs are not permitted"),
        (one(wait_key="k"), "Extra inputs are not permitted"),
        (one(type="wait", params={}), "nodes.0.wait.params: Extra inputs are not permitted"),
        (one(title=7), "nodes.0.task.title: Input should be a valid string"),
        (one(params=[]), "params: Input should be a valid dictionary"),
        (one(params=None), "params: Input should be a valid dictionary"),
        (one(params={"x": "y" * MAX_CONTENT_BYTES}), "bytes as JSON are more than 16384"),
        (one(maxAttempts=0), "maxAttempts: Input should be greater than or equal to 1"),
        (one(maxAttempts=1001), "maxAttempts: Input should be less than or equal to 1000"),
        (one(maxAttempts=True), "maxAttempts: Input should be a valid integer"),
        (one(maxAttempts=1.0), "maxAttempts: Input should be a valid integer"),
        (one(type="wait", waitKey=""), "waitKey: String should have at least 1 character"),
        (one(type="wait", waitKey="x" * 257), "waitKey: String should have at most 256"),
        (one(type="wait", waitKey="a\tb"), "waitKey: Value error, must be printable"),
        (one(type="wait", prompt="x" * MAX_CONTENT_BYTES), "bytes as JSON are more than 16384"),
        (one(type="wait", timeoutSec=0), "timeoutSec: Input should be greater than 0"),
        (one(type="wait", timeoutSec=366 * 86_400 + 1), "less than or equal to 31622400"),
        (one(type="wait", timeoutSec="1"), "timeoutSec: Input should be a valid number"),
        (one(type="wait", timeoutSec=True), "timeoutSec: Input should be a valid number"),
        (one(type="wait", timeoutSec=float("nan")), "timeoutSec: Input should be"),
        ({"nodes": [f"n{number}" for number in range(MAX_NODES + 1)]}, "nodes: List should have at most 2000"),
        ({"nodes": ["a"], "edges": [["a", "b"]] * (MAX_EDGES + 1)}, "edges: List should have at most 20000"),
        ({"nodes": [1] * MAX_NODES, "edges": [1] * MAX_EDGES, "x" * 10_000: 1}, "Extra inputs"),
    ],
)
def test_an_invalid_graph_is_refused_with_the_place_and_the_reason(value: Any, words: str) -> None:
    detail = refused(value)

    assert words in detail
    assert len(detail) < 600


def test_the_whole_document_is_bounded() -> None:
    nodes = [{"id": f"n{number}", "params": {"text": "x" * (MAX_CONTENT_BYTES - 20)}} for number in range(17)]

    assert f"at most {MAX_DOCUMENT_BYTES} are kept" in refused({"nodes": nodes})
    assert len(read_document({"nodes": nodes[:15]}).nodes) == 15


def test_the_first_problems_of_the_edges_are_reported_together() -> None:
    with pytest.raises(InvalidGraph) as caught:
        read_document({"nodes": ["a", "b"], "edges": [["a", "a"], ["b", "x"], *(["a", f"y{n}"] for n in range(500))]})

    problems = caught.value.facts["problems"]
    assert isinstance(problems, list)
    assert problems[0] == "edge from or to unknown node 'x'"
    assert len(problems) == 10
    assert caught.value.detail.endswith("; and 492 more")


def test_an_edge_with_when_is_an_object_and_any_other_one_a_pair() -> None:
    document = read_document(edge(when=["ship", 2, True]))

    assert document.edges == (ConditionalEdge(source=NodeId("a"), target=NodeId("b"), when=("ship", "2", "true")),)
    assert read_document(edge()).edges == ((NodeId("a"), NodeId("b")),)


def test_the_choices_of_the_edges_must_be_those_of_the_prompt() -> None:
    wait = {"id": "a", "type": "wait", "prompt": {"choices": ["ship", "stop"]}}

    wrong = refused(edge(when=["shp"]) | {"nodes": [wait, "b"]})
    none = refused(edge(when=["ship"]) | {"nodes": [{"id": "a", "type": "wait"}, "b"]})

    assert wrong == "the edge from 'a' to 'b' has `when` shp; the choices of 'a' are ship, stop"
    assert none == "the edge from 'a' to 'b' has `when`, but the prompt of 'a' has no choices"


def test_the_words_of_yaml_for_true_and_false_can_be_choices() -> None:
    text = "nodes: [{id: a, type: wait, prompt: {choices: [yes, no]}}, b]\nedges: [{from: a, to: b, when: [yes]}]"

    assert read_yaml_document(text.encode()).graph.when == {("a", "b"): ("true",)}


@pytest.mark.parametrize("graph_id", ["", ".", "..", "a/b", "a\n", "x" * 129])
def test_the_id_of_a_graph_can_be_part_of_a_path(graph_id: str) -> None:
    with pytest.raises(InvalidGraph):
        check_graph_id(graph_id)


def test_yaml_and_json_give_the_same_graph() -> None:
    plain = {
        "title": "Release",
        "nodes": ["build", {"id": "approve", "type": "wait", "prompt": {"question": "Ship it?"}, "timeoutSec": 60}],
        "edges": [["build", "approve"]],
    }

    assert read_yaml_document(yaml.safe_dump(plain).encode()) == read_document(plain)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes: [a, a\n", "not YAML"),
        ("nodes: [a]\nnodes: [b]", "line 2: the key 'nodes' stands twice"),
        ("nodes: [{id: a, params: {when: 2026-01-01}}]", "put it in quotes"),
        ("nodes: [1]", "nodes.0: must be the id of a task"),
        ("nodes: [" + "a, " * 120_000 + "]", "more than 100000 values"),
    ],
)
def test_ambiguous_or_expensive_yaml_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidGraph) as caught:
        read_yaml_document(text.encode())

    assert words in caught.value.detail


def test_a_yaml_file_may_have_as_many_nodes_and_edges_as_a_graph() -> None:
    names = [f"{number:x}" for number in range(200)]
    edges = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]][:MAX_EDGES]
    text = "\n".join([f"nodes: {names}", "edges:", *(f"- ['{a}', '{b}']" for a, b in edges)])

    assert len(read_yaml_document(text.encode()).edges) == 19_900


def test_the_documented_graph_is_the_one_of_the_examples() -> None:
    (documented,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)

    example = read_yaml_document((ROOT / "examples" / "release.yaml").read_bytes())

    assert is_same(read_yaml_document(documented.encode()), example)


def test_the_schema_in_the_openapi_document_is_complete_and_its_example_is_accepted() -> None:
    schema = GRAPH_BODY["requestBody"]["content"]["application/json"]["schema"]

    assert "$ref" not in str(schema)
    assert [form["type"] for form in schema["properties"]["nodes"]["items"]["oneOf"]] == [
        "string",
        "object",
        "object",
    ]
    assert read_document(schema["example"]).edges


def test_the_limits_and_content_types_are_documented() -> None:
    text = DOCUMENT.replace(",", "").replace("\n", " ")

    assert all(f"`{kind}`" in DOCUMENT for kind in YAML_TYPES)
    assert f"At most {MAX_NODES} nodes {graph.MAX_EDGES} edges and {MAX_DOCUMENT_BYTES // KIB} KiB" in text
    assert f"1 to {MAX_NODE_ID_CHARS} printable characters without `/`" in text
    assert f"1 to {graph_models.MAX_TITLE_CHARS} printable characters" in text
    assert f"1 to {graph_models.MAX_WAIT_KEY_CHARS} printable characters" in text
    assert f"1 to {graph_models.MAX_ATTEMPTS} " in text
    assert f"up to {MAX_CONTENT_BYTES // KIB} KiB" in text
    assert f"at most {graph_models.MAX_WAIT_SEC / 86_400:.0f} days" in text
