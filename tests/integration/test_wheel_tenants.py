"""Wheels of tenants: each sees and replaces its own, sees shared ones, and cannot get in the way of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, serving
from support.wheels import NAME, wheel, wheel_name

Headers = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    client: httpx.AsyncClient
    a: Headers
    b: Headers
    admin: Headers

    async def upload(self, who: Headers, version: str = "1.0", **form: str) -> httpx.Response:
        files = {"wheel": (wheel_name("demo", version), wheel("demo", version), "application/octet-stream")}
        return await self.client.post("/wheels", files=files, data=form, headers=who)

    async def listed(self, who: Headers) -> list[tuple[str, str | None]]:
        found = (await self.client.get("/wheels", headers=who)).json()
        return [(one["name"], one["tenant_id"]) for one in found]


@pytest_asyncio.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    with Broker(tmp_path) as broker:
        config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
        everything = EVERY_SCOPE - {Scope.ADMIN}
        a, b = [api_key_headers(await hand_out(config, team, *everything)) for team in ("team-a", "team-b")]
        admin = api_key_headers(await hand_out(config, "ops", Scope.ADMIN))
        async with serving(config) as client:
            yield Registry(client=client, a=a, b=b, admin=admin)


async def test_a_tenant_sees_its_own_wheels_and_the_shared_ones(registry: Registry) -> None:
    assert (await registry.upload(registry.a, "1.0")).json()["tenant_id"] == "team-a"
    assert (await registry.upload(registry.b, "2.0")).json()["tenant_id"] == "team-b"
    assert (await registry.upload(registry.admin, "3.0", shared="true")).json()["tenant_id"] is None

    own, shared = (NAME, "team-a"), (wheel_name("demo", "3.0"), None)

    assert sorted(await registry.listed(registry.a), key=str) == sorted([own, shared], key=str)
    assert len(await registry.listed(registry.admin)) == 3
    events = (await registry.client.get("/wheels/history", headers=registry.a)).json()
    assert [event["tenant_id"] for event in events] == [None, "team-a"]
    assert len((await registry.client.get("/wheels/history", headers=registry.admin)).json()) == 3


async def test_versions_are_compared_within_an_owner(registry: Registry) -> None:
    assert (await registry.upload(registry.b, "99999.0")).status_code == 200

    answers = [(await registry.upload(who)).status_code for who in (registry.a, registry.b)]

    assert answers == [200, 409]


@pytest.mark.parametrize("version", ["99999!1", "1!0.1"])
async def test_a_version_with_an_epoch_is_refused(registry: Registry, version: str) -> None:
    answer = await registry.upload(registry.a, version)

    assert answer.status_code == 422
    assert "epoch" in answer.json()["detail"]


async def test_the_wheel_of_another_tenant_does_not_exist(registry: Registry) -> None:
    await registry.upload(registry.a)
    path = f"/wheels/{NAME}"

    assert (await registry.client.get(path, headers=registry.b)).status_code == 404
    assert (await registry.client.delete(path, headers=registry.b)).status_code == 404
    assert (await registry.client.get(path, params={"tenant_id": "team-a"}, headers=registry.b)).status_code == 403
    assert (await registry.client.delete(path, params={"tenant_id": "team-a"}, headers=registry.b)).status_code == 403
    assert (await registry.client.get(path, headers=registry.a)).status_code == 200


async def test_two_tenants_have_wheels_of_the_same_name(registry: Registry) -> None:
    path = f"/wheels/{NAME}"
    for who in (registry.a, registry.b):
        assert (await registry.upload(who)).status_code == 200

    deleted = await registry.client.delete(path, headers=registry.a)

    assert deleted.json() == {"name": NAME, "deleted": True}
    assert await registry.listed(registry.admin) == [(NAME, "team-b")]
    assert (await registry.client.get(path, headers=registry.b)).content == wheel("demo", "1.0")


async def test_only_administrators_share_and_remove_shared_wheels(registry: Registry) -> None:
    path = f"/wheels/{NAME}"
    refused = await registry.upload(registry.a, shared="true")
    shared = await registry.upload(registry.admin, shared="true")

    assert (refused.status_code, shared.status_code) == (403, 200)
    assert (await registry.client.get(path, headers=registry.a)).status_code == 200
    without = await registry.client.delete(path, headers=registry.a)
    assert (without.status_code, "shared by all tenants" in without.json()["detail"]) == (404, True)
    assert (await registry.client.delete(path, params={"shared": "true"}, headers=registry.a)).status_code == 403
    # Not without a word for it: the repetition of a deletion must not remove another wheel.
    assert (await registry.client.delete(path, headers=registry.admin)).status_code == 404
    assert (await registry.client.delete(path, params={"shared": "true"}, headers=registry.admin)).status_code == 200


async def test_an_administrator_removes_the_wheel_of_a_tenant(registry: Registry) -> None:
    await registry.upload(registry.a)

    answer = await registry.client.delete(f"/wheels/{NAME}", params={"tenant_id": "team-a"}, headers=registry.admin)

    assert answer.status_code == 200
    assert await registry.listed(registry.admin) == []
