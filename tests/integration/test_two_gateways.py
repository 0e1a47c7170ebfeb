"""Two gateways on one broker: operations started at one continue at the other, also after the first stops."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.bootstrap import open_gateway, open_stores
from pyoco_server.config import NatsBackendConfig
from support.broker import Broker
from support.gateways import gateway_settings, listed, serving, submit, wait_for_status
from support.runs import until
from support.streams import listening, until_status, watching
from support.workers import at_work

QUICK = {"run_heartbeat_interval_sec": 0.05, "cancel_grace_period_sec": 0.2}


@pytest.fixture
def ours(broker: Broker, tmp_path: Path) -> NatsBackendConfig:
    return gateway_settings(broker.url, tmp_path / "ours", **QUICK)


@pytest.fixture
def theirs(broker: Broker, tmp_path: Path) -> NatsBackendConfig:
    return gateway_settings(broker.url, tmp_path / "theirs", **QUICK)


async def test_a_run_is_listed_watched_explained_and_cancelled_at_another_gateway(
    ours: NatsBackendConfig, theirs: NatsBackendConfig
) -> None:
    async with listening(theirs) as other:
        async with serving(ours) as client:
            run_id = await submit(client, tag="blue", tags=["nightly"])
        await listed(other.client, [run_id], tag="blue", tags="nightly")
        async with (
            open_stores(ours, name="worker") as stores,
            at_work(stores, ours, tags=("blue",)) as worker,
            watching(other.client, run_id) as events,
        ):
            await worker.executor.begun()
            await until_status(events, "RUNNING")
            explanation = (await other.client.get(f"/runs/{run_id}/explain")).json()
            response = (await other.client.post(f"/runs/{run_id}/cancel", json={"reason": "wrong input"})).json()
            (*_, end) = await until_status(events, "CANCELLED")

    assert explanation["status"] == "RUNNING"
    assert response["status"] == "CANCELLING"
    assert end.data["snapshot"]["cancel"]["reason"] == "wrong input"


async def test_pages_continue_at_another_gateway(ours: NatsBackendConfig, theirs: NatsBackendConfig) -> None:
    async with serving(theirs) as other:
        async with serving(ours) as client:
            run_ids = [await submit(client) for _ in range(5)]
            first = (await client.get("/runs", params={"cursor": "", "limit": 2})).json()
        await listed(other, list(reversed(run_ids)))
        shown, cursor = first["items"], first["next_cursor"]
        while cursor is not None:
            page = (await other.get("/runs", params={"cursor": cursor, "limit": 2})).json()
            shown, cursor = shown + page["items"], page["next_cursor"]

    assert sorted(item["run_id"] for item in shown) == sorted(run_ids)


async def test_concurrent_cancels_at_two_gateways_are_one_cancel(
    ours: NatsBackendConfig, theirs: NatsBackendConfig
) -> None:
    async with serving(ours) as client, serving(theirs) as other:
        run_id = await submit(client)

        responses = await asyncio.gather(*(one.post(f"/runs/{run_id}/cancel") for one in (client, other)))
        shown = [await wait_for_status(one, run_id, "CANCELLED") for one in (client, other)]

    assert [response.status_code for response in responses] == [200, 200]
    assert shown[0]["cancel"] == shown[1]["cancel"]


async def test_gateways_know_each_other_until_one_stops(ours: NatsBackendConfig, theirs: NatsBackendConfig) -> None:
    async with open_gateway(ours) as first:
        async with open_gateway(theirs) as second:
            await until(lambda: first.roster.size == second.roster.size == 2)
            owners = [first.roster.owns("run") for _ in range(2)] + [second.roster.owns("run")]
        await until(lambda: first.roster.size == 1)

    assert sorted(owners[1:]) == [False, True]


async def test_gateways_with_other_names_on_the_same_broker_are_not_of_the_same_roster(
    ours: NatsBackendConfig, theirs: NatsBackendConfig
) -> None:
    other = replace(
        theirs, stored_subject_prefix="other.stored", events_stream="OTHER", events_subject_prefix="other.events",
        logs_stream="OTHER_LOGS", logs_subject_prefix="other.logs",
    )  # fmt: skip
    async with open_gateway(ours) as first, open_gateway(other) as second, open_gateway(theirs) as third:
        await until(lambda: first.roster.size == 2)

        assert second.roster.size == 1
        assert third.roster.live() == first.roster.live()
