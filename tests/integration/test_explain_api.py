"""`GET /runs/{run_id}/explain` through a gateway on a real nats-server: the reasons why a run does not progress."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.services.context import Stores
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.stores import DeadLetter
from support.gateways import serving, submit, wait_for_status
from support.runners import began, declared
from support.samples import new_run_id, worker
from support.workers import at_work

pytestmark = pytest.mark.settings(worker_heartbeat_interval_sec=0.1, run_heartbeat_interval_sec=0.1)


async def explained(client: httpx.AsyncClient, run_id: str, *codes: str, **headers: str) -> dict[str, Any]:
    """Polls the explanation until it has these reasons."""
    async with asyncio.timeout(20):
        while True:
            response = await client.get(f"/runs/{run_id}/explain", headers=headers)
            assert response.status_code == 200, response.text
            explanation: dict[str, Any] = response.json()
            if [reason["code"] for reason in explanation["reasons"]] == list(codes):
                return explanation
            await asyncio.sleep(0.01)


async def test_the_queue_length_is_omitted_while_the_index_is_built(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Indexer, "_catch_up", lambda self: None)
    async with serving(config) as client:
        run_id = await submit(client)

        response = await client.get(f"/runs/{run_id}/explain")

    assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0063")


async def test_an_unserved_tag_is_explained_with_the_served_tags(config: NatsBackendConfig, stores: Stores) -> None:
    async with serving(config) as client, at_work(stores, config, tags=("gpu-large",)):
        run_id = await submit(client, tag="gpu_large")
        explanation = await explained(client, run_id, "no_worker_for_tag", "similar_tag")

    assert explanation["status"] == "PENDING"
    assert explanation["summary"] == explanation["reasons"][0]["message"] == "No worker serves the tag gpu_large."
    assert explanation["served_tags"] == [{"tag": "gpu-large", "workers": 1, "slots": 1, "slots_busy": 0}]
    assert (
        explanation["queue"].items()
        >= {"tag": "gpu_large", "waiting": 1, "in_work": 0, "redelivered": 0, "ahead": 0}.items()
    )
    assert explanation["reasons"][1]["facts"]["similar"] == "gpu-large"


async def test_the_explanation_is_available_in_japanese(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        run_id = await submit(client)
        explanation = await explained(client, run_id, "no_worker_for_tag", **{"accept-language": "ja,en;q=0.5"})

    assert explanation["summary"] == "tag default を処理する worker がいません。"
    assert "pyoco-worker --tags default" in explanation["reasons"][0]["hint"]


async def test_a_queued_run_is_explained_with_the_number_of_runs_ahead(
    config: NatsBackendConfig, stores: Stores
) -> None:
    async with serving(config) as client, at_work(stores, config) as at:
        first = await submit(client)
        runner = await at.executor.begun()
        runner.say(declared("think"), began("think"))
        await wait_for_status(client, first, "RUNNING")
        waiting = [await submit(client) for _ in range(3)]
        await client.get("/runs")  # the index has caught up with this gateway's own writes

        explanation = await explained(client, waiting[2], "all_slots_busy")
        at_it = await explained(client, first, "running")

    assert explanation["queue"]["ahead"] == explanation["reasons"][0]["facts"]["ahead"] == 2
    assert explanation["queue"]["ahead_is_a_minimum"] is False
    assert "All 1 slots of 1 worker(s) for the tag default are busy; 2 run(s)" in explanation["summary"]
    assert at_it["worker"].items() >= {"worker_id": "w-1", "attempt": 1, "alive": True}.items()
    assert at_it["queue"]["waiting_sec"] is None


async def test_a_pending_cancel_is_explained_with_its_deadline(config: NatsBackendConfig, stores: Stores) -> None:
    patient = replace(config, cancel_grace_period_sec=5.0)
    async with serving(patient) as client, at_work(stores, patient) as at:
        run_id = await submit(client)
        runner = await at.executor.begun()
        await wait_for_status(client, run_id, "RUNNING")
        await client.post(f"/runs/{run_id}/cancel", json={"reason": "wrong data"})
        await runner.cancelled.wait()
        explanation = await explained(client, run_id, "cancel_delivered")
        runner.end("cancelled")
        await wait_for_status(client, run_id, "CANCELLED")
        ended = await explained(client, run_id, "cancelled_cooperative")

    facts = explanation["reasons"][0]["facts"]
    assert (facts["reason"], explanation["status"]) == ("wrong data", "CANCELLING")
    assert 0.0 < facts["grace_left_sec"] <= 5.0
    assert (ended["queue"], ended["served_tags"]) == (None, [])


async def test_a_failed_run_is_explained_with_its_task_and_dead_letter(
    config: NatsBackendConfig, stores: Stores
) -> None:
    async with serving(config) as client, at_work(stores, config) as at:
        run_id = await submit(client)
        (await at.executor.begun()).end("flow_not_found")
        await wait_for_status(client, run_id, "FAILED")
        await stores.dead_letters.publish(DeadLetter(timestamp=1.0, reason="execution_error", run_id=new_run_id()))
        async with asyncio.timeout(10):
            while not (explanation := await explained(client, run_id, "flow_not_found"))["dead_letter"]:
                pass

    assert explanation["summary"] == "The worker w-1 has no flow named hello."
    assert explanation["reasons"][0]["facts"]["err_id"] == "ERR-PYOCO-0006"
    assert explanation["dead_letter"]["reason"] == "flow_not_found"
    assert "error" not in explanation["dead_letter"]


async def test_a_completed_run_has_nothing_to_explain(config: NatsBackendConfig, stores: Stores) -> None:
    async with serving(config) as client, at_work(stores, config) as at:
        run_id = await submit(client)
        (await at.executor.begun()).end()
        await wait_for_status(client, run_id, "COMPLETED")
        explanation = await explained(client, run_id, "completed")

    assert explanation["reasons"][0]["hint"] == "Nothing to do."


async def test_lost_workers_are_named(config: NatsBackendConfig, stores: Stores) -> None:
    stopped = replace(worker("w-old", last_seen_at=stores.clock.now()), stopped_at=1.0, stop_reason="SIGTERM")
    await stores.registry.put(stopped)
    async with serving(config) as client:
        explanation = await explained(client, await submit(client), "workers_for_tag_are_gone")

    assert explanation["reasons"][0]["facts"]["last_worker"] == "w-old"
    assert "w-old, is STOPPED_GRACEFUL" in explanation["summary"]


@pytest.mark.parametrize("run_id", ["0190a5b2-7c4e-7abc-8def-0123456789ab", "not-an-id"])
async def test_a_run_that_does_not_exist_cannot_be_explained(config: NatsBackendConfig, run_id: str) -> None:
    async with serving(config) as client:
        response = await client.get(f"/runs/{run_id}/explain")

    assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0005")
