"""A broker drops damaged parts of its files when it starts: the gateway reports it, and no run stays unfinished."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.cli.client.commands.doctor import events
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import CompleteExecution, StartExecution
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId
from pyoco_server.errors import EventsLost
from pyoco_server.services.context import GATEWAY
from pyoco_server.services.executions.command_handler import handle
from support.broker import Broker
from support.gateways import serving, submit, wait_for_status

OURS = InstanceId("i")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.maintenance.lost_events.LOOK_EVERY_SEC", 0.05)


def cut_events(folder: Path) -> None:
    """Removes the second half of the stored events, as a damaged disk may."""
    (block,) = (folder / "store").glob("jetstream/*/streams/PYOCO_EVENTS/msgs/*.blk")
    content = block.read_bytes()
    block.write_bytes(content[: len(content) // 2])


async def damaged(broker: Broker, config: NatsBackendConfig, folder: Path) -> tuple[RunId, RunId, RunId]:
    """An untouched, a running and a finished run; the events of the last two are lost."""
    async with serving(config) as client, open_stores(config, name="test") as stores:
        whole = RunId(await submit(client))
        for _ in range(10):
            await submit(client)
        running, finished = RunId(await submit(client)), RunId(await submit(client))
        start = StartExecution(at=1.0, attempt=1, worker_id=WorkerId("w"), instance_id=OURS)
        for run_id in (running, finished):
            (await handle(stores, run_id, start, GATEWAY)).accepted()
        done = CompleteExecution(at=2.0, instance_id=OURS)
        (await handle(stores, finished, done, GATEWAY)).accepted()
        await ready_with(client, "complete")
    broker.kill()
    cut_events(folder)
    broker.start()
    return whole, running, finished


async def ready_with(client: httpx.AsyncClient, found: str, patience_sec: float = 20.0) -> dict[str, Any]:
    """The answer of /ready as soon as its `events` are these."""
    async with asyncio.timeout(patience_sec):
        while True:
            ready: dict[str, Any] = (await client.get("/ready")).json()
            if ready.get("events") == found:
                return ready
            await asyncio.sleep(0.01)


async def test_a_run_whose_events_are_lost_is_ended_and_explained(
    broker: Broker, config: NatsBackendConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, running, finished = await damaged(broker, config, tmp_path)

    async with serving(config) as client:
        ended = await wait_for_status(client, running, "FAILED")
        ready = await ready_with(client, "lost")
        explained = (await client.get(f"/runs/{finished}/explain")).json()
        metrics = (await client.get("/metrics")).text
        statuses = [(await client.get(f"/runs/{run_id}")).json()["status"] for run_id in (whole, finished)]
        fresh = await submit(client)

    assert ended["error"] == EventsLost.message()
    assert ready["status"] == "ready"
    assert explained["reasons"][0]["code"] == "events_lost"
    assert statuses == ["PENDING", "COMPLETED"]
    assert fresh
    (count,) = [line.split()[1] for line in metrics.splitlines() if line.startswith("pyoco_runs_with_lost_events")]
    assert float(count) >= 2
    (record,) = [one for one in caplog.records if one.message == "the broker has lost events of runs"]
    assert record.levelno == logging.ERROR


async def test_doctor_warns_of_lost_events(broker: Broker, config: NatsBackendConfig, tmp_path: Path) -> None:
    await damaged(broker, config, tmp_path)
    async with serving(config) as client:
        ready = await ready_with(client, "lost")

    findings = list(events(ready))

    assert [(finding.check, finding.verdict) for finding in findings] == [("events", "warning")]
    assert EventsLost.err_id in findings[0].detail
