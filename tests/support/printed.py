"""Runs with output, executed by a worker of the test."""

from __future__ import annotations

import asyncio

import httpx

from support.gateways import submit, wait_for_status
from support.workers import Working

ANSWERED_SEC = 20.0


async def finished(client: httpx.AsyncClient, worker: Working, *texts: str) -> str:
    """A finished run that has written these lines."""
    run_id = await submit(client)
    runner = await worker.executor.begun()
    for start in range(0, len(texts), 100):
        runner.write(*texts[start : start + 100], task="load")
    runner.end()
    await wait_for_status(client, run_id, "COMPLETED")
    return run_id


async def written_so_far(client: httpx.AsyncClient, run_id: str, count: int) -> None:
    """Waits until `count` lines are stored."""
    async with asyncio.timeout(ANSWERED_SEC):
        query: dict[str, str | float] = {"wait_sec": 20}
        while count > 0:
            body = (await client.get(f"/runs/{run_id}/logs", params=query)).raise_for_status().json()
            count -= len(body["items"])
            query["since_token"] = body["next_token"]
