"""A gateway behind a proxy: limits and the audit trail are about the client that a trusted proxy names."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.broker import Broker
from support.gateways import gateway_settings, serving
from support.polling import until

PROXY, CLIENT, ANOTHER = "127.0.0.1", "198.51.100.7", "2001:db8:2::7"


@pytest.fixture
def settings(broker: Broker, tmp_path: Path) -> Any:
    return partial(gateway_settings, broker.url, tmp_path)


async def addresses(client: httpx.AsyncClient) -> list[str]:
    """The addresses of all submits in the audit trail."""
    answer = await client.get("/audit", params={"action": "run.create"})
    return [item["address"] for item in answer.raise_for_status().json()["items"]]


async def submit_from(client: httpx.AsyncClient, forwarded: str) -> None:
    sent = await client.post("/runs", json={"flow_name": "hello"}, headers={"X-Forwarded-For": forwarded})
    sent.raise_for_status()


@pytest.mark.parametrize(
    ("trusted", "forwarded", "recorded"),
    [
        (PROXY, CLIENT, CLIENT),
        (f"{PROXY}, 10.0.0.0/8", f"203.0.113.9, {ANOTHER}, 10.1.1.1", ANOTHER),
        (PROXY, "'; DROP TABLE runs --", PROXY),
        ("10.0.0.0/8", CLIENT, PROXY),
        ("", CLIENT, PROXY),
    ],
    ids=["one hop", "several hops", "malformed", "from an untrusted peer", "none trusted"],
)
async def test_the_audit_trail_has_the_address_of_the_client(
    settings: Any, trusted: str, forwarded: str, recorded: str
) -> None:
    async with asyncio.timeout(30), serving(settings(http_trusted_proxies=trusted)) as client:
        await submit_from(client, forwarded)
        found = await until(partial(addresses, client), lambda found: len(found) == 1)

    assert found == [recorded]


async def reads(client: httpx.AsyncClient, *forwarded: str) -> list[int]:
    return [(await client.get("/runs", headers={"X-Forwarded-For": one})).status_code for one in forwarded]


async def test_each_client_behind_a_trusted_proxy_has_a_quota_of_its_own(settings: Any) -> None:
    async with serving(settings(http_trusted_proxies=PROXY, rate_limit_api_read_per_min=2)) as client:
        one = await reads(client, *[CLIENT] * 4)
        # What a client writes before the address that its proxy appends gives it no other quota.
        spoofed = await reads(client, *(f"203.0.113.{number}, {CLIENT}" for number in range(3)))
        another = await reads(client, ANOTHER, "2001:db8:2::8", "2001:db8:2::9")
        malformed = await reads(client, *(f"no address {number}" for number in range(4)))

    assert one == [200, 200, 429, 429]
    assert spoofed == [429, 429, 429]
    assert another == [200, 200, 429]
    assert malformed == [200, 200, 429, 429]


async def test_an_untrusted_peer_chooses_no_address(settings: Any) -> None:
    async with serving(settings(http_trusted_proxies="10.0.0.5", rate_limit_api_read_per_min=2)) as client:
        found = await reads(client, *(f"198.51.100.{number}" for number in range(4)))

    assert found == [200, 200, 429, 429]
