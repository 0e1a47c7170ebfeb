"""Executions with the blocking client against one real gateway, its broker and a worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pyoco_server.http_client import (
    CommandRejected,
    GraphNotFound,
    GraphVersionConflict,
    InvalidRequest,
    RunNotFound,
)
from support.programs import ROOT, Program, address_of, up_with_worker
from support.twins import Twin

UNKNOWN = "0198c0de-0000-7000-8000-000000000000"
PATIENCE_SEC = 30.0
ODD_NAMES = ["100%", "a b", "lint?", "#1", "back\\slash", "%2F", "構築"]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with up_with_worker(tmp_path_factory.mktemp("sdk"), "--worker-id", "beside") as program:
        yield program


@pytest.fixture
def twin(system: Program) -> Twin:
    return Twin(address_of(system), "sync")


@pytest.fixture
def graph_id(twin: Twin) -> str:
    """A graph of the test's own, so that no other test claims its nodes."""
    name = f"release-{uuid4()}"
    twin.ask("put_graph", name, Path(ROOT / "examples" / "release.yaml").read_text("utf-8"))
    return name


def started(twin: Twin, graph_id: str, **named: Any) -> str:
    execution_id: str = twin.ask("execute", graph_id, **named)["executionId"]
    return execution_id


def statuses(execution: Any) -> dict[str, str]:
    return {node["nodeId"]: node["status"] for node in execution["nodes"]}


def take(twin: Twin, graph_id: str) -> Any:
    claim = twin.ask("claim_node", [graph_id], "w-1", wait_sec=20.0, lease_sec=30.0)
    assert claim is not None
    return claim


def first_wait(twin: Twin, graph_id: str) -> Any:
    """Lists follow the events, a moment later: ask until it is there."""
    give_up_at = time.monotonic() + PATIENCE_SEC
    while time.monotonic() < give_up_at:
        for wait in twin.take("iter_waits", graph_id=graph_id):
            return wait
    raise AssertionError(f"nothing of {graph_id} waits")


def test_a_release_goes_from_claim_to_claim_over_an_approval_to_its_end(twin: Twin, graph_id: str) -> None:
    execution_id = started(twin, graph_id, input={"version": "1.4.0"})

    build = take(twin, graph_id)
    twin.ask("report_progress", execution_id, "build", 42, "compiling", attempt=1, lease_sec=60.0)
    twin.ask("succeed_node", execution_id, "build", {"file": "app.tgz"}, attempt=1)
    for claim in (take(twin, graph_id), take(twin, graph_id)):
        assert claim["outputs"] == {"build": {"file": "app.tgz"}}
        twin.ask("succeed_node", execution_id, claim["nodeId"], attempt=claim["attempt"])
    wait = first_wait(twin, graph_id)
    twin.ask("resume_node", execution_id, wait["nodeId"], wait["waitKey"], {"ship": True}, attempt=wait["attempt"])
    deploy = take(twin, graph_id)
    twin.ask("succeed_node", execution_id, "deploy", attempt=1)

    assert (build["nodeId"], build["input"], deploy["outputs"]) == (
        "build",
        {"version": "1.4.0"},
        {"approve": {"ship": True}},
    )
    assert wait["prompt"]["question"] == "Ship this build?"
    finished = twin.ask("get_execution", execution_id, include="graph")
    assert (finished["status"], set(statuses(finished).values())) == ("COMPLETED", {"SUCCEEDED"})
    assert len(finished["graph"]["nodes"]) == 5
    assert statuses(twin.ask("get_execution", execution_id, at=build["version"]))["build"] == "RUNNING"
    assert twin.ask("wait", execution_id, timeout_sec=PATIENCE_SEC)["status"] == "COMPLETED"


def test_events_are_read_by_the_page_and_followed_alike(twin: Twin, graph_id: str) -> None:
    execution_id = started(twin, graph_id)
    first = twin.ask("list_events", execution_id, limit=1)
    twin.ask("cancel_execution", execution_id, "not today")

    read = twin.take("iter_events", execution_id, limit=2)
    heard = twin.take("follow_events", execution_id)
    rest = twin.take("follow_events", execution_id, after=heard[1]["id"])

    assert first["items"] == read[:1]
    assert [item["eventId"] for item in heard] == [item["eventId"] for item in read]
    assert rest == heard[2:]
    reasons = [item["payload"].get("reason") for item in read if item["type"] == "EXECUTION_CANCEL_REQUESTED"]
    assert reasons == ["not today"]
    assert twin.ask("get_execution", execution_id)["status"] == "CANCELED"


def test_an_open_graph_has_the_nodes_that_are_started_and_ends_when_told(twin: Twin) -> None:
    name = f"open-{uuid4()}"
    execution_id = started(twin, name)
    for node_id in ODD_NAMES:
        twin.ask("start_node", execution_id, node_id, worker_id="w-1", lease_sec=30.0)
    twin.ask("put_waiting", execution_id, "100%", "sign", {"text": "sure?"}, timeout_sec=60.0)
    twin.ask("resume_node", execution_id, "100%", "sign", "yes")
    for node_id in ODD_NAMES:
        twin.ask("succeed_node", execution_id, node_id)

    twin.ask("complete_execution", execution_id)
    twin.ask("archive_execution", execution_id)

    finished = twin.ask("get_execution", execution_id)
    assert statuses(finished) == dict.fromkeys(ODD_NAMES, "SUCCEEDED")
    assert finished["status"] == "COMPLETED"
    archived = twin.take("iter_executions", graph_id=name, archived=True)
    assert [item["executionId"] for item in archived] == [execution_id]
    assert twin.ask("list_executions", graph_id=name)["items"] == []


def test_refusals_have_a_kind_a_code_and_a_guard(twin: Twin, graph_id: str) -> None:
    execution_id = started(twin, graph_id)

    with pytest.raises(CommandRejected) as early:
        twin.ask("start_node", execution_id, "deploy")
    with pytest.raises(RunNotFound) as unknown:
        twin.ask("start_execution", UNKNOWN)
    with pytest.raises(InvalidRequest) as bad:
        twin.ask("report_progress", execution_id, "build", 101)

    assert (early.value.code, early.value.guard) == ("COMMAND_REJECTED", "NODE_NOT_READY")
    assert (unknown.value.code, bad.value.code) == ("EXECUTION_NOT_FOUND", "INVALID_REQUEST")
    assert twin.ask("claim_node", [f"nobodys-{uuid4()}"], "w-1", wait_sec=0) is None


def test_graphs_are_put_read_and_listed(twin: Twin) -> None:
    name = f"graph {uuid4()} 100%"

    made = twin.ask("put_graph", name, {"nodes": ["a", "b"], "edges": [["a", "b"]]}, expected_version=0)
    changed = twin.ask("put_graph", name, "nodes: [a]\n", expected_version=1)

    assert (made["created"], made["version"], changed["version"]) == (True, 1, 2)
    assert [node["id"] for node in twin.ask("get_graph", name)["nodes"]] == ["a"]
    assert [graph["graphId"] for graph in twin.take("iter_graphs", q=name)] == [name]
    assert twin.ask("list_graphs", q=name)["items"][0]["nodeCount"] == 1
    with pytest.raises(GraphVersionConflict):
        twin.ask("put_graph", name, {"nodes": ["c"]}, expected_version=1)
    with pytest.raises(GraphNotFound):
        twin.ask("get_graph", f"nobodys-{uuid4()}")
