"""`/workers`, and the worker fields of runs, through gateways on a real nats-server, with running workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.commands import StartExecution
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.command_handler import handle
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import listed, serving, submit, wait_for_status
from support.samples import new_run_id, worker
from support.workers import at_work
from support.world import USER

pytestmark = pytest.mark.settings(
    worker_heartbeat_interval_sec=0.1,
    run_heartbeat_interval_sec=0.1,
    workers_kv_ttl_sec=1.0,
    worker_disconnect_timeout_sec=1.5,
)

FIELDS = {
    "worker_id",
    "instance_id",
    "state",
    "hidden",
    "last_seen_at",
    "last_heartbeat_at",
    "heartbeat_at",
    "tags",
    "slots",
    "current_run_id",
    "current_run_ids",
    "last_run_id",
    "last_run_status",
    "started_at",
    "stopped_at",
    "stop_reason",
    "wheel_sync",
    "flows",
}
ALL_WORKERS = {"scope": "all", "include_hidden": "true"}


async def fleet(client: httpx.AsyncClient, **query: Any) -> dict[str, dict[str, Any]]:
    response = await client.get("/workers", params=query)
    assert response.status_code == 200, response.text
    return {shown["worker_id"]: shown for shown in response.json()}


async def until(
    client: httpx.AsyncClient, true: Callable[[dict[str, dict[str, Any]]], bool], **query: Any
) -> dict[str, dict[str, Any]]:
    """Polls the list until the condition holds."""
    async with asyncio.timeout(20):
        while True:
            shown = await fleet(client, **query)
            if true(shown):
                return shown
            await asyncio.sleep(0.01)


# --- the list ---------------------------------------------------------------------------------------------------------


async def test_a_new_system_has_no_workers(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        assert (await client.get("/workers")).json() == []


async def test_a_busy_worker_has_its_runs_and_every_field_of_the_contract(
    config: NatsBackendConfig, stores: Stores
) -> None:
    async with serving(config) as client, at_work(stores, config, slots=2, tags=("default", "gpu")) as at:
        idle = (await until(client, lambda shown: "w-1" in shown))["w-1"]
        run_id = await submit(client)
        runner = await at.executor.begun()
        busy = (await until(client, lambda shown: shown["w-1"]["state"] == "RUNNING"))["w-1"]
        run = (await client.get(f"/runs/{run_id}")).json()
        runner.end()
        await wait_for_status(client, run_id, "COMPLETED")
        done = (await until(client, lambda shown: shown["w-1"]["last_run_id"] is not None))["w-1"]
        watched = (await client.get(f"/runs/{run_id}/watch")).text

    assert idle.keys() >= FIELDS
    assert (idle["state"], idle["tags"], idle["slots"], idle["hidden"]) == ("IDLE", ["default", "gpu"], 2, False)
    assert (busy["current_run_id"], busy["current_run_ids"], busy["slots_busy"]) == (run_id, [run_id], 1)
    assert (run["worker_alive"], run["worker_tags"], run["stale"]) == (True, ["default", "gpu"], False)
    assert run["worker_heartbeat_at"] is not None
    assert (done["last_run_id"], done["last_run_status"]) == (run_id, "COMPLETED")
    assert '"worker_alive":true' in watched


async def test_two_gateways_show_the_same_fleet(config: NatsBackendConfig, stores: Stores, tmp_path: Path) -> None:
    other = replace(config, index_path=str(tmp_path / "other.sqlite"))
    async with serving(config) as one, serving(other) as two, at_work(stores, config):
        mine = await until(one, lambda shown: "w-1" in shown)
        theirs = await until(two, lambda shown: "w-1" in shown)

        assert mine["w-1"]["instance_id"] == theirs["w-1"]["instance_id"]
        await one.patch("/workers/w-1", json={"hidden": True})
        assert await until(two, lambda shown: not shown) == {}


async def test_a_graceful_stop_differs_from_silence(config: NatsBackendConfig, stores: Stores) -> None:
    async with serving(config) as client:
        await stores.registry.put(worker("silent", last_seen_at=stores.clock.now()))
        async with at_work(stores, config, name="polite"):
            await until(client, lambda shown: {"silent", "polite"} <= shown.keys())

        by_id = await until(client, lambda shown: shown["silent"]["state"] == "DISCONNECTED", scope="all")

        assert by_id["polite"]["state"] == "STOPPED_GRACEFUL"
        assert by_id["polite"]["stopped_at"] is not None
        assert await fleet(client) == {}
        assert list(await fleet(client, state="DISCONNECTED")) == ["silent"]
        assert list(await fleet(client, state="STOPPED_GRACEFUL", scope="active")) == ["polite"]


async def test_a_new_gateway_does_not_show_dead_workers_as_alive(config: NatsBackendConfig, stores: Stores) -> None:
    await stores.registry.put(worker("dead", last_seen_at=stores.clock.now()))
    async with serving(config) as client:
        await until(client, lambda shown: not shown)

    async with serving(config) as restarted:
        assert await fleet(restarted) == {}
        assert (await fleet(restarted, scope="all"))["dead"]["state"] == "DISCONNECTED"


async def test_a_limited_list_has_the_total_count(config: NatsBackendConfig, stores: Stores) -> None:
    for name in ("b", "c", "a"):
        await stores.registry.put(worker(name, last_seen_at=stores.clock.now()))
    async with serving(config) as client:
        response = await client.get("/workers", params={"limit": 2})

    assert [shown["worker_id"] for shown in response.json()] == ["a", "b"]
    assert response.headers["x-total-count"] == "3"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("scope", "some"),
        ("state", "SLEEPING"),
        ("include_hidden", "perhaps"),
        ("limit", "0"),
        ("limit", "501"),
        ("hidden", "true"),
        ("scope", ["active", "all"]),
    ],
)
async def test_an_invalid_query_is_rejected_with_its_name(
    config: NatsBackendConfig, parameter: str, value: str | list[str]
) -> None:
    async with serving(config) as client:
        response = await client.get("/workers", params={parameter: value})

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0019")
    assert parameter in response.json()["detail"]


async def test_without_a_broker_the_list_is_unavailable_and_afterwards_complete(
    config: NatsBackendConfig, stores: Stores, broker: Broker
) -> None:
    async with serving(config) as client, at_work(stores, config):
        registered_at = (await until(client, lambda shown: "w-1" in shown))["w-1"]["last_seen_at"]
        # A worker that loses its broker before it knows that it is registered ends.
        await until(client, lambda shown: shown["w-1"]["last_seen_at"] > registered_at)
        broker.kill()
        async with asyncio.timeout(10):
            while (response := await client.get("/workers")).status_code == 200:
                pass
        patched = await client.patch("/workers/w-1", json={"hidden": True})
        broker.start()
        async with asyncio.timeout(20):
            while (await client.get("/workers")).status_code != 200:
                pass

        assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0003")
        assert patched.status_code == 503
        await until(client, lambda shown: "w-1" in shown)


# --- hiding -----------------------------------------------------------------------------------------------------------


async def test_hiding_and_unhiding_a_worker_takes_effect_at_once(config: NatsBackendConfig, stores: Stores) -> None:
    async with serving(config) as client, at_work(stores, config):
        await until(client, lambda shown: "w-1" in shown)
        for _ in range(5):
            hidden = await client.patch("/workers/w-1", json={"hidden": True})
            assert await fleet(client) == {}
            assert (await fleet(client, **ALL_WORKERS))["w-1"]["hidden"]
            assert hidden.json().keys() == {"worker_id", "hidden", "updated_at"}

            await client.patch("/workers/w-1", json={"hidden": False})
            assert "w-1" in await fleet(client)


async def test_a_hidden_worker_keeps_its_heartbeats(config: NatsBackendConfig, stores: Stores) -> None:
    async with serving(config) as client, at_work(stores, config):
        await until(client, lambda shown: "w-1" in shown)
        await client.patch("/workers/w-1", json={"hidden": True})
        before = (await fleet(client, **ALL_WORKERS))["w-1"]["last_seen_at"]

        later = await until(client, lambda shown: shown["w-1"]["last_seen_at"] > before, **ALL_WORKERS)

        assert later["w-1"]["hidden"]


@pytest.mark.parametrize("name", ["nobody", "a..b", "x" * 129, "%20", ".hidden"])
async def test_a_worker_that_does_not_exist_cannot_be_hidden(config: NatsBackendConfig, name: str) -> None:
    async with serving(config) as client:
        response = await client.patch(f"/workers/{name}", json={"hidden": True})

    assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0020")


@pytest.mark.parametrize(
    "body", [b"", b"no", b"[]", b"{}", b'{"hidden": "yes"}', b'{"hidden": 1}', b'{"hidden": null}']
)
async def test_an_invalid_patch_is_rejected(config: NatsBackendConfig, body: bytes) -> None:
    async with serving(config) as client:
        response = await client.patch("/workers/w-1", content=body)

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0019")


# --- tenants ----------------------------------------------------------------------------------------------------------


async def test_a_worker_is_busy_without_showing_runs_of_other_tenants(
    config: NatsBackendConfig, stores: Stores
) -> None:
    guarded = replace(config, http_auth_mode="api_key", worker_disconnect_timeout_sec=20.0)
    keys = [api_key_headers(await hand_out(guarded, team)) for team in ("team-a", "team-b")]
    admin = api_key_headers(await hand_out(guarded, "ops", Scope.ADMIN))
    async with serving(guarded) as client:
        runs = []
        for key in keys:
            client.headers.update(key)
            runs.append(RunId(await submit(client)))
            await listed(client, [runs[-1]])
        record = replace(
            worker("w-1", last_seen_at=stores.clock.now()),
            current_run_ids=(runs[1], runs[0], new_run_id()),
            slots=4,
            last_run_id=runs[1],
            last_run_status="FAILED",
        )
        await stores.registry.put(record)
        client.headers.update(admin)
        whole = (await until(client, lambda shown: "w-1" in shown))["w-1"]
        client.headers.update(keys[0])
        shown = (await fleet(client))["w-1"]
        forbidden = await client.patch("/workers/w-1", json={"hidden": True})

    assert whole["current_run_ids"] == [*record.current_run_ids]
    assert (shown["current_run_id"], shown["current_run_ids"]) == (runs[0], [runs[0]])
    assert (shown["state"], shown["slots_busy"]) == ("RUNNING", 3)
    assert (shown["last_run_id"], shown["last_run_status"]) == (None, None)
    assert (forbidden.status_code, forbidden.json()["err_id"]) == (403, "ERR-PYOCO-0036")


# --- runs -------------------------------------------------------------------------------------------------------------


async def test_a_run_of_a_silent_worker_is_marked_and_not_failed(config: NatsBackendConfig, stores: Stores) -> None:
    async with serving(config) as client:
        run_id = await submit(client)
        await started(stores, run_id)
        await stores.registry.put(worker("w1", "i1", last_seen_at=stores.clock.now()))
        await until(client, lambda shown: "w1" in shown)
        before = (await client.get(f"/runs/{run_id}")).json()
        whole = (await client.get("/runs", params={"include": "full"})).json()

        await until(client, lambda shown: not shown)

        after = (await client.get(f"/runs/{run_id}")).json()
    assert (before["worker_alive"], whole[0]["worker_alive"], after["worker_alive"]) == (True, True, False)
    assert (after["status"], after["worker_tags"]) == ("RUNNING", ["default"])


async def started(stores: Stores, run_id: str) -> None:
    """A run started by a worker that sends no heartbeat afterwards."""
    command = StartExecution(at=stores.clock.now(), attempt=1, worker_id=WorkerId("w1"), instance_id=InstanceId("i1"))
    (await handle(stores, RunId(run_id), command, USER)).accepted()


async def test_a_waiting_run_has_no_worker(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        run = (await client.get(f"/runs/{await submit(client)}")).json()

    assert (run["worker_alive"], run["worker_heartbeat_at"], run["worker_tags"]) == (False, None, None)
    assert run["stale"] is False
