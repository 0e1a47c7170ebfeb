"""What is asked about executions, nodes, waits and graphs, before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client import execution_calls as calls
from pyoco_server.http_client.call_parts import Call


def body(call: Call[Any]) -> Any:
    return json.loads(call.content or b"null")


def test_a_creation_says_only_what_was_given() -> None:
    plain = calls.create_execution("release", None, None)
    full = calls.create_execution("release", {"version": "1.4.0"}, "gpu", "mine")

    assert (plain.method, plain.path, body(plain)) == ("POST", "/executions", {"graphId": "release", "input": {}})
    assert body(full) == {"graphId": "release", "input": {"version": "1.4.0"}, "tag": "gpu"}
    assert (plain.makes, full.idempotency_key) == (True, "mine")


def test_a_command_without_words_has_an_empty_object_for_a_body() -> None:
    assert body(calls.command("e", "start", None)) == {}
    assert body(calls.command("e", "cancel", None, reason=None)) == {}
    assert body(calls.command("e", "cancel", None, reason="no")) == {"reason": "no"}


@given(st.text(min_size=1, max_size=20))
def test_a_node_of_any_name_has_one_segment_of_the_path(node_id: str) -> None:
    try:
        path = calls.node_command("e", node_id, "start", None).path
    except ValueError:
        assert node_id in (".", "..") or "/" in node_id or not node_id.isprintable()
        return

    _, _, _, _, segment, word = path.split("/")
    assert path.isascii()
    assert (unquote(segment), word) == (node_id, "start")


@pytest.mark.parametrize("hostile", ["", ".", "..", "a/b", "a\nb", "\u2028", "a\ud800"])
def test_a_name_that_would_leave_its_place_in_the_path_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="node_id is not a name"):
        calls.node_command("e", hostile, "start", None)
    with pytest.raises(ValueError, match="graph_id is not a name"):
        calls.get_graph(hostile)


def test_an_execution_id_is_an_id() -> None:
    with pytest.raises(ValueError, match="execution_id is not an id"):
        calls.get_execution("../graphs")


def test_a_claim_of_one_graph_may_name_it_without_a_list() -> None:
    assert body(calls.claim_node("release", "w-1", 20.0, 60.0))["graphIds"] == ["release"]


def test_a_claim_that_was_answered_with_nothing_has_no_node() -> None:
    read: Callable[[str], Any] = calls.claim_node(["release"], "w-1", 0.0, 60.0).read

    assert read("") is None
    assert read('{"nodeId": "build"}') == {"nodeId": "build"}


def test_a_graph_goes_as_json_or_as_the_yaml_that_it_was_written_in() -> None:
    as_mapping = calls.put_graph("release", {"nodes": ["build"]}, 0)
    as_text = calls.put_graph("release", "nodes: [構築]\n")

    assert (as_mapping.method, as_mapping.query) == ("PUT", (("expectedVersion", "0"),))
    assert (as_mapping.headers["Content-Type"], body(as_mapping)) == ("application/json", {"nodes": ["build"]})
    assert (as_text.headers["Content-Type"], as_text.content) == ("application/yaml", "nodes: [構築]\n".encode())


def test_the_place_to_go_on_from_is_a_header_and_an_empty_cursor_is_none() -> None:
    assert "Last-Event-ID" not in calls.follow_events("e", "").headers
    assert calls.follow_events("e", "7.0").headers["Last-Event-ID"] == "7.0"
    assert calls.list_events("e", 5, "").query == (("limit", "5"),)
