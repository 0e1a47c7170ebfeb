"""Readiness: `/ready` says whether writes work, and costs the broker little."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.services import readiness
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.gateways import gateway_settings, serving

FULL = "max_file_store: 400KB"


async def until_ready(client: httpx.AsyncClient, **options: str) -> httpx.Response:
    """The first answer that is not 503: the index is filled after the start."""
    async with asyncio.timeout(20):
        while (response := await client.get("/ready?probe=1", headers=options)).status_code == 503:  # noqa: ASYNC110 - no event of another process
            await asyncio.sleep(0.01)
    return response


async def test_a_gateway_that_accepts_runs_is_ready_for_anyone_by_any_name(client: httpx.AsyncClient) -> None:
    response = await until_ready(client, Host="lb.example")

    assert response.status_code == 200
    assert response.json()["status"] == "ready"


@pytest.mark.settings(http_auth_mode="api_key")
async def test_readiness_needs_no_credentials(client: httpx.AsyncClient) -> None:
    assert (await until_ready(client)).status_code == 200


async def test_probes_share_one_write_per_second(client: httpx.AsyncClient, stores: Stores) -> None:
    async def probes_stored() -> int:
        bucket = stores.tickets._bucket
        return len([entry for entry in await bucket.all() if entry.key.startswith("probe-")])

    await until_ready(client)
    responses = await asyncio.gather(*(client.get("/ready") for _ in range(50)))

    assert {response.status_code for response in responses} == {200}
    assert 1 <= await probes_stored() <= 2


async def test_a_full_store_is_unready_and_alive_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "WRITE_EVERY_SEC", 0.0)
    with Broker(tmp_path, store=FULL) as broker:
        async with serving(gateway_settings(broker.url, tmp_path, dlq_max_bytes=0)) as client:
            await until_ready(client)
            while (await client.post("/runs", json={"flow_name": "f", "params": {"x": "y" * 50_000}})).is_success:
                pass
            # At once: what the probe writes is larger than that run.
            unready = await client.get("/ready")
            japanese = await client.get("/ready", headers={"Accept-Language": "ja"})
            alive = await client.get("/health")

            assert unready.status_code == 503
            assert unready.headers["retry-after"]
            body = unready.json()
            assert (body["status"], body["err_id"]) == ("unready", "ERR-PYOCO-0075")
            assert [reason["err_id"] for reason in body["reasons"]] == ["ERR-PYOCO-0075"]
            assert "max_file_store" in body["hint"]
            assert japanese.json()["message"] != body["message"]
            assert (alive.status_code, alive.json()["nats"]) == (200, "connected")


async def test_without_its_broker_a_gateway_is_unready_and_ready_again_with_it(
    broker: Broker, config: NatsBackendConfig
) -> None:
    async with serving(config) as client:
        await until_ready(client)
        broker.kill()
        async with asyncio.timeout(20):
            while (away := await client.get("/ready")).is_success:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        broker.start()
        await until_ready(client)

    assert away.status_code == 503
    assert away.json()["err_id"] in ("ERR-PYOCO-0003", "ERR-PYOCO-0075")
