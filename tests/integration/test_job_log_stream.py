"""`GET /jobs/{id}/logs/stream` of real gateways on a real broker: every line once, until the job ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.gateways import gateway_settings, submit
from support.samples import new_run_id
from support.streams import PATIENCE_SEC, Event, Gateway, events_in, listening
from support.workers import at_work
from support.written import Writer, numbered

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05)


@asynccontextmanager
async def following(
    client: httpx.AsyncClient, run_id: str, *, headers: dict[str, str] | None = None, **query: Any
) -> AsyncIterator[AsyncGenerator[Event, None]]:
    """The events of a log stream; leaving the block disconnects."""
    async with client.stream("GET", f"/jobs/{run_id}/logs/stream", params=query, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        yield events_in(response.aiter_lines())


def resume_after(event: Event) -> dict[str, str]:
    assert event.event_id is not None
    return {"Last-Event-ID": event.event_id}


async def next_events(events: AsyncIterator[Event], count: int) -> list[Event]:
    async with asyncio.timeout(PATIENCE_SEC):
        return [await anext(events) for _ in range(count)]


async def all_events(events: AsyncIterator[Event]) -> list[Event]:
    async with asyncio.timeout(PATIENCE_SEC):
        return [event async for event in events]


def messages(events: list[Event]) -> list[str]:
    return [event.data["message"] for event in events if event.name == "logEntry"]


async def finish(gateway: Gateway, run_id: str) -> None:
    """Completes a run without a holder."""
    await gateway.client.post(f"/runs/{run_id}/cancel")


async def test_a_stream_sends_each_line_and_then_the_end(
    gateway: Gateway, config: NatsBackendConfig, stores: Stores
) -> None:
    run_id = await submit(gateway.client)
    async with following(gateway.client, run_id) as events, at_work(stores, config) as worker:
        runner = await worker.executor.begun()
        runner.write("one", "zwei \u2028 <b>", task="load")
        received = await next_events(events, 2)
        for number in range(3, 200):
            runner.write(str(number))
        runner.end()
        received += await all_events(events)

    assert messages(received) == ["one", "zwei \u2028 <b>", *numbered(3, 199)]
    assert received[0].data == {
        "timestamp": "2023-11-14T22:13:20.000Z",
        "message": "one",
        "n": 1,
        "task": "load",
        "level": "INFO",
        "stream": "stdout",
        "attempt": 1,
    }
    assert [event.data["n"] for event in received[:-1]] == list(range(1, 200))
    assert (received[-1].name, received[-1].data) == ("end", {"status": "completed"})
    response = await gateway.client.get(f"/jobs/{run_id}/logs/stream", headers=resume_after(received[-1]))
    assert (response.status_code, response.content) == (204, b"")
    assert gateway.topics.open_count == 0


async def test_a_stream_of_a_finished_log_sends_all_lines(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write("one", "two")
    await finish(gateway, run_id)

    response = await gateway.client.get(f"/jobs/{run_id}/logs/stream")

    assert response.headers["content-type"].startswith("text/event-stream")
    assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-store", "no")
    assert response.text.count("event: logEntry") == 2
    assert response.text.endswith('event: end\ndata: {"status":"canceled"}\n\n')


async def test_a_stream_continues_after_a_token_of_the_run_log(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write(*numbered(1, 5))
    page = (await gateway.client.get(f"/runs/{run_id}/logs", params={"limit": 2})).json()
    await finish(gateway, run_id)

    async with following(gateway.client, run_id, sinceToken=page["next_token"]) as events:
        assert messages(await all_events(events)) == numbered(3, 5)


async def test_a_stream_may_start_at_the_tail_or_is_truncated(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    writer = Writer(stores.run_logs, RunId(run_id))
    await writer.write("a", task="load", level="ERROR")
    await writer.write("b", "c", task="fit")
    await finish(gateway, run_id)

    async def received(**query: Any) -> list[str]:
        async with following(gateway.client, run_id, **query) as events:
            return messages(await all_events(events))

    assert await received(tail=2) == ["b", "c"]
    assert await received(task="fit") == ["b", "c"]
    assert await received(level="WARNING") == ["a"]
    assert await received(task="fit", level="ERROR") == []


async def test_a_tail_stream_cut_before_its_first_line_misses_none(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    writer = Writer(stores.run_logs, RunId(run_id))
    await writer.write(*numbered(1, 3))
    async with gateway.client.stream("GET", f"/jobs/{run_id}/logs/stream", params={"tail": 2}) as response:
        place = await anext(line async for line in response.aiter_lines() if line.startswith("id: "))
    await writer.write(*numbered(4, 9))
    await finish(gateway, run_id)

    async with following(gateway.client, run_id, headers={"Last-Event-ID": place[4:]}, tail=2) as events:
        assert messages(await all_events(events)) == numbered(2, 9)


@pytest.mark.parametrize(
    "query",
    ["tail=0", "tail=x", "level=LOUD", "task=", "sinceToken=x", "tail=1&tail=2", "limit=1", "tail=1&sinceToken=x"],
)
async def test_an_invalid_query_is_rejected(gateway: Gateway, query: str) -> None:
    response = await gateway.client.get(f"/jobs/{new_run_id()}/logs/stream?{query}")

    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


async def test_a_silent_stream_sends_comments(config: NatsBackendConfig, tmp_path: Path) -> None:
    async with listening(gateway_settings(config.nats_url, tmp_path, http_watch_heartbeat_sec=0.05)) as gateway:
        run_id = await submit(gateway.client)
        async with gateway.client.stream("GET", f"/jobs/{run_id}/logs/stream") as response:
            shown = (line async for line in response.aiter_lines() if line == ": alive")
            async with asyncio.timeout(PATIENCE_SEC):
                assert [await anext(shown) for _ in range(3)] == [": alive"] * 3


async def test_a_stream_survives_a_broker_restart(broker: Broker, gateway: Gateway, config: NatsBackendConfig) -> None:
    run_id = await submit(gateway.client)
    async with open_stores(config, name="writer") as stores:
        await Writer(stores.run_logs, RunId(run_id)).write("before")
    async with following(gateway.client, run_id) as events:
        received = await next_events(events, 1)
        broker.kill()
        refused = await gateway.client.get(f"/jobs/{new_run_id()}/logs/stream")
        broker.start()
        await finish(gateway, run_id)
        received += await all_events(events)

    assert (refused.status_code, refused.json()["errId"]) == (503, "ERR-PYOCO-0003")
    assert messages(received) == ["before"]
    assert received[-1].name == "end"
