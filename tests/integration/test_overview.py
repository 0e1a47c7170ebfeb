"""`/overview` and `/stats` on a real nats-server: what they show, to whom, and what they refuse."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.executions import NODE, WAIT_KEY
from support.gateways import serving, submit, wait_for_status
from support.workers import at_work

NO_RUNS = {"PENDING": 0, "RUNNING": 0, "CANCELLING": 0, "COMPLETED": 0, "FAILED": 0, "CANCELLED": 0}


async def until(client: httpx.AsyncClient, path: str, is_so: Any) -> Mapping[str, Any]:
    """The first answer that is so."""
    async with asyncio.timeout(30):
        while not is_so(found := (await client.get(path)).json()):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
    return dict(found)


async def test_a_fresh_gateway_has_no_runs_and_is_ready(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        shown = (await client.get("/overview")).json()

    assert shown["runs"] == NO_RUNS
    assert (shown["queues"], shown["waits"], shown["dead_letters"]) == ([], 0, 0)
    assert shown["workers"] == {
        "RUNNING": 0,
        "IDLE": 0,
        "DISCONNECTED": 0,
        "STOPPED_GRACEFUL": 0,
        "slots": 0,
        "slots_busy": 0,
    }
    assert shown["health"] == {"status": "ready", "reasons": [], "index_behind": 0}
    assert shown["retention_sec"] == config.run_retention_sec


async def test_a_queue_shows_whether_workers_serve_its_tag(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores, at_work(stores, config, slots=2):
        await until(client, "/overview", lambda found: found["workers"]["IDLE"] == 1)
        for _ in range(2):
            await submit(client, tag="gpu")

        shown = (await client.get("/overview")).json()

    unserved, served = shown["queues"]
    assert (unserved["tag"], unserved["pending"], unserved["workers"], unserved["slots_free"]) == ("gpu", 2, 0, 0)
    assert unserved["oldest_since"] == pytest.approx(time.time(), abs=60)
    assert (served["tag"], served["pending"], served["oldest_since"]) == ("default", 0, None)
    assert (served["workers"], served["slots"], served["slots_free"]) == (1, 2, 2)


async def test_nodes_that_wait_for_input_are_counted(client: httpx.AsyncClient) -> None:
    created = await client.post("/executions", json={"graphId": "open"}, headers={"Idempotency-Key": "create"})
    execution = created.json()["executionId"]
    node = f"/executions/{execution}/nodes/{NODE}"
    for path, body in (
        (f"/executions/{execution}/start", {}),
        (f"{node}/start", {"attempt": 1, "workerId": "w-1"}),
        (f"{node}/wait", {"waitKey": WAIT_KEY}),
    ):
        assert (await client.post(path, json=body, headers={"Idempotency-Key": path})).is_success

    shown = await until(client, "/overview", lambda found: found["waits"] > 0)

    assert shown["waits"] == 1


@pytest.mark.settings(http_auth_mode="api_key")
async def test_a_caller_gets_the_runs_of_its_tenant_and_what_its_scopes_cover(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        mine = api_key_headers(await hand_out(config, "team-a", Scope.RUNS_READ, Scope.RUNS_WRITE))
        theirs = api_key_headers(await hand_out(config, "team-b", *EVERY_SCOPE - {Scope.ADMIN}))
        operator = api_key_headers(await hand_out(config, "team-b", Scope.ADMIN))
        without = api_key_headers(await hand_out(config, "team-a", Scope.WORKERS_READ))
        assert (await client.post("/runs", json={"flow_name": "etl", "tag": "later"}, headers=mine)).is_success

        shown = [(await client.get("/overview", headers=one)).json() for one in (mine, theirs, operator)]
        counted = [(await client.get("/stats", headers=one)).json() for one in (mine, theirs, operator)]
        refused = [(await client.get(path, headers=without)).status_code for path in ("/overview", "/stats")]

    assert [found["runs"]["PENDING"] for found in shown] == [1, 0, 1]
    assert [found["total"]["submitted"] for found in counted] == [1, 0, 1]
    assert [found["workers"] is None for found in shown] == [True, False, False]
    assert [found["dead_letters"] for found in shown] == [None, None, 0]
    assert [(one["tag"], one["pending"], one["workers"]) for one in shown[0]["queues"]] == [("later", 1, None)]
    assert shown[1]["queues"] == []
    assert refused == [403, 403]


async def test_without_the_broker_both_are_refused(config: NatsBackendConfig, broker: Broker) -> None:
    async with serving(config) as client:
        assert (await client.get("/overview")).is_success
        broker.kill()

        answers = [await client.get(path) for path in ("/overview", "/stats")]

    assert [(answer.status_code, answer.json()["err_id"]) for answer in answers] == [(503, "ERR-PYOCO-0003")] * 2


async def test_a_finished_run_is_in_the_time_series_of_its_flow(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores, at_work(stores, config) as working:
        run_id = await submit(client)
        runner = await working.executor.begun()
        runner.end("completed", at=time.time())
        await wait_for_status(client, run_id, "COMPLETED")

        # The index follows.
        shown = await until(client, "/stats", lambda found: found["total"]["completed"] > 0)
        other = (await client.get("/stats", params={"flow": "other"})).json()

    assert (shown["total"]["submitted"], shown["total"]["completed"]) == (1, 1)
    assert 0 < shown["total"]["queue_p50_sec"] < 60
    assert sum(point["completed"] for point in shown["points"]) == 1
    assert [point["at"] for point in shown["points"]] == list(range(shown["since"], shown["until"], 60))
    assert shown["kept_since"] == pytest.approx(shown["taken_at"] - config.run_retention_sec)
    assert other["total"]["submitted"] == 0
    assert other["total"]["run_p95_sec"] is None


@pytest.mark.parametrize(
    "query",
    ["since=2026-01-02&until=2026-01-01", "since=2026-01-01&until=2026-03-01", "points=0", "points=501", "tag=a%20b"],
)
async def test_a_window_that_cannot_be_shown_is_refused(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/stats?{query}")).status_code == 422
