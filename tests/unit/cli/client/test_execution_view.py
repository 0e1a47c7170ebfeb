"""An execution rendered from its events, including malformed ones."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.cli.client import execution_view as view
from pyoco_server.cli.client.run_view import summary
from pyoco_server.domain.execution.events import EVENT_NAMES

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["nodeId", "progress", "message", "error", "graph", "request", "attempt", "waitKey", "prompt", "workerId"]
NODES = st.lists(st.dictionaries(st.sampled_from(["nodeId", "status", "startedAt", "error", *FIELDS]), ANYTHING))
PAYLOADS = st.dictionaries(st.sampled_from(FIELDS), ANYTHING)


def node_event(kind: str, second: int = 0, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "occurredAt": f"2026-01-01T00:00:{second:02}.000Z", "payload": payload}


def after(*events: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for event in events:
        state = view.apply_event(state, event)
    return state


def test_a_new_attempt_resets_a_node() -> None:
    state = after(
        node_event("NODE_STARTED", 1, nodeId="build", attempt=1),
        node_event("NODE_PROGRESS_REPORTED", 2, nodeId="build", progress=80, message="nearly"),
        node_event("NODE_STARTED", 9, nodeId="build", attempt=2),
    )

    assert state["tasks"] == {"build": "RUNNING"}
    assert state["task_records"]["build"] == {"started_at": 1767225609.0, "attempt": 2}


def test_progress_without_a_figure_keeps_the_last_figure() -> None:
    state = after(
        node_event("NODE_STARTED", 1, nodeId="build", attempt=1),
        node_event("NODE_PROGRESS_REPORTED", 2, nodeId="build", progress=80, message="nearly"),
        node_event("NODE_PROGRESS_REPORTED", 3, nodeId="build"),
    )

    assert state["task_records"]["build"] | {"started_at": 0, "attempt": 1} == {
        "started_at": 0,
        "attempt": 1,
        "progress": 80,
        "message": "nearly",
    }


def test_no_node_is_unfinished_after_the_end() -> None:
    state = after(
        node_event("EXECUTION_CREATED", graph={"nodes": [{"id": "a"}, {"id": "b"}]}, request={"flowName": "g"}),
        node_event("NODE_SUCCEEDED", 1, nodeId="a"),
        node_event("EXECUTION_CANCELED", 2),
    )

    assert (state["status"], state["tasks"]) == ("CANCELED", {"a": "SUCCEEDED", "b": "CANCELED"})


@given(st.sampled_from([*EVENT_NAMES, "SOMETHING_NEW"]), ANYTHING, PAYLOADS | ANYTHING, ANYTHING)
def test_any_event_of_a_server_is_shown_on_one_line(kind: str, at: Any, payload: Any, actor: Any) -> None:
    event = {"type": kind, "occurredAt": at, "payload": payload, "actor": actor}

    state = view.apply_event(view.apply_event({}, event), event)

    for cell in (*view.EVENTS.row(event), summary("execution", "e", state)):
        assert len(cell.splitlines()) <= 1


@given(st.dictionaries(st.sampled_from(["nodes", "startedAt", "error", "cancel", "input"]), ANYTHING | NODES))
def test_an_execution_of_any_shape_has_facts(execution: dict[str, Any]) -> None:
    facts = [value for _, value in view.EXECUTION_FACTS.facts(execution)]

    for cell in (*facts, *(cell for row in view.node_rows(execution) for cell in row)):
        assert len(cell.splitlines()) <= 1


def test_every_event_of_a_node_has_a_status() -> None:
    nodes = [name for name in EVENT_NAMES if name.startswith("NODE_")]

    for name in nodes:
        assert after(node_event(name, nodeId="n"))["tasks"]["n"] != ""
