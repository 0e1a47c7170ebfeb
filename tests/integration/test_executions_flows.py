"""Flows that a real worker process announces, started through `/executions`; and graphs and their versions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.broker import Broker
from support.executions import NODE, SUCCEEDED, Caller, code_of, guard_of
from support.programs import FLOWS, Program, worker

PATIENCE_SEC = 30.0


@pytest.fixture(scope="module")
def program(shared_broker: Broker, caller: Caller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A running worker whose flows are known to the gateway."""
    folder = tmp_path_factory.mktemp("worker")
    arguments = ("--worker-id", "real", "--flow-resolver", f"{FLOWS}:resolve", "--concurrency", "2")
    with worker(*arguments, cwd=folder, env={"PYOCO_NATS_URL": shared_broker.url}) as started:
        started.out.wait_for('"message":"worker ready"')
        _wait_until_announced(caller, "hello")
        yield started


def _wait_until_announced(caller: Caller, name: str) -> None:
    give_up_at = time.monotonic() + PATIENCE_SEC
    while caller.http.get(f"/graphs/{name}").status_code != 200:
        assert time.monotonic() < give_up_at, "the flow was not announced"


def wait_for_end(caller: Caller, execution_id: str) -> dict[str, Any]:
    """Waits until the stream has ended, and returns the execution."""
    with caller.following(execution_id) as events:
        for _ in events:
            pass
    return caller.execution(execution_id)


def test_an_announced_flow_runs_after_its_start(caller: Caller, program: Program) -> None:
    created = caller.create("hello", input={"name": "seed 004"})
    before = caller.execution(created)

    caller.done(created, "start")
    execution = wait_for_end(caller, created)

    assert (before["status"], before["startedAt"], before["tag"]) == ("ACTIVE", None, "default")
    assert (execution["status"], execution["workerId"]) == ("COMPLETED", "real")
    (node,) = execution["nodes"]
    assert (node["nodeId"], node["status"], node["output"]) == ("greet", "SUCCEEDED", "Hello, seed 004!")
    types = caller.types(created)
    assert types.index("EXECUTION_QUEUED") < types.index("EXECUTION_STARTED")
    assert [event["actor"]["kind"] for event in caller.events(created)][:2] == ["user", "user"]


def test_a_run_of_a_flow_has_the_graph_that_ran(caller: Caller, program: Program) -> None:
    created = caller.create("sum", input={"count": 3})
    caller.done(created, "start")
    wait_for_end(caller, created)
    first = caller.events(created)[0]["version"]

    graph = caller.execution(created, include="graph")["graph"]

    assert graph == {"nodes": [{"id": "numbers"}, {"id": "total"}], "edges": [["numbers", "total"]]}
    assert "graph" not in caller.execution(created, include="graph", at=first)
    assert "graph" not in caller.execution(created)


def test_the_job_has_the_correlation_id_of_its_start(caller: Caller, program: Program) -> None:
    response = caller.post("/executions", {"graphId": "hello"}, headers={"X-Correlation-Id": "order-99"})
    execution_id = response.json()["executionId"]
    caller.done(execution_id, "start")

    wait_for_end(caller, execution_id)

    started = next(event for event in caller.events(execution_id) if event["type"] == "EXECUTION_STARTED")
    assert started["correlationId"] == "order-99"


def test_a_flow_execution_accepts_a_cancel_and_no_node_commands(caller: Caller, program: Program) -> None:
    execution_id = caller.create("listens", "start")
    with caller.following(execution_id) as events:
        next(event for event in events if event["type"] == "NODE_STARTED")

        refused = [
            guard_of(caller.ask(execution_id, command, node="wait"))
            for command in ("node start", "node success", "node fail", "complete", "fail")
        ]
        caller.done(execution_id, "cancel")
        types = [event["type"] for event in events]

    execution = caller.execution(execution_id)
    assert set(refused) == {"A_WORKER_RUNS_IT"}
    assert types[-1] == "EXECUTION_CANCELED"
    assert (execution["status"], execution["cancel"]["how"]) == ("CANCELED", "cooperative")
    assert {node["status"] for node in execution["nodes"]} <= {"CANCELED", "SUCCEEDED"}


def test_a_repeated_start_runs_the_flow_once(caller: Caller, program: Program) -> None:
    execution_id = caller.create("sum")

    responses = [caller.ask(execution_id, "start", key="start once") for _ in range(3)]
    another = caller.ask(execution_id, "start")
    wait_for_end(caller, execution_id)

    assert [response.status_code for response in responses] == [202, 200, 200]
    assert another.status_code in (202, 409)  # it may have ended meanwhile
    types = caller.types(execution_id)
    assert (types.count("EXECUTION_QUEUED"), types.count("EXECUTION_STARTED")) == (1, 1)


def test_an_execution_of_a_failing_flow_fails(caller: Caller, program: Program) -> None:
    execution = wait_for_end(caller, caller.create("fails", "start"))

    assert execution["status"] == "FAILED"
    assert "division by zero" in execution["error"]["message"]


def test_nodes_of_a_flow_are_not_claimable(caller: Caller, program: Program) -> None:
    caller.create("hello")

    assert caller.claim("hello").status_code == 204


# --- graphs -----------------------------------------------------------------------------------------------------------


def test_a_stored_graph_takes_precedence_over_a_flow_of_its_name(caller: Caller, program: Program) -> None:
    caller.put("counts", {"nodes": [NODE]})

    execution_id = caller.create("counts", "start")

    assert caller.execution(execution_id)["graphVersion"] == 1
    assert caller.claim("counts", waitSec=PATIENCE_SEC).json()["executionId"] == execution_id


def test_a_graph_execution_is_not_queued_for_workers(caller: Caller) -> None:
    caller.put("tagged", {"nodes": [NODE]})

    response = caller.post("/executions", {"graphId": "tagged", "tag": "default"})

    assert code_of(response) == (422, "INVALID_REQUEST")


def test_an_execution_keeps_the_version_of_its_graph(caller: Caller) -> None:
    caller.put("versions", {"nodes": [NODE]})
    old = caller.create("versions")
    caller.put("versions", {"nodes": [NODE, "more"], "edges": [[NODE, "more"]]})
    new = caller.create("versions")

    for execution_id in (old, new):
        caller.done(execution_id, "start", *SUCCEEDED)

    execution = [caller.execution(execution_id, include="graph") for execution_id in (old, new)]
    assert [one["graphVersion"] for one in execution] == [1, 2]
    assert [one["status"] for one in execution] == ["COMPLETED", "ACTIVE"]
    assert [[node["id"] for node in one["graph"]["nodes"]] for one in execution] == [[NODE], [NODE, "more"]]


def test_a_node_outside_the_graph_is_not_started(caller: Caller) -> None:
    caller.put("known", {"nodes": [NODE]})
    execution_id = caller.create("known", "start")

    assert guard_of(caller.ask(execution_id, "node start", node="another")) == "UNKNOWN_NODE"
