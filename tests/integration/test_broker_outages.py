"""Broker outages: responses stay fast and correct, nothing is lost, and no process needs a restart."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from support.broker import Broker
from support.gateways import listed, serving, submit, wait_for_status
from support.runners import began, declared, succeeded
from support.workers import at_work

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05, cancel_grace_period_sec=0.2)

# Twice the time of the contract, for a busy machine.
ANSWER_SEC = 4.0


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_without_a_broker_every_request_soon_gets_a_503(
    broker: Broker, config: NatsBackendConfig, how: str
) -> None:
    async with serving(config) as client:
        run_id = await submit(client)
        broker.kill() if how == "killed" else broker.pause()
        try:
            requests: list[tuple[str, str, Any]] = [
                ("POST", "/runs", {"flow_name": "hello"}),
                ("GET", f"/runs/{run_id}", None),
                ("GET", f"/runs/{run_id}/tasks", None),
                ("POST", f"/runs/{run_id}/cancel", None),
                ("GET", "/metrics", None),
                ("GET", "/wheels", None),
                ("GET", "/wheels/history", None),
                ("GET", "/wheels/demo-1.0-py3-none-any.whl", None),
                ("DELETE", "/wheels/demo-1.0-py3-none-any.whl", None),
            ]
            began_at = time.monotonic()
            responses = await asyncio.gather(*(client.request(verb, path, json=body) for verb, path, body in requests))
            # A list sends no request: it notices a lost connection, but not a hanging broker.
            responses += [await client.get(path) for path in ("/runs", "/runs?include=full") if how == "killed"]
            took_sec = time.monotonic() - began_at
            health = await client.get("/health")
        finally:
            broker.resume() if how == "paused" else broker.start()

    for response in responses:
        assert (response.status_code, response.json()["err_id"]) in ((503, "ERR-PYOCO-0003"), (503, "ERR-PYOCO-0004"))
        assert response.headers["retry-after"].isdigit()
        assert response.headers["x-request-id"]
    assert took_sec < ANSWER_SEC
    assert health.status_code == 200
    assert how == "paused" or health.json()["nats"] == "away"


async def test_metrics_wait_no_longer_for_a_hanging_broker_than_other_requests(
    broker: Broker, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else ends the wait: the connection does not detect the outage, and start-up may take hours."""
    for patience in ("PING_SEC", "API_SEC"):
        monkeypatch.setattr(f"pyoco_server.adapters.jetstream.connect.{patience}", 3600.0)
    async with serving(config) as client:
        await submit(client)
        broker.pause()
        try:
            async with asyncio.timeout(20.0):
                response = await client.get("/metrics")
        finally:
            broker.resume()

    assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0003")


async def test_a_gateway_recovers_when_the_broker_returns(broker: Broker, config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        before = await submit(client)
        broker.kill()
        assert (await client.post("/runs", json={"flow_name": "hello"})).status_code == 503
        broker.start()

        run_ids = [await _submitted(client), before]

        await listed(client, run_ids)
        assert (await client.get(f"/runs/{before}")).json()["status"] == "PENDING"
        assert (await client.get("/health")).json()["nats"] == "connected"


async def _submitted(client: Any) -> str:
    async with asyncio.timeout(10.0):
        while True:
            response = await client.post("/runs", json={"flow_name": "hello"})
            if response.status_code == 200:
                run_id: str = response.json()["run_id"]
                return run_id
            await asyncio.sleep(0.05)


async def test_a_run_survives_a_killed_broker_without_loss(broker: Broker, config: NatsBackendConfig) -> None:
    async with (
        serving(config) as client,
        open_stores(config, name="worker") as stores,
        at_work(stores, config) as worker,
    ):
        run_id = await submit(client)
        runner = await worker.executor.begun()
        runner.say(declared("load", "save"), began("load"))
        await wait_for_status(client, run_id, "RUNNING")
        broker.kill()
        runner.say(succeeded("load", 1))
        runner.end("completed", began("save"), succeeded("save", 2))
        broker.start()
        run = await wait_for_status(client, run_id, "COMPLETED")
        after = await _submitted(client)
        (await worker.executor.begun()).end()
        await wait_for_status(client, after, "COMPLETED")

    assert run["attempt"] == 1
    assert {name: record["output"] for name, record in run["task_records"].items()} == {"load": 1, "save": 2}
    assert worker.executor.runs == 2


async def test_a_worker_without_a_broker_logs_failed_writes_with_error_ids(
    broker: Broker, config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    hurried = replace(config, ack_progress_interval_sec=0.1)
    async with (
        serving(hurried) as client,
        open_stores(hurried, name="worker") as stores,
        at_work(stores, hurried) as worker,
    ):
        run_id = await submit(client)
        runner = await worker.executor.begun()
        await wait_for_status(client, run_id, "RUNNING")
        broker.kill()
        await _logged(caplog, "ERR-PYOCO-0009")
        runner.end()
        await _logged(caplog, "ERR-PYOCO-0008")
        broker.start()

        run = await wait_for_status(client, run_id, "COMPLETED")

    assert run["attempt"] == 1


async def _logged(caplog: pytest.LogCaptureFixture, err_id: str) -> None:
    """Waits for a log line with this error id."""
    async with asyncio.timeout(15.0):
        while not any(getattr(record, "err_id", None) == err_id for record in caplog.records):  # noqa: ASYNC110 - logging has no event
            await asyncio.sleep(0.01)


async def test_a_job_that_waits_for_a_long_run_is_executed_once(
    broker: Broker, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker returns prefetched jobs; each delivery counts, and the broker gives up after a few."""
    monkeypatch.setattr("pyoco_server.worker.attempt.attempt.GIVE_BACK_AFTER_SEC", 0.05)
    few = replace(config, consumer_max_deliver=4)
    async with serving(few) as client, open_stores(few, name="worker") as stores, at_work(stores, few) as worker:
        long, waiting = await submit(client), [await submit(client) for _ in range(3)]
        runner = await worker.executor.begun()
        await _heartbeats(client, long, 20)
        runner.end()
        for _ in waiting:
            (await worker.executor.begun()).end()
        for run_id in (long, *waiting):
            run = await wait_for_status(client, run_id, "COMPLETED")
            assert run["attempt"] == 1


async def _heartbeats(client: Any, run_id: str, count: int) -> None:
    """Waits for this number of heartbeats of the run."""
    shown: set[float] = set()
    while len(shown) <= count:
        shown.add((await wait_for_status(client, run_id, "RUNNING"))["heartbeat_at"])
        await asyncio.sleep(0.01)
