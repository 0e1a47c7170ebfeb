"""Nodes claimed by programs and resumed by people, at two gateways: leases, waits, deadlines, cancels."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from support.broker import Broker
from support.executions import BODIES, NEXT, NODE, PAIR, SUCCEEDED, Caller, code_of, guard_of
from support.gateways import gateway_settings
from support.served import served

LONG = 30.0


@pytest.fixture(scope="module")
def other(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A caller of another gateway of the same broker, which has a short grace period for cancels."""
    settings = gateway_settings(shared_broker.url, tmp_path_factory.mktemp("other"), cancel_grace_period_sec=0.1)
    with served(settings) as address, httpx.Client(base_url=address, timeout=60.0) as http:
        yield Caller(http)


def until(caller: Caller, execution_id: str, happens: str) -> dict[str, Any]:
    """Waits until the event is stored, and returns it."""
    with caller.following(execution_id) as events:
        return next(event for event in events if event["type"] == happens)


def claimed_node(response: httpx.Response) -> tuple[str, str]:
    assert response.status_code == 200, response.text
    return response.json()["executionId"], response.json()["nodeId"]


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_claim_returns_a_node_with_its_inputs(caller: Caller) -> None:
    graph = {"nodes": [NODE, {"id": NEXT, "params": {"to": "prod"}}], "edges": [[NODE, NEXT]]}
    caller.put("claimed", graph)
    execution_id = caller.create("claimed", "start", "node start", input={"version": "1.4"})
    caller.ask(execution_id, "node success", {"output": {"image": "i-7"}}).raise_for_status()

    response = caller.claim("claimed", key="claim-1", worker="sh-7", leaseSec=90, waitSec=5.0)

    body = response.json()
    assert response.status_code == 200
    assert body == {
        "executionId": execution_id,
        "command": "StartNode",
        "accepted": True,
        "correlationId": response.headers["x-correlation-id"],
        "idempotencyKey": "claim-1",
        "version": body["version"],
        "graphId": "claimed",
        "nodeId": NEXT,
        "attempt": 1,
        "leaseUntil": body["leaseUntil"],
        "leaseSec": 90.0,
        "input": {"version": "1.4"},
        "params": {"to": "prod"},
        "outputs": {NODE: {"image": "i-7"}},
    }
    node = caller.node(execution_id, NEXT)
    assert (node["status"], node["workerId"], node["leaseUntil"]) == ("RUNNING", "sh-7", body["leaseUntil"])


def test_claims_return_the_oldest_execution_first_until_none_is_left(caller: Caller) -> None:
    caller.put("in order", PAIR)
    created = [caller.create("in order", "start") for _ in range(3)]

    claimed = [claimed_node(caller.claim("in order", "unknown")) for _ in created]
    nothing = [caller.claim("in order"), caller.claim("unknown"), caller.claim("in order", waitSec=0.05)]

    assert claimed == [(execution_id, NODE) for execution_id in created]
    assert [(response.status_code, response.content) for response in nothing] == [(204, b"")] * 3


def test_a_repeated_claim_returns_the_same_node(caller: Caller) -> None:
    caller.put("again", {"nodes": ["a", "b"]})
    execution_id = caller.create("again", "start")

    first = caller.claim("again", key="mine")
    again = caller.claim("again", key="mine")
    conflict = caller.claim("again", key="mine", worker="another")
    others = caller.claim("again", key="yours")

    assert (again.status_code, again.content, again.headers["idempotency-replayed"]) == (200, first.content, "true")
    assert code_of(conflict) == (409, "IDEMPOTENCY_CONFLICT")
    assert {claimed_node(first), claimed_node(others)} == {(execution_id, "a"), (execution_id, "b")}
    assert caller.types(execution_id).count("NODE_STARTED") == 2


def test_a_key_of_an_empty_claim_is_usable_again(caller: Caller) -> None:
    caller.put("later", PAIR)
    nothing = caller.claim("later", key="patient")

    execution_id = caller.create("later", "start")

    assert nothing.status_code == 204
    assert claimed_node(caller.claim("later", key="patient", waitSec=LONG)) == (execution_id, NODE)


def test_concurrent_claims_at_two_gateways_get_different_nodes(caller: Caller, other: Caller) -> None:
    names = [f"n{number}" for number in range(24)]
    caller.put("crowded", {"nodes": names})
    execution_id = caller.create("crowded", "start")

    with ThreadPoolExecutor(16) as crowd:
        pending = [
            crowd.submit(one.claim, "crowded", worker=f"w-{number % 5}", waitSec=LONG)
            for number in range(12)
            for one in (caller, other)
        ]
        claimed = [claimed_node(one.result()) for one in pending]

    assert sorted(claimed) == sorted((execution_id, name) for name in names)
    assert caller.types(execution_id).count("NODE_STARTED") == 24
    assert other.claim("crowded").status_code == 204


def test_a_concurrent_repeat_of_a_claim_gets_the_same_node(caller: Caller, other: Caller) -> None:
    caller.put("twins", {"nodes": [f"n{number}" for number in range(6)]})
    execution_id = caller.create("twins", "start")

    with ThreadPoolExecutor(6) as crowd:
        pending = [
            crowd.submit(one.claim, "twins", key="twin", waitSec=LONG) for _ in range(3) for one in (caller, other)
        ]
        claimed = {claimed_node(one.result()) for one in pending}

    assert len(claimed) == 1
    assert caller.types(execution_id).count("NODE_STARTED") == 1


def test_nodes_of_cancelled_or_unstarted_executions_are_not_claimable(caller: Caller) -> None:
    caller.put("not now", PAIR)
    caller.create("not now")
    caller.create("not now", "start", "cancel")
    caller.create("open", "start")

    assert [caller.claim(name).status_code for name in ("not now", "open")] == [204, 204]


# --- leases -----------------------------------------------------------------------------------------------------------


def test_a_node_with_an_expired_lease_is_claimed_again_and_its_old_holder_fenced(caller: Caller) -> None:
    caller.put("leased", PAIR)
    execution_id = caller.create("leased", "start")
    first = caller.claim("leased", worker="silent", leaseSec=1)

    early = caller.ask(execution_id, "node start", {"attempt": 2, "workerId": "eager"})
    second = caller.claim("leased", worker="next", waitSec=LONG)
    late = {
        command: guard_of(caller.ask(execution_id, command, BODIES[command] | {"attempt": 1}))
        for command in ("node progress", "node wait", "node success", "node fail")
    }
    right = caller.ask(execution_id, "node success", {"attempt": 2, "output": "second"})

    assert guard_of(early) == "NODE_HELD"
    assert (claimed_node(first), claimed_node(second)) == ((execution_id, NODE),) * 2
    assert (first.json()["attempt"], second.json()["attempt"]) == (1, 2)
    assert set(late.values()) == {"FENCED"}
    assert (right.status_code, caller.node(execution_id)["output"]) == (202, "second")


def test_progress_renews_a_lease_by_its_duration_or_a_given_one(caller: Caller) -> None:
    caller.put("renewed", PAIR)
    execution_id = caller.create("renewed", "start")
    body = caller.claim("renewed", leaseSec=100).json()

    caller.ask(execution_id, "node progress", {"progress": 1, "attempt": 1}).raise_for_status()
    renewed = caller.node(execution_id)["leaseUntil"]
    caller.ask(execution_id, "node progress", {"progress": 2, "leaseSec": 1000}).raise_for_status()

    assert body["leaseUntil"] < renewed < caller.node(execution_id)["leaseUntil"]


def test_a_node_fails_when_the_lease_of_its_last_attempt_expires(caller: Caller) -> None:
    caller.put("once", {"nodes": [{"id": NODE, "maxAttempts": 1}]})
    execution_id = caller.create("once", "start")
    claimed_node(caller.claim("once", leaseSec=1))

    until(caller, execution_id, "EXECUTION_FAILED")

    execution = caller.execution(execution_id)
    assert (execution["status"], execution["error"]["code"]) == ("FAILED", "LEASE_EXPIRED")
    assert caller.claim("once").status_code == 204
    assert guard_of(caller.ask(execution_id, "node success")) == "FINISHED"


# --- waits ------------------------------------------------------------------------------------------------------------


def waits(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = caller.http.get("/waits", params=query).json()["items"]
    return items


def test_a_wait_node_waits_without_a_worker_and_succeeds_when_resumed(caller: Caller) -> None:
    approve = {"id": NEXT, "type": "wait", "waitKey": "ship-it", "prompt": {"text": "Ship it?"}, "timeoutSec": 3600}
    caller.put("approval", PAIR | {"nodes": [NODE, approve, "last"], "edges": [[NODE, NEXT], [NEXT, "last"]]})
    execution_id = caller.create("approval", "start", *SUCCEEDED)

    (wait,) = waits(caller, graphId="approval")
    resumed = caller.ask(execution_id, "node resume", {"resumeKey": "ship-it", "answer": {"ok": 1}}, node=NEXT)
    last = caller.claim("approval", waitSec=LONG).json()

    assert {name: wait[name] for name in ("executionId", "nodeId", "waitKey", "prompt", "attempt", "workerId")} == {
        "executionId": execution_id,
        "nodeId": NEXT,
        "waitKey": "ship-it",
        "prompt": {"text": "Ship it?"},
        "attempt": 1,
        "workerId": None,
    }
    assert wait["waitingSince"] < wait["deadlineAt"]
    assert resumed.status_code == 202
    assert (caller.node(execution_id, NEXT)["status"], last["nodeId"]) == ("SUCCEEDED", "last")
    assert last["outputs"] == {NEXT: {"ok": 1}}
    assert waits(caller, graphId="approval") == []


def test_waits_are_paged_longest_first(caller: Caller) -> None:
    waiting = [caller.create("long list", "start", "node start", "node wait") for _ in range(5)]
    caller.create("long list", "start", "node start", "node wait", "cancel")

    found, cursor = [], ""
    while cursor is not None:
        page = caller.http.get("/waits", params={"graphId": "long list", "limit": 2, "cursor": cursor}).json()
        found += [item["executionId"] for item in page["items"]]
        cursor = page["nextCursor"]

    assert found == waiting
    assert [item["executionId"] for item in waits(caller, executionId=waiting[2])] == [waiting[2]]


@pytest.mark.parametrize("kind", ["graph", "open"])
def test_a_wait_that_exceeds_its_timeout_fails(caller: Caller, kind: str) -> None:
    caller.put("graph", {"nodes": [NODE]})
    execution_id = caller.create(kind, "start", "node start")
    caller.ask(execution_id, "node wait", {"waitKey": "k", "timeoutSec": 0.1}).raise_for_status()

    failed = until(caller, execution_id, "NODE_FAILED")

    assert (failed["command"], failed["payload"]["error"]["code"]) == ("ExpireNode", "WAIT_TIMED_OUT")
    assert caller.execution(execution_id)["status"] == ("FAILED" if kind == "graph" else "ACTIVE")
    late = guard_of(caller.ask(execution_id, "node resume", {"resumeKey": "k"}))
    assert late == ("FINISHED" if kind == "graph" else "NODE_NOT_WAITING")
    assert waits(caller, executionId=execution_id) == []


# --- cancels ----------------------------------------------------------------------------------------------------------


def test_a_cancel_completes_when_the_last_holder_stops(caller: Caller) -> None:
    caller.put("held", {"nodes": ["a", "b", "c"]})
    execution_id = caller.create("held", "start")
    for node in ("a", "b"):
        caller.done(execution_id, "node start", node=node)
    caller.done(execution_id, "cancel")

    refused = guard_of(caller.ask(execution_id, "node success", node="a"))
    between = caller.execution(execution_id)
    guard_of(caller.ask(execution_id, "node fail", node="b"))

    assert (refused, between["status"]) == ("CANCEL_REQUESTED", "ACTIVE")
    execution = caller.execution(execution_id)
    assert (execution["status"], {node["status"] for node in execution["nodes"]}) == ("CANCELED", {"CANCELED"})


def test_a_cancel_waits_for_a_silent_holder_at_most_the_grace_period(caller: Caller, other: Caller) -> None:
    execution_id = caller.create("grace", "start", "node start", "cancel")

    ended = until(other, execution_id, "EXECUTION_CANCELED")

    assert ended["actor"]["kind"] != "user"
    assert caller.execution(execution_id)["cancel"]["how"] == "unconfirmed"
    assert guard_of(caller.ask(execution_id, "node success")) == "FINISHED"


def test_a_cancel_may_have_a_reason(caller: Caller) -> None:
    execution_id = caller.create("open")

    caller.ask(execution_id, "cancel", {"reason": "wrong input"}).raise_for_status()

    assert caller.execution(execution_id)["cancel"]["reason"] == "wrong input"
