"""Tickets for the WebSocket of a job, at real gateways: one use, one job, no longer valid than their key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from pyoco_server.bootstrap import open_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import key_id_in
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId
from pyoco_server.services.auth import tickets
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, submit
from support.samples import new_run_id
from support.sockets import joined, next_frame, send, to_the_close
from support.streams import Gateway, listening

pytestmark = pytest.mark.settings(http_auth_mode="api_key")


@pytest_asyncio.fixture
async def key(config: NatsBackendConfig) -> str:
    return await hand_out(config)


@pytest_asyncio.fixture
async def gateway(config: NatsBackendConfig, key: str) -> AsyncIterator[Gateway]:
    async with listening(config) as listens:
        listens.client.headers.update(api_key_headers(key))
        yield listens


async def ticket_for(gateway: Gateway, run_id: str, **headers: Any) -> str:
    response = await gateway.client.post(f"/jobs/{run_id}/ws-ticket", headers=headers)
    assert response.status_code == 201, response.text
    ticket: str = response.json()["ticket"]
    return ticket


async def code(gateway: Gateway, run_id: str, **query: Any) -> int:
    async with joined(gateway, run_id, **query) as socket:
        return (await to_the_close(socket))[1]


async def test_a_ticket_is_valid_once(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    response = await gateway.client.post(f"/jobs/{run_id}/ws-ticket")
    body = response.json()

    async with connect(f"ws://127.0.0.1:{gateway.port}{body['url']}", proxy=None) as socket:
        assert (await next_frame(socket, "status"))["job"]["id"] == run_id
        await send(socket, type="cancel")
        assert (await to_the_close(socket))[0][-1]["status"] == "canceled"

    assert response.headers["cache-control"] == "no-store"
    assert set(body) == {"ticket", "expiresAt", "url"}
    assert body["expiresAt"].endswith("Z")
    assert await code(gateway, run_id, ticket=body["ticket"]) == 4401
    run = (await gateway.client.get(f"/runs/{run_id}")).json()
    assert run["cancel"]["requested_by"] == run["api_key_id"]


async def test_a_ticket_is_valid_for_any_spelling_of_the_job_id(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    ticket = await ticket_for(gateway, run_id)

    url = f"ws://127.0.0.1:{gateway.port}/jobs/{run_id.upper()}/ws?ticket={ticket}"
    async with connect(url, proxy=None) as socket:
        assert (await next_frame(socket, "status"))["job"]["id"] == run_id


async def test_a_ticket_is_valid_at_any_one_gateway(gateway: Gateway, broker: Broker, tmp_path: Path) -> None:
    run_id = await submit(gateway.client)
    ticket = await ticket_for(gateway, run_id)
    (tmp_path / "other").mkdir()
    settings = gateway_settings(broker.url, tmp_path / "other", http_auth_mode="api_key")

    async def outcome_of(where: Gateway) -> str:
        async with joined(where, run_id, ticket=ticket, logs="false") as socket:
            frames, closed = await to_the_close(socket)
            return str(frames[-1]["type"]) if closed == 1000 else str(closed)

    async with listening(settings) as other:
        await gateway.client.post(f"/runs/{run_id}/cancel")
        assert sorted(await asyncio.gather(*(outcome_of(one) for one in (gateway, other)))) == ["4401", "end"]


async def test_a_ticket_is_valid_for_its_job_and_a_short_time(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, another = await submit(gateway.client), await submit(gateway.client)

    assert await code(gateway, another, ticket=await ticket_for(gateway, run_id)) == 4401
    monkeypatch.setattr(tickets, "TICKET_SEC", -1.0)
    assert await code(gateway, run_id, ticket=await ticket_for(gateway, run_id)) == 4401


async def test_a_ticket_together_with_a_header_is_rejected(gateway: Gateway, key: str) -> None:
    run_id = await submit(gateway.client)
    ticket = await ticket_for(gateway, run_id)

    assert await code(gateway, run_id, ticket=ticket, headers=api_key_headers(key)) == 4401
    assert await code(gateway, run_id, ticket=[ticket, ticket]) == 4401


async def test_a_ticket_has_the_scopes_of_its_requester(gateway: Gateway, config: NatsBackendConfig) -> None:
    run_id = await submit(gateway.client)
    reader = await hand_out(config, "team-a", Scope.RUNS_READ)

    async with joined(gateway, run_id, ticket=await ticket_for(gateway, run_id, **api_key_headers(reader))) as socket:
        await send(socket, type="cancel")
        assert (await next_frame(socket, "error"))["code"] == "FORBIDDEN"


async def test_a_ticket_requires_access_to_the_job(gateway: Gateway, config: NatsBackendConfig) -> None:
    run_id, others = await submit(gateway.client), await hand_out(config, "team-b")
    writer = await hand_out(config, "team-a", Scope.RUNS_WRITE)

    async def status(job_id: str, **headers: str) -> int:
        return (await gateway.client.post(f"/jobs/{job_id}/ws-ticket", headers=headers)).status_code

    assert await status(run_id, **api_key_headers(others)) == 404
    assert await status(run_id, **api_key_headers(writer)) == 403
    assert await status(run_id, **api_key_headers("nonsense")) == 401
    assert await status(str(new_run_id())) == 404
    assert (await gateway.client.post(f"/jobs/{run_id}/ws-ticket?for=ever")).status_code == 422


async def test_a_socket_with_a_ticket_is_closed_when_the_key_is_revoked(
    gateway: Gateway, config: NatsBackendConfig, key: str
) -> None:
    run_id, kept = await submit(gateway.client), await hand_out(config)
    leaving = joined(gateway, run_id, ticket=await ticket_for(gateway, run_id))
    staying = joined(gateway, run_id, ticket=await ticket_for(gateway, run_id, **api_key_headers(kept)))
    async with leaving as socket, staying as other, open_api_keys(config) as keys:
        await next_frame(socket, "status")
        revoked = key_id_in(key)
        assert revoked is not None

        await keys.revoke(revoked)

        assert (await to_the_close(socket))[1] == 4401
        await send(other, type="ping")
        await next_frame(other, "pong")


async def test_a_ticket_of_a_revoked_key_is_invalid(gateway: Gateway, config: NatsBackendConfig, key: str) -> None:
    run_id = await submit(gateway.client)
    ticket, revoked = await ticket_for(gateway, run_id), key_id_in(key)
    assert revoked is not None
    async with open_api_keys(config) as keys:
        await keys.revoke(revoked)

    assert await code(gateway, run_id, ticket=ticket) == 4401


async def test_no_ticket_is_in_a_log_line(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    run_id = await submit(gateway.client)
    with caplog.at_level(logging.DEBUG):
        ticket = await ticket_for(gateway, run_id)
        async with joined(gateway, run_id, ticket=ticket) as socket:
            await next_frame(socket, "status")
        assert await code(gateway, run_id, ticket=ticket) == 4401

    ours = [record for record in caplog.records if not record.name.startswith("websockets.client")]
    assert ours
    assert not [record for record in ours if ticket in str(vars(record))]


async def test_without_access_control_a_ticket_is_available_and_optional(broker: Broker, tmp_path: Path) -> None:
    async with listening(gateway_settings(broker.url, tmp_path)) as gateway:
        run_id = RunId(await submit(gateway.client))
        ticket = await ticket_for(gateway, run_id)
        for run in (ticket, ticket, "nonsense", ""):
            async with joined(gateway, run_id, ticket=run) as socket:
                assert (await next_frame(socket, "status"))["job"]["id"] == run_id
