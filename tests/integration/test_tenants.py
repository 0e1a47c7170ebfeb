"""Tenants: for every route of a run, a run of another tenant does not exist."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi.routing import APIRoute

from pyoco_server.adapters.system import SystemIds
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from pyoco_server.domain.ids import RunId
from pyoco_server.http_api import create_app
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.flow_files import TWO_TASKS
from support.gateways import gateway_settings, listed, serving, submit
from support.samples import worker

RUN_ROUTES = sorted(
    (method, route.path)
    for route in create_app(NatsBackendConfig()).router.routes
    if isinstance(route, APIRoute) and "{run_id}" in route.path
    for method in route.methods or ()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A gateway with a run of team-a and one from before access control; and the keys of three callers."""

    client: httpx.AsyncClient
    config: NatsBackendConfig
    run_id: str
    nobodys: str
    owner: dict[str, str]
    stranger: dict[str, str]
    admin: dict[str, str]


@pytest_asyncio.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    with Broker(tmp_path) as broker:
        config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
        everything = EVERY_SCOPE - {Scope.ADMIN}
        owner, stranger = [api_key_headers(await hand_out(config, team, *everything)) for team in ("team-a", "team-b")]
        admin = api_key_headers(await hand_out(config, "ops", Scope.ADMIN))
        async with serving(replace(config, http_auth_mode="none")) as client:
            nobodys = await submit(client)
        async with serving(config) as client:
            client.headers.update(owner)
            run_id = await submit(client)
            client.headers.pop("X-API-Key")
            yield Access(
                client=client,
                config=config,
                run_id=run_id,
                nobodys=nobodys,
                owner=owner,
                stranger=stranger,
                admin=admin,
            )


def test_the_route_table_is_not_empty() -> None:
    assert {("GET", "/runs/{run_id}"), ("GET", "/runs/{run_id}/tasks"), ("POST", "/runs/{run_id}/cancel")} <= set(
        RUN_ROUTES
    )


@pytest.mark.parametrize(("method", "path"), RUN_ROUTES)
async def test_a_run_of_another_tenant_does_not_exist(access: Access, method: str, path: str) -> None:
    missing = await access.client.request(method, path.format(run_id=SystemIds().run_id()), headers=access.stranger)
    assert (missing.status_code, missing.json()["err_id"]) == (404, "ERR-PYOCO-0005")

    for run_id in (access.run_id, access.nobodys):
        others = await access.client.request(method, path.format(run_id=run_id), headers=access.stranger)

        assert (others.status_code, others.json()) == (404, missing.json())


@pytest.mark.parametrize("at", ["1", str(2**53), "1970-01-01", "2999-01-01"])
async def test_the_past_of_a_run_of_another_tenant_does_not_exist(access: Access, at: str) -> None:
    for api in ("runs", "jobs", "executions"):
        for run_id in (access.run_id, access.nobodys):
            others = await access.client.get(f"/{api}/{run_id}", params={"at": at}, headers=access.stranger)

            assert others.status_code == 404


@pytest.mark.parametrize("accept", ["application/json", "text/plain"])
async def test_the_log_of_another_tenant_does_not_exist_for_etags_and_ranges(access: Access, accept: str) -> None:
    path = f"/jobs/{access.run_id}/logs"
    tag = (await access.client.get(path, headers=access.owner | {"Accept": accept})).headers["etag"]

    for condition in ({}, {"If-None-Match": tag}, {"If-None-Match": "*"}, {"If-Match": '"x"'}, {"Range": "bytes=0-"}):
        response = await access.client.get(path, headers={**access.stranger, "Accept": accept, **condition})

        assert (response.status_code, response.json()["errId"]) == (404, "ERR-PYOCO-0005")
        assert "etag" not in response.headers


async def test_requests_of_another_tenant_leave_no_event(access: Access) -> None:
    async with open_stores(access.config, name="test") as stores:
        before = await stores.events.read(RunId(access.run_id))
        for method, path in RUN_ROUTES:
            await access.client.request(method, path.format(run_id=access.run_id), headers=access.stranger)

        assert await stores.events.read(RunId(access.run_id)) == before


async def test_lists_contain_only_runs_of_the_tenant(access: Access) -> None:
    for query in ({}, {"include": "full"}, {"status": "PENDING"}, {"flow": "hello"}, {"tag": "default"}):
        for who, expected in (
            (access.owner, [access.run_id]),
            (access.stranger, []),
            (access.admin, [access.run_id, access.nobodys]),
        ):
            access.client.headers.update(who)
            await listed(access.client, expected, **query)


async def test_pages_contain_only_runs_of_the_tenant_for_any_cursor(access: Access) -> None:
    async def page(who: dict[str, str], **query: Any) -> httpx.Response:
        return await access.client.get("/runs", params={"limit": 1, **query}, headers=who)

    access.client.headers.update(access.owner)
    other = await submit(access.client)
    await listed(access.client, [other, access.run_id])
    first = (await page(access.owner, cursor="")).json()
    assert [run["run_id"] for run in first["items"]] == [other]

    for query in ({"cursor": ""}, {"updated_after": 0}, {"cursor": first["next_cursor"]}, {"include": "full"}):
        response = await page(access.stranger, **query)

        assert response.status_code in (200, 422)
        assert access.run_id not in response.text
        assert other not in response.text
    assert [run["run_id"] for run in (await page(access.owner, cursor=first["next_cursor"])).json()["items"]] == [
        access.run_id
    ]


async def test_figures_and_searches_count_only_runs_of_the_tenant(access: Access) -> None:
    access.client.headers.update(access.owner)
    await access.client.post(f"/runs/{access.run_id}/cancel", json={"reason": "not needed"})
    failed = await access.client.post("/executions", json={"graphId": "open"}, headers={"Idempotency-Key": "tenant-1"})
    run_id = failed.json()["executionId"]
    error = {"error": {"code": "E", "message": "the warehouse is closed"}}
    for command, body in (("start", {}), ("fail", error)):
        answer = await access.client.post(
            f"/executions/{run_id}/{command}", json=body, headers={"Idempotency-Key": f"tenant-{command}"}
        )
        assert answer.status_code == 202, answer.text

    async def seen(who: dict[str, str]) -> tuple[int, int, list[str]]:
        overview = (await access.client.get("/overview", headers=who)).json()
        stats = (await access.client.get("/stats", headers=who)).json()
        found = (await access.client.get("/runs", params={"error": "WAREHOUSE"}, headers=who)).json()
        submitted = sum(point["submitted"] for point in stats["points"])
        return sum(overview["runs"].values()), submitted, [run["run_id"] for run in found["items"]]

    assert await seen(access.owner) == (2, 2, [run_id])
    assert await seen(access.stranger) == (0, 0, [])
    assert await seen(access.admin) == (3, 3, [run_id])


async def test_a_worker_is_shown_as_busy_without_the_runs_of_other_tenants(access: Access) -> None:
    run_id = RunId(access.run_id)
    access.client.headers.update(access.owner)
    await listed(access.client, [access.run_id])
    async with open_stores(access.config, name="test") as stores:
        record = worker("busy", last_seen_at=stores.clock.now())
        await stores.registry.put(
            replace(record, current_run_ids=(run_id,), last_run_id=run_id, last_run_status="COMPLETED")
        )

    async def view_of(who: dict[str, str]) -> tuple[Any, ...]:
        async with asyncio.timeout(20):
            while not (found := (await access.client.get("/workers", headers=who)).json()):
                pass
        names = ("current_run_id", "current_run_ids", "last_run_id", "last_run_status", "slots_busy")
        return tuple(found[0][name] for name in names)

    whole = (run_id, [run_id], run_id, "COMPLETED", 1)
    assert (await view_of(access.owner), await view_of(access.admin)) == (whole, whole)
    assert await view_of(access.stranger) == (None, [], None, None, 1)


async def test_a_flow_file_run_has_the_tenant_of_the_caller(access: Access) -> None:
    response = await access.client.post(
        "/runs/yaml", files={"workflow": TWO_TASKS.encode()}, data={"flow_name": "nightly"}, headers=access.owner
    )
    assert response.status_code == 200, response.text
    run_id = response.json()["run_id"]

    assert (await access.client.get(f"/runs/{run_id}", headers=access.owner)).json()["tenant_id"] == "team-a"
    assert (await access.client.get(f"/runs/{run_id}", headers=access.stranger)).status_code == 404


async def test_an_administrator_reads_every_run_and_submits_for_its_own_tenant(access: Access) -> None:
    access.client.headers.update(access.admin)
    own = await submit(access.client)

    for run_id, tenant in ((access.run_id, "team-a"), (access.nobodys, None), (own, "ops")):
        assert (await access.client.get(f"/runs/{run_id}")).json().get("tenant_id") == tenant
    assert (await access.client.post(f"/runs/{access.run_id}/cancel")).status_code == 200
    assert (await access.client.get(f"/runs/{own}", headers=access.owner)).status_code == 404
