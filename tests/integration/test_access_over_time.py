"""Validity of keys over time: expiry, revocation, broker outages, deleted buckets."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.bootstrap import open_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import key_id_in
from pyoco_server.domain.auth.scopes import USUAL_SCOPES
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, serving

pytestmark = pytest.mark.settings(http_auth_mode="api_key")

STREAM = "KV_pyoco_auth"


async def wait_for_response(client: httpx.AsyncClient, key: str, status: int, err_id: str | None = None) -> None:
    """Polls a list until it has this status."""
    async with asyncio.timeout(20):
        while True:
            response = await client.get("/runs", headers=api_key_headers(key))
            if response.status_code == status:
                assert err_id is None or response.json()["err_id"] == err_id
                return
            await asyncio.sleep(0.01)


async def test_a_revoked_key_is_soon_rejected_by_every_gateway(config: NatsBackendConfig, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = gateway_settings(config.nats_url, tmp_path / "other", http_auth_mode="api_key")
    key, kept = await hand_out(config), await hand_out(config)
    async with serving(config) as one, serving(other) as two, open_api_keys(config) as keys:
        for client in (one, two):
            await wait_for_response(client, key, 200)
        key_id = key_id_in(key)
        assert key_id is not None

        await keys.revoke(key_id)

        await asyncio.gather(*(wait_for_response(client, key, 403, "ERR-PYOCO-0015") for client in (one, two)))
        for client in (one, two):
            assert (await client.get("/runs", headers=api_key_headers(kept))).status_code == 200


async def test_a_new_key_is_valid_at_once(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_api_keys(config) as keys:
        for number in range(5):
            made = await keys.hand_out(f"team-{number}", USUAL_SCOPES)

            assert (await client.get("/runs", headers=api_key_headers(made.api_key))).status_code == 200


async def test_a_key_expires(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_api_keys(config) as keys:
        made = await keys.hand_out("team-a", USUAL_SCOPES, expires_at=time.time() + 0.3)

        await wait_for_response(client, made.api_key, 403, "ERR-PYOCO-0015")


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_without_a_broker_requests_are_unavailable_until_it_returns(
    broker: Broker, config: NatsBackendConfig, how: str
) -> None:
    key = await hand_out(config)
    unknown = key[:-3] + "abc"
    async with serving(config) as client:
        await wait_for_response(client, key, 200)

        broker.kill() if how == "killed" else broker.pause()
        try:
            for credential in (key, unknown):
                await wait_for_response(client, credential, 503, "ERR-PYOCO-0003")
            assert (await client.get("/runs")).status_code == 401
            assert (await client.get("/health")).status_code == 200
        finally:
            broker.start() if how == "killed" else broker.resume()

        await wait_for_response(client, key, 200)
        await wait_for_response(client, unknown, 403, "ERR-PYOCO-0015")


async def test_a_key_revoked_during_an_outage_is_rejected_after_it(broker: Broker, config: NatsBackendConfig) -> None:
    key = await hand_out(config)
    async with serving(config) as client:
        await wait_for_response(client, key, 200)
        broker.kill()
        await wait_for_response(client, key, 503)
        broker.start()
        key_id = key_id_in(key)
        assert key_id is not None
        async with open_api_keys(config) as keys:
            await keys.revoke(key_id)

        # The gateway may have read the keys before the revocation: its cache is valid for a second.
        await wait_for_response(client, key, 403, "ERR-PYOCO-0015")


async def test_keys_of_a_deleted_or_purged_bucket_are_invalid(config: NatsBackendConfig) -> None:
    async with serving(config) as client, await Connection.open(config) as operator:
        first = await hand_out(config)
        await wait_for_response(client, first, 200)
        await operator.api(f"$JS.API.STREAM.PURGE.{STREAM}")
        await wait_for_response(client, first, 403)

        second = await hand_out(config)
        await wait_for_response(client, second, 200)
        await operator.api(f"$JS.API.STREAM.DELETE.{STREAM}")
        await wait_for_response(client, second, 503)
        await ensure_resources(operator, config)
        await wait_for_response(client, second, 403)


async def test_an_unreadable_key_record_is_invalid_and_affects_no_other_key(config: NatsBackendConfig) -> None:
    async with serving(config) as client, await Connection.open(config) as operator:
        key = await hand_out(config)
        for number, value in enumerate((b"", b"{", b"[]", b"7", b'{"key_id": "x"}', b'{"key_id": 7, "scopes": 7}')):
            await operator.request(f"$KV.pyoco_auth.{number:016x}", value)

        assert (await client.get("/runs", headers=api_key_headers(key))).status_code == 200
