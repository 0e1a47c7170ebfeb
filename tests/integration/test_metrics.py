"""`GET /metrics` on a real broker, parsed by prometheus_client: all names, and correct values."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.http_api.api.metrics import METRICS
from pyoco_server.stores import DeadLetter
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, serving, submit, wait_for_status
from support.workers import at_work

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05, rate_limit_bulk_per_min=1)

# Nothing waits, nobody has called /pdca, and there is no Airflow.
WITHOUT_SAMPLES = (
    "pyoco_queue_oldest_age_seconds",
    "pdca_api_requests_total",
    "pdca_api_latency_ms",
    "airflow_adapter_requests_total",
    "airflow_adapter_circuit",
)


class Scrape:
    """One response by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self._values[name, tuple(sorted(labels.items()))]

    def tags(self) -> set[str]:
        return {value for _, labels in self._values for label, value in labels if label == "tag"}

    def has(self, name: str) -> bool:
        return any(sample.startswith(name) for sample, _ in self._values)


async def scrape(client: httpx.AsyncClient, headers: dict[str, str] | None = None) -> Scrape:
    response = await client.get("/metrics", headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; version=0.0.4"
    return Scrape(response.text)


async def scraped(client: httpx.AsyncClient, name: str, expected: float, **labels: str) -> Scrape:
    """Scrapes until the metric has this value."""
    async with asyncio.timeout(10.0):
        while True:
            found = await scrape(client)
            if found.value(name, **labels) == expected:
                return found
            await asyncio.sleep(0.01)


async def test_every_metric_exists_from_the_first_scrape(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        first, second = await scrape(client), await scrape(client)

    for metric in METRICS:
        name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
        assert first.families[name].type == metric.kind, metric.name
        assert first.families[name].documentation == metric.help
        assert second.has(metric.name) or metric.name in WITHOUT_SAMPLES
    assert second.value("pyoco_nats_connected") == second.value("pyoco_index_caught_up") == 1.0
    assert second.value("pyoco_index_behind") == 0.0


async def test_refusals_of_rate_limits_are_counted_by_class(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        before = await scrape(client)
        statuses = [(await client.post("/pdca/recheck_all", json={})).status_code for _ in range(3)]
        after = await scrape(client)

    assert statuses == [400, 429, 429]
    assert before.value("pyoco_rate_limited_total", **{"class": "bulk"}) == 0.0
    assert after.value("pyoco_rate_limited_total", **{"class": "bulk"}) == 2.0


async def test_metrics_reflect_the_status_changes_of_runs(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="worker") as stores:
        waiting = await submit(client, tag="gpu")
        gone = await submit(client, tag="gpu")
        await client.post(f"/runs/{gone}/cancel")
        async with at_work(stores, config) as worker:
            done = await submit(client)
            (await worker.executor.begun()).end()
            await wait_for_status(client, done, "COMPLETED")
            await wait_for_status(client, gone, "CANCELLED")
            await scraped(client, "pyoco_runs_finished_total", 1.0, status="COMPLETED")
            await scraped(client, "pyoco_workers_alive_total", 1.0)
        await stores.dead_letters.publish(DeadLetter(timestamp=1.0, reason="invalid_job"))
        await client.get(f"/runs/{waiting}")
        await client.get("/nowhere/at/all")
        await scraped(client, "pyoco_runs_finished_total", 1.0, status="CANCELLED")
        found = await scraped(client, "pyoco_workers_alive_total", 0.0)

    counts = {
        status: found.value("pyoco_runs_total", status=status) for status in ("PENDING", "COMPLETED", "CANCELLED")
    }
    assert counts == {"PENDING": 1.0, "COMPLETED": 1.0, "CANCELLED": 1.0}
    assert found.value("pyoco_dlq_messages_total") == 1.0
    assert found.value("pyoco_queue_depth", tag="gpu") == 1.0
    assert found.value("pyoco_queue_oldest_age_seconds", tag="gpu") >= 0.0
    assert found.value("pyoco_runs_submitted_total") == 3.0
    assert found.value("pyoco_queue_wait_seconds_count") == 1.0
    assert found.value("pyoco_run_duration_seconds_count", status="COMPLETED") == 1.0
    assert found.value("pyoco_cancel_latency_seconds_count", how="before_start") == 1.0
    http = "pyoco_http_request_duration_seconds_count"
    assert found.value(http, route="/runs", method="POST", status="2xx") == 3.0
    assert found.value(http, route="/runs/{run_id}", method="GET", status="2xx") >= 1.0
    assert found.value(http, route="(none)", method="GET", status="4xx") == 1.0


async def test_run_counters_continue_after_a_gateway_restart(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        await submit(client)
        await scraped(client, "pyoco_runs_submitted_total", 1.0)

    async with serving(config) as client:
        assert (await scrape(client)).value("pyoco_runs_submitted_total") == 1.0
        await submit(client)
        await scraped(client, "pyoco_runs_submitted_total", 2.0)


async def test_a_new_gateway_shows_stored_runs_and_counts_from_zero(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path
) -> None:
    async with serving(config) as client:
        await submit(client)
        other = tmp_path / "other"
        other.mkdir()
        async with serving(gateway_settings(broker.url, other)) as newcomer:
            found = await scrape(newcomer)

    assert found.value("pyoco_runs_total", status="PENDING") == 1.0
    assert found.value("pyoco_runs_submitted_total") == 0.0


async def test_a_caller_of_one_tenant_sees_its_own_runs_and_nothing_of_the_process(config: NatsBackendConfig) -> None:
    guarded = replace(config, http_auth_mode="api_key")
    keys = {tenant: api_key_headers(await hand_out(guarded, tenant)) for tenant in ("acme", "other")}
    operator = api_key_headers(await hand_out(guarded, "acme", Scope.ADMIN))
    async with serving(guarded) as client:
        for tenant in ("acme", "acme", "other"):
            body = {"flow_name": "hello", "tag": tenant}
            assert (await client.post("/runs", json=body, headers=keys[tenant])).status_code == 200
        theirs, everything = await scrape(client, keys["acme"]), await scrape(client, operator)

    assert theirs.value("pyoco_runs_total", status="PENDING") == 2.0
    assert theirs.value("pyoco_runs_submitted_total") == 2.0
    assert everything.value("pyoco_runs_total", status="PENDING") == 3.0
    assert everything.value("pyoco_queue_depth", tag="other") == 1.0
    assert "other" not in theirs.tags()
    for metric in METRICS:
        name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
        assert (name in theirs.families) is (metric.who == "everyone"), metric.name
    assert not any(name.startswith("process_") for name in theirs.families)


async def test_metrics_require_their_scope(config: NatsBackendConfig) -> None:
    guarded = replace(config, http_auth_mode="api_key")
    key = await hand_out(guarded, "acme", Scope.RUNS_READ)
    async with serving(guarded) as client:
        anonymous, unscoped = await client.get("/metrics"), await client.get("/metrics", headers=api_key_headers(key))

    assert (anonymous.status_code, anonymous.json()["err_id"]) == (401, "ERR-PYOCO-0014")
    assert (unscoped.status_code, unscoped.json()["err_id"]) == (403, "ERR-PYOCO-0036")


async def test_without_a_broker_metrics_are_unavailable(broker: Broker, config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        await submit(client)
        broker.kill()
        response = await client.get("/metrics")
        broker.start()

    assert (response.status_code, response.json()["err_id"]) == (503, "ERR-PYOCO-0003")
