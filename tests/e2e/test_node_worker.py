"""The SDK's worker for nodes, in a thread of the test, against a real gateway that is killed and restarted."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.node_worker import Handler, HeldNode, work
from support.programs import address_of, server, up

PATIENCE_SEC = 30.0
TWO_STEPS = {"nodes": ["build", "deploy"], "edges": [["build", "deploy"]]}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with up(tmp_path_factory.mktemp("gateway")) as system:
        yield address_of(system)


@pytest.fixture
def graph_id() -> str:
    return f"release-{uuid4()}"


@contextmanager
def working(address: str, graph_id: str, handlers: Mapping[str, Handler], lease_sec: float = 60.0) -> Iterator[None]:
    """A worker for the duration of the block; its exception fails the test."""
    stop, raised = threading.Event(), []

    def loop() -> None:
        try:
            with PyocoHttpClient(address, retry_within_sec=1.0) as client:
                work(client, [graph_id], "w-1", handlers, stop, wait_sec=1.0, lease_sec=lease_sec)
        except BaseException as error:
            raised.append(error)
            raise

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_SEC)
    assert not thread.is_alive()
    assert raised == []


def ended(address: str, execution_id: str) -> Any:
    with PyocoHttpClient(address) as client:
        for _ in client.follow_events(execution_id):
            pass
        return client.get_execution(execution_id)


def execute(address: str, graph_id: str, graph: dict[str, Any] | None = None) -> str:
    with PyocoHttpClient(address) as client:
        client.put_graph(graph_id, graph or TWO_STEPS)
        return client.execute(graph_id, {"version": "1.4.0"})["executionId"]


def test_outputs_of_handlers_are_inputs_of_later_nodes(address: str, graph_id: str) -> None:
    handlers: dict[str, Handler] = {
        "build": lambda node: {"file": f"app-{node.claim['input']['version']}"},
        "deploy": lambda node: node.claim["outputs"]["build"]["file"],
    }
    execution_id = execute(address, graph_id)

    with working(address, graph_id, handlers):
        execution = ended(address, execution_id)

    assert execution["status"] == "COMPLETED"
    assert [node["output"] for node in execution["nodes"]] == [{"file": "app-1.4.0"}, "app-1.4.0"]


def test_a_killed_gateway_loses_neither_claim_nor_result(tmp_path: Path, graph_id: str) -> None:
    began, go = threading.Event(), threading.Event()

    def build(node: HeldNode) -> str:
        began.set()
        assert go.wait(PATIENCE_SEC)
        return "built"

    with ExitStack() as worker:
        with up(tmp_path) as gateway:
            address = address_of(gateway)
            execution_id = execute(address, graph_id)
            worker.enter_context(working(address, graph_id, {"build": build, "deploy": lambda node: "deployed"}))
            assert began.wait(PATIENCE_SEC)
        go.set()  # while the gateway is down
        with server("up", "--port", address.rpartition(":")[2], "--data-dir", "data", cwd=tmp_path) as again:
            address_of(again)
            execution = ended(address, execution_id)
            worker.close()

    assert execution["status"] == "COMPLETED"
    assert [(node["attempt"], node["output"]) for node in execution["nodes"]] == [(1, "built"), (1, "deployed")]


def test_the_lease_is_renewed_while_a_handler_runs(address: str, graph_id: str) -> None:
    go = threading.Event()

    def build(node: HeldNode) -> None:
        node.progress(42, "compiling")
        assert go.wait(PATIENCE_SEC)

    execution_id = execute(address, graph_id, {"nodes": ["build"]})
    with working(address, graph_id, {"build": build}, lease_sec=1.0), PyocoHttpClient(address) as client:
        renewals = 0
        for event in client.follow_events(execution_id):
            renewals += event["type"] == "NODE_PROGRESS_REPORTED"
            if renewals == 5:  # more than a lease's time
                go.set()
        execution = client.get_execution(execution_id)

    (node,) = execution["nodes"]
    assert (node["status"], node["attempt"], node["progress"], node["message"]) == ("SUCCEEDED", 1, 42.0, "compiling")


def test_a_cancel_reaches_the_handler_and_completes_when_it_stops(address: str, graph_id: str) -> None:
    began = threading.Event()

    def build(node: HeldNode) -> None:
        began.set()
        assert node.lost.wait(PATIENCE_SEC)

    execution_id = execute(address, graph_id)
    with working(address, graph_id, {"build": build}, lease_sec=3.0), PyocoHttpClient(address) as client:
        assert began.wait(PATIENCE_SEC)
        client.cancel_execution(execution_id)
        execution = ended(address, execution_id)

    assert execution["status"] == "CANCELED"
    assert execution["cancel"]["how"] == "cooperative"


def fails(node: HeldNode) -> None:
    raise RuntimeError("no room")


@pytest.mark.parametrize(
    ("handlers", "code", "message"),
    [
        ({"build": fails}, "RuntimeError", "no room"),
        ({}, "NO_HANDLER", "build"),
        ({"build": lambda node: object()}, "OUTPUT_NOT_ACCEPTED", "object"),
        ({"build": lambda node: "x" * 70_000}, "OUTPUT_NOT_ACCEPTED", "65536"),
    ],
    ids=["raises", "unknown", "no JSON", "too large"],
)
def test_a_handler_error_fails_its_node_with_a_reason_and_the_worker_continues(
    address: str, graph_id: str, handlers: dict[str, Handler], code: str, message: str
) -> None:
    execution_id = execute(address, graph_id)
    with working(address, graph_id, handlers):
        first = ended(address, execution_id)
        second = ended(address, execute(address, graph_id))

    assert (first["status"], second["status"]) == ("FAILED", "FAILED")
    assert first["nodes"][0]["error"]["code"] == code
    assert message in first["nodes"][0]["error"]["message"]
