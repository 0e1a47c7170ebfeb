"""Readers of a growing log that disconnect at random and resume at another gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from random import Random

import orjson
import pytest
import pytest_asyncio

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from support.gateways import gateway_settings, submit
from support.sockets import joined
from support.streams import Gateway, events_in, listening
from support.written import Writer, numbered

LINES = 3000
PATIENCE_SEC = 60.0


@pytest_asyncio.fixture
async def gateways(config: NatsBackendConfig, tmp_path: Path) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as opened:
        found = [await opened.enter_async_context(listening(config))]
        (tmp_path / "other").mkdir()
        found.append(await opened.enter_async_context(listening(gateway_settings(config.nats_url, tmp_path / "other"))))
        yield found


async def write(writer: Writer, random: Random) -> None:
    first = 1
    while first <= LINES:
        last = min(LINES, first + random.choice((0, 1, 7, 60, 700)))
        await writer.write(*numbered(first, last))
        first = last + 1


async def read_events(gateways: list[Gateway], run_id: str, random: Random) -> list[str]:
    """Reconnects after the last event, as a browser does, until the end event."""
    had: list[str] = []
    last: dict[str, str] = {}
    while True:
        client = random.choice(gateways).client
        async with client.stream("GET", f"/jobs/{run_id}/logs/stream", headers=last) as response:
            if response.status_code == 204:
                return had
            wanted = random.choice((1, 2, 5, 100, 1000))
            async with aclosing(events_in(response.aiter_lines())) as events:
                async for event in events:
                    assert event.event_id is not None
                    last = {"Last-Event-ID": event.event_id}
                    had += [event.data["message"]] if event.name == "logEntry" else []
                    wanted -= 1
                    if not wanted:
                        break


async def read_frames(gateways: list[Gateway], run_id: str, random: Random) -> list[str]:
    had: list[str] = []
    token = ""
    while True:
        async with joined(random.choice(gateways), run_id, sinceToken=token) as socket:
            wanted = random.choice((1, 2, 5, 20))
            async for text in socket:
                frame = orjson.loads(text)
                if frame["type"] == "log":
                    had += [entry["message"] for entry in frame["entries"]]
                    token = frame["nextToken"]
                    wanted -= 1
                if frame["type"] == "end":
                    return had
                if not wanted:
                    break


@pytest.mark.parametrize("seed", range(3))
async def test_every_line_arrives_once_and_in_order_over_random_disconnects(
    gateways: list[Gateway], config: NatsBackendConfig, seed: int
) -> None:
    random = Random(seed)
    run_id = await submit(gateways[0].client)
    async with open_stores(config, name="writer") as stores, asyncio.timeout(PATIENCE_SEC):
        readers = [
            asyncio.create_task(read(gateways, run_id, Random(random.random())))
            for read in (read_events, read_frames, read_events, read_frames)
        ]
        await write(Writer(stores.run_logs, RunId(run_id)), random)
        await gateways[0].client.post(f"/runs/{run_id}/cancel")
        found = await asyncio.gather(*readers)

    for had in found:
        assert had == numbered(1, LINES)
