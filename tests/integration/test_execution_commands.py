"""Responses to commands of `/executions`: fields, replays, keys, correlation ids, and validation of bodies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from support.executions import (
    BODIES,
    ERROR,
    MISSING,
    NAMES,
    NEXT,
    NODE,
    PAIR,
    WAIT_KEY,
    WORKER,
    Caller,
    code_of,
    guard_of,
    new_key,
    path_of,
)

# The commands to an open graph after which a command is accepted.
BEFORE: dict[str, tuple[str, ...]] = {
    "start": (),
    "cancel": (),
    "archive": ("cancel",),
    "complete": ("start",),
    "fail": ("start",),
    "node start": ("start",),
    "node progress": ("start", "node start"),
    "node wait": ("start", "node start"),
    "node resume": ("start", "node start", "node wait"),
    "node success": ("start", "node start"),
    "node fail": ("start", "node start"),
}
COMMANDS = sorted(BEFORE)
NEEDS_BODY = ["fail", "node fail", "node resume", "node wait"]


def test_a_creation_returns_the_id_of_the_execution(caller: Caller) -> None:
    response = caller.post("/executions", {"graphId": "open", "input": {"n": 1}}, key="create-1")

    body = response.json()
    assert response.status_code == 202
    assert body == {
        "executionId": body["executionId"],
        "command": "CreateExecution",
        "accepted": True,
        "correlationId": response.headers["x-correlation-id"],
        "idempotencyKey": "create-1",
        "version": body["version"],
    }
    execution = caller.execution(body["executionId"])
    assert (execution["graphId"], execution["input"], execution["version"]) == ("open", {"n": 1}, body["version"])
    assert (execution["status"], execution["cancelRequestedAt"], execution["nodes"]) == ("ACTIVE", None, [])
    assert execution["createdAt"].endswith("Z")
    assert datetime.fromisoformat(execution["createdAt"]).tzinfo is not None


@pytest.mark.parametrize("command", COMMANDS)
def test_an_accepted_command_has_the_response_of_the_contract_and_its_replay_a_200(
    caller: Caller, command: str
) -> None:
    execution_id, key = caller.create("open", *BEFORE[command]), new_key()

    first = caller.ask(execution_id, command, key=key)
    events = caller.events(execution_id)
    again = caller.ask(execution_id, command, key=key)

    body = first.json()
    assert first.status_code == 202
    assert "idempotency-replayed" not in first.headers
    assert (body["executionId"], body["command"], body["accepted"]) == (execution_id, NAMES[command], True)
    assert (body["idempotencyKey"], body["correlationId"]) == (key, first.headers["x-correlation-id"])
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.content == first.content
    assert caller.events(execution_id) == events
    assert {event["idempotencyKey"] for event in events if event["command"] == NAMES[command]} == {key}


def test_a_repeated_creation_creates_one_execution(caller: Caller) -> None:
    body = {"graphId": "created once", "input": {}}

    responses = [caller.post("/executions", body, key="create-2") for _ in range(3)]

    assert [response.status_code for response in responses] == [202, 200, 200]
    assert len({response.content for response in responses}) == 1
    listed = caller.http.get("/executions", params={"graphId": "created once"}).json()
    assert [item["executionId"] for item in listed["items"]] == [responses[0].json()["executionId"]]


def test_concurrent_repeats_of_a_command_have_one_effect_and_one_response(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start")
    with ThreadPoolExecutor(8) as crowd:
        pending = [crowd.submit(caller.ask, execution_id, "node progress", key="crowd") for _ in range(8)]
        responses = [one.result() for one in pending]

    assert sorted(response.status_code for response in responses) == [200] * 7 + [202]
    assert len({response.content for response in responses}) == 1
    assert caller.types(execution_id).count("NODE_PROGRESS_REPORTED") == 1


def test_an_error_response_is_replayed(caller: Caller) -> None:
    execution_id = caller.create("open")

    first = caller.ask(execution_id, "node start", key="too early")
    caller.done(execution_id, "start")
    again = caller.ask(execution_id, "node start", key="too early")
    fresh = caller.ask(execution_id, "node start", key="in time")

    assert (guard_of(first), guard_of(again)) == ("NOT_STARTED", "NOT_STARTED")
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert fresh.status_code == 202


@pytest.mark.parametrize("command", ["create", "claim", *COMMANDS])
def test_a_command_without_a_key_has_no_effect(caller: Caller, command: str) -> None:
    execution_id = caller.create("open", *BEFORE.get(command, ()))
    events = caller.events(execution_id)
    path, body = {
        "create": ("/executions", {"graphId": "open", "input": {}}),
        "claim": ("/executions:claim", {"graphIds": ["open"], "workerId": WORKER}),
    }.get(command) or (path_of(execution_id, command), BODIES[command])

    response = caller.http.post(path, json=body) if body is not None else caller.http.post(path)

    assert code_of(response) == (422, "IDEMPOTENCY_KEY_REQUIRED")
    assert caller.events(execution_id) == events


def test_a_given_or_new_correlation_id_is_in_response_and_events(caller: Caller) -> None:
    execution_id = caller.create("open")
    start = caller.post(path_of(execution_id, "start"), headers={"X-Correlation-Id": "order-77"})
    refused = caller.post(path_of(execution_id, "archive"), headers={"X-Correlation-Id": "order-78"})
    node = caller.ask(execution_id, "node start")
    odd = caller.post(path_of(execution_id, "cancel"), headers={"X-Correlation-Id": "not sane!"})

    assert (start.json()["correlationId"], start.headers["x-correlation-id"]) == ("order-77", "order-77")
    assert (refused.status_code, refused.headers["x-correlation-id"]) == (409, "order-78")
    made = [response.json()["correlationId"] for response in (node, odd)]
    assert [response.headers["x-correlation-id"] for response in (node, odd)] == made
    assert len({*made, "", "not sane!"}) == 4
    correlation_ids = {event["type"]: event["correlationId"] for event in caller.events(execution_id)}
    assert correlation_ids["EXECUTION_STARTED"] == "order-77"
    assert (correlation_ids["NODE_STARTED"], correlation_ids["EXECUTION_CANCEL_REQUESTED"]) == tuple(made)


def test_a_replay_has_the_correlation_id_of_the_first_request(caller: Caller) -> None:
    path = path_of(caller.create("open"), "start")

    first = caller.post(path, key="k", headers={"X-Correlation-Id": "first"})
    again = caller.post(path, key="k", headers={"X-Correlation-Id": "second"})

    assert (first.json()["correlationId"], again.json()["correlationId"]) == ("first", "first")


@pytest.mark.parametrize("execution_id", [MISSING, "nonsense", "1", "0" * 5000, "%00", "..%2f"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_to_a_missing_execution_is_a_404(caller: Caller, execution_id: str, command: str) -> None:
    response = caller.ask(execution_id, command)

    assert response.status_code == 404
    if "%2f" not in execution_id:
        assert code_of(response) == (404, "EXECUTION_NOT_FOUND")


@pytest.mark.parametrize(
    "path", ["/executions/{}", "/executions/{}?at=1", "/executions/{}/events", "/waits?executionId={}"]
)
def test_a_read_of_a_missing_execution_is_a_404(caller: Caller, path: str) -> None:
    for execution_id in (MISSING, "nonsense"):
        if path.startswith("/waits") and execution_id == MISSING:
            continue  # a filter without matches: an empty list
        assert code_of(caller.http.get(path.format(execution_id))) == (404, "EXECUTION_NOT_FOUND")


# --- validation of bodies ---------------------------------------------------------------------------------------------


def test_a_report_of_another_attempt_is_rejected(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start")
    taken_over = caller.ask(execution_id, "node start", {"attempt": 2, "workerId": "worker-2"})
    assert taken_over.status_code == 202

    late: dict[str, Any] = {
        "node progress": {"progress": 1},
        "node wait": {"waitKey": "k"},
        "node success": {"output": 1},
        "node fail": ERROR,
        "node start": {"workerId": WORKER},
    }
    guards = {name: guard_of(caller.ask(execution_id, name, body | {"attempt": 1})) for name, body in late.items()}
    early = guard_of(caller.ask(execution_id, "node success", {"attempt": 3}))
    skipped = guard_of(caller.ask(execution_id, "node start", {"attempt": 4, "workerId": WORKER}))
    present = caller.ask(execution_id, "node success", {"attempt": 2})

    assert set(guards.values()) == {"FENCED"}
    assert (early, skipped) == ("FENCED", "INVALID_ATTEMPT")
    assert present.status_code == 202


def test_only_the_current_key_resumes_a_wait(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start", "node wait")

    wrong = [caller.ask(execution_id, "node resume", {"resumeKey": key}) for key in ("approval-12", WAIT_KEY.upper())]
    fenced = caller.ask(execution_id, "node resume", {"resumeKey": WAIT_KEY, "attempt": 2})
    right = caller.ask(execution_id, "node resume", {"resumeKey": WAIT_KEY, "answer": {"approved": True}})
    again = caller.ask(execution_id, "node resume")

    assert [guard_of(response) for response in wrong] == ["WRONG_RESUME_KEY"] * 2
    assert all(WAIT_KEY not in response.text for response in wrong)
    assert (guard_of(fenced), right.status_code, guard_of(again)) == ("FENCED", 202, "NODE_NOT_WAITING")
    assert (caller.node(execution_id)["status"], caller.node(execution_id)["answer"]) == ("RUNNING", {"approved": True})


@pytest.mark.parametrize("progress", [0, 100, 42.5, 1e-300])
def test_progress_from_0_to_100_is_stored(caller: Caller, progress: float) -> None:
    execution_id = caller.create("open", "start", "node start")

    response = caller.ask(execution_id, "node progress", {"progress": progress, "message": "so far"})

    node = caller.node(execution_id)
    assert response.status_code == 202
    assert (node["progress"], node["message"]) == (progress, "so far")


@pytest.mark.parametrize("progress", [-1, -1e-9, 100.0001, 101, 2**63, "42", True, [42], {}])
def test_invalid_progress_is_a_422(caller: Caller, progress: Any) -> None:
    execution_id = caller.create("open", "start", "node start")

    assert code_of(caller.ask(execution_id, "node progress", {"progress": progress})) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize("command", NEEDS_BODY)
def test_a_missing_required_field_is_a_422(caller: Caller, command: str) -> None:
    execution_id = caller.create("open", *BEFORE[command])

    for nothing in (None, b"{}"):
        assert code_of(caller.ask(execution_id, command, nothing)) == (422, "INVALID_REQUEST")


def test_outputs_and_errors_are_stored_with_their_nodes(caller: Caller) -> None:
    caller.put("kept", PAIR)
    execution_id = caller.create("kept", "start", "node start")
    caller.ask(execution_id, "node success", {"output": {"rows": [1, 2.5, "é", None]}})
    caller.done(execution_id, "node start", "node fail", node=NEXT)

    execution = caller.execution(execution_id)
    nodes = {node["nodeId"]: node for node in execution["nodes"]}
    assert nodes[NODE]["output"] == {"rows": [1, 2.5, "é", None]}
    assert nodes[NEXT]["error"] == ERROR["error"]
    assert execution["error"] == {"code": "ERR_TIMEOUT", "message": f"node {NEXT} failed: timeout"}
