"""Access control of `/executions`, `/graphs` and `/waits`: credentials, scopes, and tenants."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from pyoco_server.http_api import create_app
from support.broker import Broker
from support.callers import KEY, api_key_headers, hand_out
from support.executions import BODIES, MISSING, NODE, PAIR, WORKER, Caller, code_of, new_key, path_of
from support.gateways import gateway_settings
from support.served import served

CREATION: dict[str, Any] = {"graphId": "open", "input": {}}
CLAIM: dict[str, Any] = {"graphIds": ["pair", "open"], "workerId": WORKER}
WORK = ("complete", "fail", *(command for command in BODIES if command.startswith("node")))
# Every request with its body and the required scope.
REQUESTS: list[tuple[str, str, Any, Scope]] = [
    ("GET", "/executions", None, Scope.RUNS_READ),
    ("GET", "/executions/{executionId}", None, Scope.RUNS_READ),
    ("GET", "/executions/{executionId}/events", None, Scope.RUNS_READ),
    ("GET", "/waits", None, Scope.RUNS_READ),
    ("GET", "/graphs", None, Scope.RUNS_READ),
    ("GET", "/graphs/{graphId}", None, Scope.RUNS_READ),
    ("PUT", "/graphs/{graphId}", PAIR, Scope.GRAPHS_WRITE),
    ("POST", "/executions", CREATION, Scope.RUNS_WRITE),
    ("POST", "/executions:claim", CLAIM, Scope.NODES_WORK),
    *(
        ("POST", path_of("{executionId}", name, "{nodeId}"), BODIES[name], Scope.RUNS_WRITE)
        for name in ("start", "archive")
    ),
    ("POST", "/executions/{executionId}/cancel", None, Scope.RUNS_CANCEL),
    *(("POST", path_of("{executionId}", name, "{nodeId}"), BODIES[name], Scope.NODES_WORK) for name in WORK),
]
ABOUT_ONE = [(method, path, body) for method, path, body, _ in REQUESTS if "{executionId}" in path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A gateway that requires keys, and the settings to create them."""

    address: str
    config: NatsBackendConfig

    def key(self, tenant: str, *scopes: Scope) -> dict[str, str]:
        return api_key_headers(asyncio.run(hand_out(self.config, tenant, *scopes)))

    def caller(self, headers: dict[str, str]) -> Caller:
        return Caller(httpx.Client(base_url=self.address, headers=headers, timeout=60.0))


@pytest.fixture(scope="module")
def access(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    folder = tmp_path_factory.mktemp("guarded")
    config = gateway_settings(shared_broker.url, folder, http_auth_mode="api_key")
    with served(config) as address:
        yield Access(address=address, config=config)


def everything_but(*scopes: Scope) -> frozenset[Scope]:
    return EVERY_SCOPE - {Scope.ADMIN} - set(scopes)


@pytest.fixture(scope="module")
def owner(access: Access) -> Iterator[Caller]:
    caller = access.caller(access.key("team-a", *everything_but()))
    with caller.http:
        caller.put("pair")
        yield caller


@pytest.fixture(scope="module")
def stranger(access: Access) -> Iterator[Caller]:
    caller = access.caller(access.key("team-b", *everything_but()))
    with caller.http:
        yield caller


# Each asks for something of the execution that may be invalid.
QUESTIONS = [
    "/executions/{executionId}?at=1",
    "/executions/{executionId}?at=1&include=records",
    "/executions/{executionId}?at=9007199254740992",
    "/executions/{executionId}/events?cursor=1.0",
    "/executions/{executionId}/events?cursor=999999999999.0",
    "/executions/{executionId}/events?cursor=none",
    "/waits?executionId={executionId}",
    "/executions/{executionId}?at=2000-01-01T00:00:00Z",
    "/runs/{executionId}?include=records",
    "/runs/{executionId}?at=1",
    "/jobs/{executionId}?at=1",
    "/runs/{executionId}/tasks",
    "/runs/{executionId}/explain",
    "/runs/{executionId}/logs?tail=1",
    "/runs/{executionId}/logs?since_token=none",
    "/runs/{executionId}/watch?timeout_sec=1",
    "/jobs/{executionId}",
    "/jobs/{executionId}/logs?tail=1",
    "/jobs/{executionId}/logs?sinceToken=none",
    "/jobs/{executionId}/logs/stream?tail=1",
]


def ask(caller: Caller, method: str, path: str, body: Any, execution_id: str = MISSING, **more: str) -> httpx.Response:
    filled = path.format(executionId=execution_id, nodeId=NODE, graphId="pair")
    headers = {"Idempotency-Key": new_key(), **more}
    return caller.http.request(method, filled, json=body, headers=headers)


def test_every_route_is_in_the_table() -> None:
    routes = {
        (method, route.path)
        for route in create_app(NatsBackendConfig()).router.routes
        if isinstance(route, APIRoute) and route.path.startswith(("/executions", "/waits", "/graphs"))
        for method in route.methods or ()
    }

    assert {(method, path) for method, path, _, _ in REQUESTS} == routes


@pytest.mark.parametrize(("method", "path", "body", "scope"), REQUESTS, ids=lambda value: str(value)[:60])
def test_every_request_requires_a_key_with_its_scope(
    access: Access, method: str, path: str, body: Any, scope: Scope
) -> None:
    with httpx.Client(base_url=access.address) as http:
        anonymous = Caller(http)
        unknown = ask(anonymous, method, path, body)
        wrong = ask(anonymous, method, path, body, **api_key_headers(KEY))
        without = ask(anonymous, method, path, body, **access.key("team-c", *everything_but(scope)))
        alone = ask(anonymous, method, path, body, **access.key("team-c", scope))

    assert code_of(unknown) == (401, "UNAUTHENTICATED")
    assert code_of(wrong) == (401, "INVALID_API_KEY")
    assert all(response.headers["www-authenticate"] for response in (unknown, wrong))
    assert code_of(without) == (403, "FORBIDDEN")
    assert scope.value in without.json()["error"]["message"]
    assert alone.status_code not in (401, 403), alone.text


@pytest.mark.parametrize(("method", "path", "body"), ABOUT_ONE, ids=lambda value: str(value)[:60])
def test_an_execution_of_another_tenant_does_not_exist(
    owner: Caller, stranger: Caller, method: str, path: str, body: Any
) -> None:
    execution_id = owner.create("pair", "start", "node start")
    events = owner.events(execution_id)

    others = ask(stranger, method, path, body, execution_id)
    missing = ask(stranger, method, path, body)

    assert code_of(others) == (404, "EXECUTION_NOT_FOUND")
    assert others.text.replace(execution_id, MISSING) == missing.text
    assert owner.events(execution_id) == events


@pytest.mark.parametrize("path", QUESTIONS)
def test_the_answer_about_an_execution_of_another_tenant_is_that_about_none(
    owner: Caller, stranger: Caller, path: str
) -> None:
    execution_id = owner.create("pair", "start", "node start")

    others = ask(stranger, "GET", path, None, execution_id)
    missing = ask(stranger, "GET", path, None)

    assert others.status_code == missing.status_code
    assert others.text.replace(execution_id, MISSING) == missing.text


def test_an_idempotency_key_is_scoped_to_its_tenant(owner: Caller, stranger: Caller) -> None:
    ours = owner.post("/executions", CREATION, key="same")
    theirs = stranger.post("/executions", CREATION, key="same")
    started = owner.ask(ours.json()["executionId"], "start", key="start")
    foreign = stranger.ask(ours.json()["executionId"], "start", key="start")

    assert (ours.status_code, theirs.status_code, started.status_code) == (202, 202, 202)
    assert ours.json()["executionId"] != theirs.json()["executionId"]
    assert code_of(foreign) == (404, "EXECUTION_NOT_FOUND")


def test_nodes_waits_and_lists_are_limited_to_their_tenant(access: Access, owner: Caller, stranger: Caller) -> None:
    owner.put("ours", PAIR)
    ready = owner.create("ours", "start")
    waiting = owner.create("ours", "start", "node start", "node wait")

    nothing = stranger.claim("ours", "pair", waitSec=0.1)
    seen = [stranger.http.get(path).json()["items"] for path in ("/waits", "/executions?graphId=ours")]
    by_id = stranger.http.get("/waits", params={"executionId": waiting}).json()["items"]

    assert (nothing.status_code, seen, by_id) == (204, [[], []], [])
    waits = owner.http.get("/waits", params={"graphId": "ours"}).json()["items"]
    assert [wait["executionId"] for wait in waits] == [waiting]
    admin = access.caller(access.key("ops", Scope.ADMIN))
    with admin.http:
        listed = admin.http.get("/executions", params={"graphId": "ours"}).json()["items"]
        assert {item["executionId"] for item in listed} == {ready, waiting}
        assert admin.execution(ready)["executionId"] == ready
    assert owner.claim("ours", waitSec=30.0).json()["executionId"] == ready


def test_a_graph_of_another_tenant_is_not_executed(owner: Caller, stranger: Caller) -> None:
    owner.put("secret", PAIR)

    mine = owner.execution(owner.create("secret"))
    theirs = stranger.execution(stranger.create("secret"))

    assert (len(mine["nodes"]), mine["graphVersion"]) == (2, 1)
    assert (theirs["nodes"], theirs["graphVersion"]) == ([], None)


def test_events_contain_the_key_id_of_their_command(access: Access) -> None:
    headers = access.key("team-d", *everything_but())
    caller = access.caller(headers)
    with caller.http:
        execution_id = caller.create("open", "start", "cancel")

        actors = [event["actor"] for event in caller.events(execution_id) if event["command"] != "ConfirmCanceled"]

    assert actors == [{"kind": "user", "id": headers["X-API-Key"].split("_")[1]}] * 3
