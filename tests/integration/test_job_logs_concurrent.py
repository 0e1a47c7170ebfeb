"""Concurrent reads of large logs at one gateway: few chunks at a time, and other requests continue."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from fastapi import Response

from pyoco_server.adapters.jetstream.reads import StreamReader
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.http_api.api.jobs import log_routes
from pyoco_server.stores.run_logs import MAX_READS_IN_FLIGHT
from support.gateways import submit
from support.written import Writer, numbered


async def written(client: httpx.AsyncClient, config: NatsBackendConfig, lines: int) -> str:
    run_id = await submit(client)
    async with open_stores(config, name="writer of the test") as stores:
        writer = Writer(stores.run_logs, RunId(run_id))
        for first in range(1, lines + 1, 500):
            await writer.write(*numbered(first, min(first + 499, lines)))
    return run_id


async def test_concurrent_reads_fetch_few_chunks_at_a_time(
    client: httpx.AsyncClient, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await written(client, config, 2000)
    at_once, most, read = 0, 0, StreamReader.next

    async def counted(self: StreamReader, *arguments: Any) -> Any:
        nonlocal at_once, most
        if self._stream != config.logs_stream:
            return await read(self, *arguments)
        at_once += 1
        most = max(most, at_once)
        try:
            return await read(self, *arguments)
        finally:
            at_once -= 1

    monkeypatch.setattr(StreamReader, "next", counted)

    pending = (
        client.get(f"/jobs/{run_id}/logs", headers={"Accept": "text/plain"}) for _ in range(4 * MAX_READS_IN_FLIGHT)
    )
    responses = await asyncio.gather(*pending)

    assert {response.text for response in responses} == {"".join(f"{number}\n" for number in range(1, 2001))}
    assert 1 < most <= MAX_READS_IN_FLIGHT


@pytest.mark.parametrize(("limit", "aside"), [(log_routes.QUICK_LINES, False), (log_routes.QUICK_LINES + 1, True)])
async def test_a_large_page_is_encoded_in_a_thread(
    client: httpx.AsyncClient, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, limit: int, aside: bool
) -> None:
    run_id = await written(client, config, 2000)
    threads, made = [], log_routes._lines

    def seen(*arguments: Any) -> Response:
        threads.append(threading.current_thread())
        return made(*arguments)

    monkeypatch.setattr(log_routes, "_lines", seen)

    entries = (await client.get(f"/jobs/{run_id}/logs", params={"limit": limit})).json()["entries"]

    assert [entry["message"] for entry in entries] == list(numbered(1, limit))
    assert [thread is not threading.current_thread() for thread in threads] == [aside]
