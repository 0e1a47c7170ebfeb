"""Waiting claims: each gets its own node as soon as one is ready, and all end with the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio
from msgspec.structs import replace

from pyoco_server.domain.idempotency.keys import IdempotencyKey, record_key
from pyoco_server.domain.idempotency.record import ENDED
from support.broker import Broker
from support.executions import NEXT, NODE, PAIR, new_key, path_of
from support.gateways import gateway_settings
from support.streams import Gateway, listening

LONG_SEC = 30.0


@pytest_asyncio.fixture
async def gateway(broker: Broker, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with listening(gateway_settings(broker.url, tmp_path)) as opened:
        await opened.client.put("/graphs/pair", json=PAIR)
        yield opened


async def claim(
    client: httpx.AsyncClient, worker: str = "w", wait_sec: float = LONG_SEC, *, key: str = "", **more: Any
) -> httpx.Response:
    body = {"graphIds": ["pair"], "workerId": worker, "waitSec": wait_sec, **more}
    return await client.post("/executions:claim", json=body, headers={"Idempotency-Key": key or new_key()})


async def command(client: httpx.AsyncClient, execution_id: str, name: str, body: Any = None) -> None:
    response = await client.post(path_of(execution_id, name), json=body or {}, headers={"Idempotency-Key": new_key()})
    assert response.status_code == 202, response.text


async def started(client: httpx.AsyncClient) -> str:
    created = await client.post("/executions", json={"graphId": "pair"}, headers={"Idempotency-Key": new_key()})
    execution_id: str = created.json()["executionId"]
    await command(client, execution_id, "start")
    return execution_id


async def wait_for_claims(gateway: Gateway, count: int) -> None:
    """Waits until `count` claims wait."""
    async with asyncio.timeout(LONG_SEC):
        while True:
            if gateway.claims.waiting == count:
                return
            await asyncio.sleep(0.005)


async def test_a_waiting_claim_gets_the_node_that_becomes_ready(gateway: Gateway) -> None:
    waiting = asyncio.create_task(claim(gateway.client))
    await wait_for_claims(gateway, 1)

    execution_id = await started(gateway.client)
    first = await waiting
    following = asyncio.create_task(claim(gateway.client))
    await wait_for_claims(gateway, 1)
    await command(gateway.client, execution_id, "node success", {"output": 1})
    second = await following

    assert [response.status_code for response in (first, second)] == [200, 200]
    assert [response.json()["nodeId"] for response in (first, second)] == [NODE, NEXT]


async def test_a_claim_that_waits_at_another_gateway_gets_the_node(
    gateway: Gateway, broker: Broker, tmp_path: Path
) -> None:
    async with listening(gateway_settings(broker.url, tmp_path / "other")) as other:
        waiting = asyncio.create_task(claim(other.client))
        await wait_for_claims(other, 1)

        execution_id = await started(gateway.client)

        assert (await waiting).json()["executionId"] == execution_id


async def test_waiting_claims_get_different_nodes(gateway: Gateway) -> None:
    pending = [asyncio.create_task(claim(gateway.client, f"w-{number}")) for number in range(10)]
    await wait_for_claims(gateway, 10)

    created = [await started(gateway.client) for _ in range(10)]
    responses = await asyncio.gather(*pending)

    assert sorted(response.json()["executionId"] for response in responses) == sorted(created)
    assert gateway.claims.waiting == 0


async def test_a_waiting_claim_gets_a_node_whose_lease_expires(gateway: Gateway) -> None:
    await started(gateway.client)
    held = await claim(gateway.client, "silent", leaseSec=1.0)
    waiting = asyncio.create_task(claim(gateway.client, "next"))
    await wait_for_claims(gateway, 1)

    response = await waiting

    assert (held.json()["attempt"], response.json()["attempt"]) == (1, 2)


async def test_a_disconnected_claim_gets_nothing(gateway: Gateway) -> None:
    gone = asyncio.create_task(claim(gateway.client, "gone"))
    await wait_for_claims(gateway, 1)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)

    execution_id = await started(gateway.client)
    response = await claim(gateway.client, "there")

    assert (response.json()["executionId"], response.json()["attempt"]) == (execution_id, 1)


async def test_a_waiting_claim_without_work_times_out(gateway: Gateway) -> None:
    response = await claim(gateway.client, wait_sec=0.1)

    assert (response.status_code, gateway.claims.waiting) == (204, 0)


async def test_a_stopping_gateway_ends_waiting_claims(broker: Broker, tmp_path: Path) -> None:
    async with listening(gateway_settings(broker.url, tmp_path)) as leaving:
        waiting = asyncio.create_task(claim(leaving.client))
        await wait_for_claims(leaving, 1)

        leaving.disconnect_all()

        assert (await waiting).status_code == 204
        assert (await claim(leaving.client)).status_code == 204


async def test_a_claim_whose_gateway_died_gets_the_same_node_on_repeat(gateway: Gateway) -> None:
    await started(gateway.client)
    first = await claim(gateway.client, wait_sec=0.0, key="claim-1")
    await _lose_response(gateway, "claim-1")

    again = await claim(gateway.client, wait_sec=0.0, key="claim-1")

    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json() | {"correlationId": again.json()["correlationId"]}


async def _lose_response(gateway: Gateway, key: str) -> None:
    """The state after a gateway was killed between a claim and its response."""
    place = record_key(tenant_id=None, method="POST", path="/executions:claim", key=IdempotencyKey(key))
    stored = await gateway.records.get(place)
    assert stored is not None
    unanswered = replace(stored.record, response=None, lease_until=ENDED)
    assert await gateway.records.replace(place, unanswered, revision=stored.revision) is not None
