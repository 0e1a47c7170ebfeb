"""A gateway in the test's own process, on a real nats-server, with an HTTP client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from support.conformance import checked

NO_LIMITS = {
    f"rate_limit_{limit}_per_min": 0 for limit in ("read", "write", "bulk", "api_read", "api_write", "unauthenticated")
}
FINISHED = ("COMPLETED", "FAILED", "CANCELLED")


def gateway_settings(url: str, folder: Path, **changed: Any) -> NatsBackendConfig:
    """Without rate limits, because tests poll and repeat quickly."""
    values: dict[str, Any] = {"index_path": str(folder / "runs.sqlite"), "data_dir": str(folder / "none")} | NO_LIMITS
    return NatsBackendConfig(nats_url=url, **values | changed)


class _InTurn(httpx.ASGITransport):
    """Yields before each request, as a socket does."""

    gateway: FastAPI  # without the checks around it

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        return await super().handle_async_request(request)


@asynccontextmanager
async def serving(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway with these settings; no socket in between."""
    app = create_app(config)
    async with app.router.lifespan_context(app):
        transport = _InTurn(checked(app), raise_app_exceptions=False)
        transport.gateway = app
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30.0) as client:
            yield client


async def submit(client: httpx.AsyncClient, flow_name: str = "hello", **body: Any) -> str:
    response = await client.post("/runs", json={"flow_name": flow_name, **body})
    assert response.status_code == 200, response.text
    run_id: str = response.json()["run_id"]
    return run_id


async def wait_for_status(
    client: httpx.AsyncClient, run_id: str, *statuses: str, patience_sec: float = 20.0
) -> dict[str, Any]:
    """Polls the run until it has one of these statuses."""
    async with asyncio.timeout(patience_sec):
        while True:
            run: dict[str, Any] = (await client.get(f"/runs/{run_id}", params={"include": "records"})).json()
            if run.get("status") in statuses:
                return run
            await asyncio.sleep(0.01)


async def listed(client: httpx.AsyncClient, run_ids: list[str], **query: Any) -> None:
    """Returns as soon as the list has exactly these runs."""
    async with asyncio.timeout(5.0):
        while True:
            items = (await client.get("/runs", params=query)).json()
            if [item["run_id"] for item in items] == run_ids:
                return
            await asyncio.sleep(0.01)
