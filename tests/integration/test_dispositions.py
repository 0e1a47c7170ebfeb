"""Failing jobs on a real nats-server: the run, the queue, the dead letter, and the error id in the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.services.context import Stores
from pyoco_server.services.maintenance import dead_jobs
from support.gateways import serving, submit, wait_for_status
from support.samples import new_run_id
from support.workers import Working, at_work

PATIENCE_SEC = 20.0


@asynccontextmanager
async def system(config: NatsBackendConfig) -> AsyncIterator[tuple[httpx.AsyncClient, Stores, Working]]:
    """A gateway and a worker, each with a connection of its own."""
    async with (
        serving(config) as client,
        open_stores(config, name="worker") as stores,
        at_work(stores, config) as worker,
    ):
        yield client, stores, worker


async def produce(config: NatsBackendConfig, payload: bytes, tag: str = "default") -> None:
    """A foreign producer, which implements only appendix E of the contract."""
    async with await Connection.open(config) as connection:
        await connection.request(f"pyoco.work.{tag}", payload)


async def wait_for_dead_letter(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_SEC):
        while True:
            if items := (await client.get("/dlq", params=query)).json()["items"]:
                first: dict[str, Any] = items[0]
                return first
            await asyncio.sleep(0.02)


async def wait_until_empty(stores: Stores, tag: str = "default") -> None:
    async with asyncio.timeout(PATIENCE_SEC):
        while await stores.queue.stored(tag):  # noqa: ASYNC110 - the broker sends no event
            await asyncio.sleep(0.02)


async def logged(caplog: pytest.LogCaptureFixture, err_id: str) -> dict[str, Any]:
    """Waits for the log line with this error id."""
    async with asyncio.timeout(PATIENCE_SEC):
        while True:
            for record in caplog.records:
                if getattr(record, "err_id", None) == err_id:
                    return dict(vars(record))
            await asyncio.sleep(0.01)


async def test_a_foreign_producers_job_is_adopted(config: NatsBackendConfig) -> None:
    run_id = new_run_id()
    job = {"run_id": run_id, "flow_name": "theirs", "tag": "default", "params": {"x": 1}, "submitted_at": 1700000000.0}
    async with system(config) as (client, stores, worker):
        await produce(config, orjson.dumps(job))
        (await worker.executor.begun()).end()

        run = await wait_for_status(client, run_id, "COMPLETED")
        await wait_until_empty(stores)

    assert (run["flow_name"], run["params"], run["tags"]) == ("theirs", {"x": 1}, ["default"])
    assert run["submitted_at"] == 1700000000.0


async def test_an_invalid_job_is_removed_and_reported(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with system(config) as (client, stores, _):
        await produce(config, b"not json")
        letter = await wait_for_dead_letter(client, reason="invalid_job")
        await wait_until_empty(stores)
        line = await logged(caplog, "ERR-PYOCO-0012")

    assert (letter["run_id"], letter["tag"], letter["subject"]) == (
        None,
        "default",
        "pyoco.work.default",
    )
    assert letter["error"]
    assert (line["reason"], line["subject"], line["msg_id"]) == ("invalid_job", "pyoco.work.default", "MSG-PYOCO-0012")


async def test_an_invalid_job_does_not_fail_a_foreign_run_that_it_names(config: NatsBackendConfig) -> None:
    async with system(config) as (client, stores, _):
        run_id = await submit(client, tag="nobody")
        await produce(config, orjson.dumps({"run_id": run_id, "flow_name": "theirs", "tag": "default", "params": 7}))
        await wait_for_dead_letter(client, reason="invalid_job")
        await wait_until_empty(stores)

        run = await wait_for_status(client, run_id, "PENDING")

    assert run["error"] is None


async def test_the_submit_time_of_a_job_is_at_most_now(config: NatsBackendConfig) -> None:
    run_id = new_run_id()
    job = {"run_id": run_id, "flow_name": "theirs", "tag": "default", "submitted_at": 9_000_000_000}
    async with system(config) as (client, _, worker):
        await produce(config, orjson.dumps(job))
        (await worker.executor.begun()).end()

        run = await wait_for_status(client, run_id, "COMPLETED")

    assert run["submitted_at"] <= run["start_time"]


async def test_a_dead_letter_that_cannot_be_written_is_only_logged(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with system(config) as (client, stores, worker):
        async with await Connection.open(config) as connection:
            await connection.api(f"$JS.API.STREAM.DELETE.{config.dlq_stream}")
        run_id = await submit(client)
        (await worker.executor.begun()).end("failed", error_type="ValueError", message="no such file")

        run = await wait_for_status(client, run_id, "FAILED")
        await wait_until_empty(stores)
        line = await logged(caplog, "ERR-PYOCO-0011")

    assert run["error"] == "ValueError: no such file"
    assert (line["run_id"], line["reason"]) == (run_id, "execution_error")


async def test_a_job_without_deliveries_left_fails_its_run_and_leaves_the_queue(config: NatsBackendConfig) -> None:
    few = replace(config, consumer_max_deliver=2, run_heartbeat_interval_sec=0.1)
    async with serving(few) as client, open_stores(few, name="worker") as stores:
        run_id = await submit(client)
        queue = await stores.queue.open("default")
        for _ in range(2):
            (delivery,) = await queue.receive(1)
            await delivery.nak(0.0)
        asking = asyncio.ensure_future(queue.receive(1))

        run = await wait_for_status(client, run_id, "FAILED")
        letter = await wait_for_dead_letter(client, reason="max_deliver")
        await wait_until_empty(stores)
        asking.cancel()
        await queue.close()

    assert "given up after its job was delivered 2 times" in run["error"]
    assert (letter["run_id"], letter["num_delivered"], letter["error"]) == (run_id, 2, run["error"])


async def test_a_run_cancelled_before_its_tag_has_workers_leaves_no_job(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_jobs, "SWEEP_EVERY_SEC", 0.2)
    async with serving(config) as client, open_stores(config, name="test") as stores:
        run_id = await submit(client, tag="nobody")
        await client.post(f"/runs/{run_id}/cancel")
        await wait_for_status(client, run_id, "CANCELLED")

        await wait_until_empty(stores, "nobody")
