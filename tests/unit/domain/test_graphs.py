"""Documents and stored graphs as JSON: round trips, exact comparison, refusal of foreign values."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.graphs import (
    TASK,
    WAIT,
    ConditionalEdge,
    DocumentNode,
    GraphDocument,
    StoredGraph,
    UnreadableGraph,
    decode,
    edges_to_plain,
    encode,
    is_same,
    of_tasks,
    to_plain,
)
from pyoco_server.http_api.api.graph_models import read_document
from unit.domain.execution.strategies import json_values, moments, texts, thorough

STORED = StoredGraph(
    graph_id="release",
    version=2,
    document=of_tasks(["build", "test"], [("build", "test")]),
    updated_at=1_700_000_000.25,
    updated_by="ann",
    revision=7,
)
PLAIN = orjson.loads(encode(STORED))

nodes = st.builds(
    DocumentNode,
    id=st.sampled_from(["a", "b", "c"]),
    type=st.sampled_from([TASK, WAIT]),
    title=st.none() | texts,
    params=st.none() | st.dictionaries(texts, json_values, max_size=3),
    max_attempts=st.none() | st.integers(1, 9),
    wait_key=st.none() | texts,
    prompt=json_values,
    timeout_sec=st.none() | st.floats(0, 99),
)
edges = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["b", "c"])) | st.builds(
    ConditionalEdge, source=st.just("a"), target=st.just("c"), when=st.lists(texts, min_size=1, max_size=2).map(tuple)
)
documents = st.builds(
    GraphDocument,
    title=st.none() | texts,
    nodes=st.lists(nodes, max_size=4).map(tuple),
    edges=st.lists(edges, max_size=4).map(tuple),
)


@thorough
@given(documents, st.integers(1, 9), moments, st.none() | texts)
def test_a_stored_graph_survives_a_round_trip(document: GraphDocument, version: int, at: float, by: str | None) -> None:
    stored = StoredGraph(
        graph_id="g", version=version, document=document, updated_at=at, updated_by=by, revision=version
    )

    assert decode(encode(stored), "g", version) == stored


def test_a_document_in_short_form_is_the_same_as_in_long_form() -> None:
    short = read_document({"nodes": ["a", {"id": "b", "type": "wait", "timeoutSec": 60}]})
    long = read_document(
        {
            "edges": [],
            "nodes": [{"type": "task", "id": "a"}, {"timeoutSec": 60.0, "waitKey": "b", "id": "b", "type": "wait"}],
        }
    )

    assert is_same(short, long)
    assert orjson.dumps(to_plain(short)) == orjson.dumps(to_plain(long))


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), ("1", 1), ([], {}), ({"a": 1}, {"a": 2})])
def test_values_that_differ_in_json_are_different(one: Any, other: Any) -> None:
    first, second = (read_document({"nodes": [{"id": "a", "params": {"x": value}}]}) for value in (one, other))

    assert not is_same(first, second)


def test_the_order_of_keys_does_not_matter() -> None:
    first, second = (
        read_document({"nodes": [{"id": "a", "params": params}]}) for params in ({"x": 1, "y": 2}, {"y": 2, "x": 1})
    )

    assert is_same(first, second)


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {},
        PLAIN | {"schemaVersion": 2},
        PLAIN | {"graphId": "another"},
        PLAIN | {"version": 0},
        PLAIN | {"version": "2"},
        PLAIN | {"version": True},
        PLAIN | {"updatedAt": "yesterday"},
        PLAIN | {"updatedAt": 1e300},
        PLAIN | {"updatedBy": ["ann"]},
        PLAIN | {"document": None},
        PLAIN | {"document": {"nodes": [{"id": 1}], "edges": []}},
        PLAIN | {"document": {"nodes": ["a"], "edges": []}},
        PLAIN | {"document": {"nodes": [{"id": "a"}], "edges": [["a"]]}},
        PLAIN | {"document": {"nodes": [{"id": "a"}], "edges": [["a", 1]]}},
        PLAIN | {"document": {"nodes": [{"id": "a"}], "edges": [{"from": "a", "to": "b"}]}},
        PLAIN | {"document": {"nodes": [{"id": "a", "params": 1}], "edges": []}},
        PLAIN | {"document": {"nodes": [{"id": "a", "waitKey": 1}], "edges": []}},
    ],
)
def test_foreign_json_is_no_graph(plain: Any) -> None:
    with pytest.raises(UnreadableGraph):
        decode(orjson.dumps(plain), "release", 1)


@thorough
@given(st.binary(max_size=40) | json_values.filter(lambda value: not isinstance(value, int)).map(orjson.dumps))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(UnreadableGraph):
        decode(data, "release", 1)


def test_an_unknown_field_does_not_invalidate_a_graph() -> None:
    newer = PLAIN | {"labels": ["x"], "document": PLAIN["document"] | {"colour": "red"}}

    assert decode(orjson.dumps(newer), "release", 7) == STORED


def test_a_conditional_edge_is_an_object_in_the_document_and_in_the_graph_of_an_execution() -> None:
    edges = [["ask", "done"], {"from": "ask", "to": "deploy", "when": ["ship"]}]
    ask = {"id": "ask", "type": "wait", "waitKey": "ask", "prompt": {"choices": ["ship", "stop"]}}

    document = read_document({"nodes": [ask, "done", "deploy"], "edges": edges})

    assert to_plain(document)["edges"] == edges
    assert edges_to_plain(document.graph) == [["ask", "done"], {"from": "ask", "to": "deploy", "when": ("ship",)}]
    assert document.graph.when == {("ask", "deploy"): ("ship",)}
