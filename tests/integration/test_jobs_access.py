"""Access control of `/jobs` and `/tags`: credentials, scopes, and tenants."""

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
from support.executions import MISSING, new_key
from support.gateways import gateway_settings
from support.jobs import ANALYSIS, refused
from support.served import served

# Every request with its body and the required scope.
REQUESTS: list[tuple[str, str, Any, Scope]] = [
    ("POST", "/jobs", ANALYSIS, Scope.RUNS_WRITE),
    ("GET", "/jobs", None, Scope.RUNS_READ),
    ("GET", "/jobs/{id}", None, Scope.RUNS_READ),
    ("DELETE", "/jobs/{id}", None, Scope.RUNS_CANCEL),
    ("GET", "/jobs/{id}/logs", None, Scope.RUNS_READ),
    ("GET", "/jobs/{id}/logs/stream", None, Scope.RUNS_READ),
    ("POST", "/jobs/{id}/ws-ticket", None, Scope.RUNS_READ),
    ("GET", "/jobs/{id}/tags", None, Scope.RUNS_READ),
    ("POST", "/jobs/{id}/tags", {"tag": "x"}, Scope.RUNS_WRITE),
    ("DELETE", "/jobs/{id}/tags/{tag:path}", None, Scope.RUNS_WRITE),
    ("GET", "/tags", None, Scope.RUNS_READ),
]
ABOUT_ONE = [(method, path, body) for method, path, body, _ in REQUESTS if "{id}" in path]
NOT_THERE = (404, "ERR-PYOCO-0005")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A gateway that requires keys, and the settings to create them."""

    address: str
    config: NatsBackendConfig

    def key(self, tenant: str, *scopes: Scope) -> dict[str, str]:
        return api_key_headers(asyncio.run(hand_out(self.config, tenant, *scopes)))

    def client(self, tenant: str, *scopes: Scope) -> httpx.Client:
        headers = self.key(tenant, *scopes) if tenant else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=60.0)


@pytest.fixture(scope="module")
def access(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    config = gateway_settings(shared_broker.url, tmp_path_factory.mktemp("guarded"), http_auth_mode="api_key")
    with pytest.MonkeyPatch.context() as patch:
        # Its lists wait long for its own writes, because the machine may be busy.
        patch.setattr("pyoco_server.services.projections.lists.OWN_WRITE_WAIT_SEC", 10.0)
        with served(config) as address:
            yield Access(address=address, config=config)


def everything_but(*scopes: Scope) -> frozenset[Scope]:
    return EVERY_SCOPE - {Scope.ADMIN} - set(scopes)


@pytest.fixture(scope="module")
def owner(access: Access) -> Iterator[httpx.Client]:
    with access.client("team-a", *everything_but()) as client:
        yield client


@pytest.fixture(scope="module")
def stranger(access: Access) -> Iterator[httpx.Client]:
    with access.client("team-b", *everything_but()) as client:
        yield client


def ask(
    client: httpx.Client, method: str, path: str, body: Any, job_id: str = MISSING, **headers: str
) -> httpx.Response:
    filled = path.replace("{id}", job_id).replace("{tag:path}", "urgent")
    return client.request(method, filled, json=body, headers=headers)


def submitted(client: httpx.Client, **body: Any) -> str:
    response = client.post("/jobs", json=ANALYSIS | body)
    assert response.status_code == 201, response.text
    job_id: str = response.json()["id"]
    return job_id


def events(client: httpx.Client, job_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get(f"/executions/{job_id}/events").json()["items"]
    return items


def test_every_route_is_in_the_table() -> None:
    routes = {
        (method, route.path)
        for route in create_app(NatsBackendConfig()).router.routes
        if isinstance(route, APIRoute) and route.path.startswith(("/jobs", "/tags"))
        for method in route.methods or ()
        if method != "HEAD"  # the same endpoint as its GET, without a body
    }

    assert {(method, path) for method, path, _, _ in REQUESTS} == routes


@pytest.mark.parametrize(("method", "path", "body", "scope"), REQUESTS, ids=lambda value: str(value)[:60])
def test_every_request_requires_a_key_with_its_scope(
    access: Access, method: str, path: str, body: Any, scope: Scope
) -> None:
    with access.client("") as anonymous:
        unknown = ask(anonymous, method, path, body)
        wrong = ask(anonymous, method, path, body, **api_key_headers(KEY))
        without = ask(anonymous, method, path, body, **access.key("team-c", *everything_but(scope)))
        alone = ask(anonymous, method, path, body, **access.key("team-c", scope))

    assert (refused(unknown)[0], unknown.json()["code"]) == (401, "UNAUTHENTICATED")
    assert (refused(wrong)[0], wrong.json()["code"]) == (401, "INVALID_API_KEY")
    assert all(response.headers["www-authenticate"] for response in (unknown, wrong))
    assert (refused(without)[0], without.json()["code"]) == (403, "FORBIDDEN")
    assert scope.value in without.json()["detail"]
    assert alone.status_code not in (401, 403), alone.text


@pytest.mark.parametrize(("method", "path", "body"), ABOUT_ONE, ids=lambda value: str(value)[:60])
def test_a_job_of_another_tenant_does_not_exist(
    owner: httpx.Client, stranger: httpx.Client, method: str, path: str, body: Any
) -> None:
    job_id = submitted(owner)
    before = events(owner, job_id)

    others = ask(stranger, method, path, body, job_id)
    missing = ask(stranger, method, path, body)

    assert others.status_code == missing.status_code == (204 if (method, path) == ("DELETE", "/jobs/{id}") else 404)
    assert others.text.replace(job_id, MISSING) == missing.text
    assert events(owner, job_id) == before


def test_an_idempotency_key_is_scoped_to_its_tenant(owner: httpx.Client, stranger: httpx.Client) -> None:
    key = {"Idempotency-Key": new_key()}

    ours = owner.post("/jobs", json=ANALYSIS, headers=key)
    theirs = stranger.post("/jobs", json=ANALYSIS, headers=key)

    assert (ours.status_code, theirs.status_code) == (201, 201)
    assert ours.json()["id"] != theirs.json()["id"]


def test_lists_and_tags_are_limited_to_the_tenant_of_the_caller(
    access: Access, owner: httpx.Client, stranger: httpx.Client
) -> None:
    job_id = submitted(owner, tags=["ours alone"])

    lists = [client.get("/jobs", params={"tag": "ours alone"}).json()["jobs"] for client in (owner, stranger)]
    tags = [client.get("/tags", params={"prefix": "ours"}).json()["tags"] for client in (owner, stranger)]

    assert [[found["id"] for found in jobs] for jobs in lists] == [[job_id], []]
    assert tags == [[{"tag": "ours alone", "count": 1}], []]
    with access.client("ops", Scope.ADMIN) as admin:
        assert [found["id"] for found in admin.get("/jobs", params={"tag": "ours alone"}).json()["jobs"]] == [job_id]


def test_events_contain_the_key_id_of_their_tag(access: Access) -> None:
    with access.client("team-d", *everything_but()) as client:
        job_id = submitted(client)
        client.post(f"/jobs/{job_id}/tags", json={"tag": "x"}).raise_for_status()
        client.delete(f"/jobs/{job_id}").raise_for_status()

        actors = [event["actor"] for event in events(client, job_id) if event["command"] != "ConfirmCanceled"]

        assert actors == [{"kind": "user", "id": client.headers["X-API-Key"].split("_")[1]}] * 3
