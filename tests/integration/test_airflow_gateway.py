"""A gateway whose batches run on Airflow: its start, its probes and its metrics."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_gateway
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.state import Status
from pyoco_server.domain.pdca.ids import StrategyId, run_id_of, ulid_of
from pyoco_server.services.context import GATEWAY
from pyoco_server.services.executions import cancel
from pyoco_server.services.pdca import driver
from support.airflow_double import PASSWORD, USER, AirflowDouble, Cut, Reply, airflow_double
from support.broker import Broker
from support.gateways import gateway_settings, serving, submit
from support.pdca import creation
from support.peers import unused_address
from support.polling import until


@pytest.fixture
def airflow() -> Iterator[AirflowDouble]:
    with airflow_double() as double:
        yield double


def settings(broker: Broker, folder: Path, url: str) -> NatsBackendConfig:
    return gateway_settings(broker.url, folder, airflow_url=url, airflow_user=USER, airflow_password=PASSWORD)


async def looked_at(client: httpx.AsyncClient, language: str = "en", *, until_up: bool = False) -> dict[str, Any]:
    """What `/ready` says of Airflow, as soon as the gateway has looked at it; a busy machine may need another look."""
    async with asyncio.timeout(20):
        while True:
            answer = await client.get("/ready", headers={"Accept-Language": language})
            found: dict[str, Any] = answer.json().get("airflow", {"status": "unchecked"})
            if answer.status_code == 200 and found["status"] not in ("unchecked", "down" if until_up else ""):
                return found
            await asyncio.sleep(0.01)


async def test_a_gateway_with_airflow_says_that_it_is_up_and_counts_its_requests(
    broker: Broker, tmp_path: Path, airflow: AirflowDouble
) -> None:
    async with serving(settings(broker, tmp_path, airflow.url)) as client:
        found = await looked_at(client, until_up=True)
        metrics = (await client.get("/metrics")).text

    assert found == {"status": "up"}
    assert 'airflow_adapter_requests_total{endpoint="dag",outcome="success"} 1.0' in metrics
    assert 'airflow_adapter_requests_total{endpoint="trigger",outcome="failed"} 0.0' in metrics
    assert 'airflow_adapter_circuit{state="closed"} 1.0' in metrics
    assert 'airflow_adapter_circuit{state="open"} 0.0' in metrics


async def test_a_gateway_starts_and_accepts_runs_without_its_airflow(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(settings(broker, tmp_path, unused_address())) as client:
        found = await looked_at(client)
        await submit(client)

    assert found["status"] == "down"
    assert "cannot be reached" in found["detail"]
    (record,) = [one for one in caplog.records if one.message == "batch engine is down"]
    assert record.levelno == logging.WARNING


async def test_a_paused_dag_is_an_error_at_the_start_in_the_language_of_who_asks(
    broker: Broker, tmp_path: Path, airflow: AirflowDouble, caplog: pytest.LogCaptureFixture
) -> None:
    airflow.dag = {"is_paused": True}

    async with serving(settings(broker, tmp_path, airflow.url)) as client:
        english = await looked_at(client)
        japanese = await looked_at(client, "ja")

    assert english == {
        "status": "misconfigured",
        "detail": "the DAG pdca_recheck is paused in Airflow; unpause it there",
    }
    assert re.search("一時停止", japanese["detail"])
    (record,) = [one for one in caplog.records if one.message == "batch engine is not set up"]
    assert record.levelno == logging.ERROR
    assert PASSWORD not in caplog.text


async def test_a_gateway_without_airflow_says_nothing_of_it(client: httpx.AsyncClient) -> None:
    ready, metrics = await client.get("/ready"), await client.get("/metrics")

    assert "airflow" not in ready.json()
    assert "airflow_adapter_circuit{" not in metrics.text


RECHECK_ALL = {"filter": {}, "window": {"lookback_days": 7}, "reason": "daily"}


async def ask(client: httpx.AsyncClient, key: str) -> httpx.Response:
    return await client.post("/pdca/recheck_all", json=RECHECK_ALL, headers={"Idempotency-Key": key})


async def test_a_request_is_refused_and_not_stored_while_airflow_cannot_run_it(
    broker: Broker, tmp_path: Path, airflow: AirflowDouble
) -> None:
    airflow.health["scheduler"]["status"] = "unhealthy"

    async with serving(settings(broker, tmp_path, airflow.url)) as client:
        refused = await ask(client, "0000-0001")
        runs = (await client.get("/runs")).json()
        airflow.health["scheduler"]["status"] = "healthy"
        accepted = await ask(client, "0000-0001")

    assert refused.status_code == 502
    assert refused.json()["error"] == "AIRFLOW_DOWN"
    assert runs == []
    assert accepted.status_code == 202, accepted.text


async def triggered(airflow: AirflowDouble) -> int:
    return len(airflow.runs)


async def test_batches_run_once_each_although_answers_of_airflow_are_lost(
    broker: Broker, tmp_path: Path, airflow: AirflowDouble
) -> None:
    airflow.plan("trigger", Reply(status=500, after=True), Cut(), Reply(status=500))
    airflow.plan("states", Reply(status=503), Cut())
    batches = [[StrategyId(f"strat.{number}")] for number in range(3)]

    async with asyncio.timeout(60), open_gateway(settings(broker, tmp_path, airflow.url)) as services:
        run_id = services.stores.ids.run_id()
        await services.executions.create_and_start(creation(services.stores.clock.now(), batches), run_id, GATEWAY)
        await until(partial(triggered, airflow), lambda count: count == len(batches))
        for dag_run_id, run in airflow.runs.items():
            airflow.xcoms[dag_run_id] = {"results": [{"strategy": one} for one in run["conf"]["strategies"]]}
            run["state"] = "success"
        look = partial(services.executions.look, run_id, tenant_filter=None)
        request = await until(look, lambda request: request.status.is_terminal)

    assert request.status is Status.COMPLETED
    assert sorted(airflow.runs) == [f"pyoco.{ulid_of(run_id)}.{number:04}" for number in (1, 2, 3)]


async def test_a_cancelled_request_ends_its_dag_runs(broker: Broker, tmp_path: Path, airflow: AirflowDouble) -> None:
    async with asyncio.timeout(60), open_gateway(settings(broker, tmp_path, airflow.url)) as services:
        run_id = services.stores.ids.run_id()
        await services.executions.create_and_start(creation(services.stores.clock.now()), run_id, GATEWAY)
        await until(partial(triggered, airflow), lambda count: count == 3)
        await services.executions.cancel(run_id, "no longer wanted", GATEWAY)
        look = partial(services.executions.look, run_id, tenant_filter=None)
        request = await until(look, lambda request: request.status.is_terminal)

    assert request.status is Status.CANCELED
    assert {run["state"] for run in airflow.runs.values()} == {"failed"}


async def test_dag_runs_of_a_request_that_was_cancelled_without_airflow_are_ended_when_it_is_back(
    broker: Broker, tmp_path: Path, airflow: AirflowDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "UNCONFIRMED_AFTER_GRACE_SEC", 0.1)
    monkeypatch.setattr(driver, "FIND_STOPPING_EVERY_SEC", 0.1)
    config = replace(settings(broker, tmp_path, airflow.url), cancel_grace_period_sec=0.0)

    async with asyncio.timeout(120):
        async with serving(config) as client:
            await client.put("/pdca/strategies/a", json={"title": "A", "instrument": "X"})
            request_id = (await ask(client, "0000-0001")).json()["request_id"]
            run_id = run_id_of(request_id)
            await until(partial(triggered, airflow), lambda count: count == 1)
            airflow.is_away = True
            await client.post(f"/runs/{run_id}/cancel")
            await until(partial(shown, client, f"/runs/{run_id}"), lambda run: run["status"] == "CANCELLED")
            progress = await shown(client, f"/pdca/recheck/{request_id}")
            explained = await shown(client, f"/runs/{run_id}/explain")
            in_japanese = await shown(client, f"/pdca/recheck/{request_id}", {"Accept-Language": "ja"})
            while_away = {run["state"] for run in airflow.runs.values()}
        airflow.is_away = False
        async with serving(config) as client:
            ended = await until(
                partial(shown, client, f"/runs/{run_id}"), lambda run: "pdca:stopping" not in run["tags"]
            )
            later = await shown(client, f"/pdca/recheck/{request_id}")
            explained_later = await shown(client, f"/runs/{run_id}/explain")

    assert while_away == {"queued"}
    assert progress["note"] == "canceled; its batches are stopped as soon as the engine answers"
    assert in_japanese["note"].startswith("取り消されました")
    assert explained["reasons"][0]["code"] == "cancelled_batches_stopping"
    assert {run["state"] for run in airflow.runs.values()} == {"failed"}
    assert ended["status"] == "CANCELLED"
    assert "note" not in later
    assert explained_later["reasons"][0]["code"] == "cancelled_batches_stopped"


async def shown(client: httpx.AsyncClient, path: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = await client.get(path, headers=headers)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found
