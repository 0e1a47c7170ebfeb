"""The fleet on a real JetStream: recreated buckets and foreign records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.system import SystemClock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import WorkerId
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.stores import WorkerRegistry
from support.broker import Broker
from support.samples import worker
from support.stores import jetstream_ports, settings


@pytest.fixture
def config(tmp_path: Path) -> Iterator[NatsBackendConfig]:
    with Broker(tmp_path) as broker:
        yield settings(broker.url)


async def test_the_fleet_follows_a_recreated_bucket(connection: Connection, config: NatsBackendConfig) -> None:
    registry = (await jetstream_ports(connection, config)).registry
    await registry.put(worker("old"))

    async with watching(registry, connection, config) as view:
        assert view.worker(WorkerId("old")) is not None
        await connection.api("$JS.API.STREAM.DELETE.KV_pyoco_workers")
        again = (await jetstream_ports(connection, config)).registry
        await again.put(worker("new"))
        async with asyncio.timeout(20):
            while view.worker(WorkerId("new")) is None:  # noqa: ASYNC110 — the view has no event for single words
                await asyncio.sleep(0.01)

        assert view.worker(WorkerId("old")) is None


async def test_unreadable_worker_records_are_ignored(connection: Connection, config: NatsBackendConfig) -> None:
    registry = (await jetstream_ports(connection, config)).registry
    odd = [b"", b"no", b"[]", b"7", b"{}", b'{"worker_id":"another"}', b'{"worker_id":"odd5","last_seen_at":"now"}']
    for nth, value in enumerate(odd):
        await connection.request(f"$KV.pyoco_workers.odd{nth}", value)
    await connection.request("$KV.pyoco_workers.few", b'{"worker_id":"few","heartbeat_at":5,"tags":["a"]}')
    await registry.put(worker())

    async with watching(registry, connection, config) as view:
        assert {seen.record.worker_id for seen in view.workers()} == {"few", "w1"}


async def test_concurrent_heartbeats_and_operator_changes_are_all_stored(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    await ports.registry.put(worker(last_seen_at=0.0))

    async def yield_to_writer() -> None:
        for _ in range(3):  # gives the other writer a turn
            await ports.registry.get(WorkerId("w1"))

    async def beat() -> None:
        for nth in range(1, 301):
            await ports.registry.put(worker(last_seen_at=float(nth)))
            await yield_to_writer()

    async def change_hidden() -> None:
        for nth in range(1, 52):
            seen = await ports.registry.set_hidden(WorkerId("w1"), nth % 2 == 1, at=float(nth))
            assert seen is not None
            assert seen.record is not None
            assert seen.record.hidden == (nth % 2 == 1)
            await yield_to_writer()

    async with asyncio.timeout(60), asyncio.TaskGroup() as both:
        both.create_task(beat())
        both.create_task(change_hidden())

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored == replace(worker(last_seen_at=300.0), hidden=True)


@asynccontextmanager
async def watching(
    registry: WorkerRegistry, connection: Connection, config: NatsBackendConfig
) -> AsyncIterator[FleetView]:
    view = FleetView(registry, connection, SystemClock(), config)
    task = asyncio.create_task(view.run())
    try:
        assert await view.wait_caught_up(10.0)
        yield view
    finally:
        task.cancel()
        await asyncio.wait([task])
