"""Requests for rechecks over HTTP, on a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import artifact_id, run_id_of, ulid_of
from pyoco_server.errors import EngineDown
from pyoco_server.ports.pdca import StoredArtifact
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.pdca.flow_engine import FlowEngine
from support.broker import Broker
from support.flow_files import TWO_TASKS
from support.gateways import gateway_settings, serving
from support.rechecks import BODY, BODY_FOR_ALL, ONE, key, register, services_behind

KEY = {"Idempotency-Key": "01J8TPZ7YJ1E1X4C5N9ZP3M3QJ"}
REPORT = StoredArtifact(media_type="text/markdown", data=b"# Report\n")


@pytest.fixture
async def pdca(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client of a gateway that knows one strategy."""
    await register(services_behind(client), ONE)
    return client


async def asked(client: httpx.AsyncClient, **changed: Any) -> str:
    """The id of a new request."""
    response = await client.post("/pdca/recheck", json={**BODY, **changed}, headers=key())
    assert response.status_code == 202, response.text
    request_id: str = response.json()["request_id"]
    return request_id


async def status_of(client: httpx.AsyncClient, request_id: str, wanted: str) -> dict[str, Any]:
    """The request as soon as it has this status."""
    async with asyncio.timeout(20.0):
        while True:
            shown: dict[str, Any] = (await client.get(f"/pdca/recheck/{request_id}")).json()
            if shown["status"] == wanted:
                return shown
            await asyncio.sleep(0.01)


def error_of(response: httpx.Response) -> tuple[int, str]:
    assert set(response.json()) == {"error", "message"}, response.text
    return response.status_code, response.json()["error"]


async def test_a_request_is_one_execution_in_every_api(pdca: httpx.AsyncClient) -> None:
    response = await pdca.post("/pdca/recheck", json=BODY, headers=KEY)

    accepted = response.json()
    run_id = run_id_of(accepted["request_id"])
    assert (response.status_code, accepted["status"]) == (202, "accepted")
    assert accepted["estimated"] == {"strategies": 1, "batches": 1}
    assert accepted["dag"]["name"] == "pdca.recheck"
    run = (await pdca.get(f"/runs/{run_id}")).json()
    assert (run["flow_name"], run["status"], list(run["tasks"])) == ("pdca.request", "RUNNING", ["batch-0001"])
    assert run["params"]["client_id"] == "anonymous"
    assert (await pdca.get(f"/executions/{run_id}")).json()["graphId"] == "pdca.request"
    assert (await pdca.get(f"/jobs/{run_id}/tags")).json() == ["pdca", f"pdca:{accepted['request_id']}"]


async def test_the_progress_of_a_request_adds_up(pdca: httpx.AsyncClient) -> None:
    request_id = await asked(pdca)

    shown = (await pdca.get(f"/pdca/recheck/{request_id}")).json()

    assert shown["request_id"] == request_id
    assert shown["status"] == "running"
    assert shown["progress"] == {
        "total_batches": 1,
        "completed_batches": 0,
        "total_strategies": 1,
        "completed_strategies": 0,
    }
    assert shown["summary"] == {"success": 0, "failed": 0, "health": {"healthy": 0, "degraded": 0, "unknown": 0}}
    assert (await pdca.get(f"/gui/requests/{request_id.lower()}")).json()["request_id"] == request_id


async def test_a_repeat_is_answered_with_the_same_request(pdca: httpx.AsyncClient) -> None:
    first = await pdca.post("/pdca/recheck", json=BODY, headers=KEY)
    again = await pdca.post("/pdca/recheck", json={**BODY, "trace_id": "another"}, headers=KEY)
    other = await pdca.post("/pdca/recheck", json={**BODY, "reason": "other"}, headers=KEY)

    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert error_of(other) == (409, "IDEMPOTENCY_CONFLICT")


async def test_a_dry_run_is_only_estimated(pdca: httpx.AsyncClient) -> None:
    dry = {**BODY, "dry_run": True}
    first = await pdca.post("/pdca/recheck", json=dry, headers=KEY)
    again = await pdca.post("/pdca/recheck", json=dry, headers=KEY)

    assert (first.status_code, first.json()["estimated"]) == (202, {"strategies": 1, "batches": 1})
    assert again.json() == first.json()
    assert error_of(await pdca.get(f"/pdca/recheck/{first.json()['request_id']}")) == (404, "NOT_FOUND")
    assert (await pdca.get("/runs")).json() == []


async def test_a_filter_chooses_enabled_strategies_in_batches(pdca: httpx.AsyncClient) -> None:
    services = services_behind(pdca)
    await register(services, *(f"daily.{place:02}" for place in range(25)), tags=("daily",))
    await register(services, "daily.off", tags=("daily",), enabled=False)
    body = {**BODY_FOR_ALL, "filter": {"tags_any": ["daily"], "health": ["unknown"]}, "batch_size": 10}

    chosen = await pdca.post("/pdca/recheck_all", json=body, headers=key())
    none = await pdca.post("/pdca/recheck_all", json={**body, "filter": {"tags_any": ["x"]}}, headers=key())

    assert chosen.json()["estimated"] == {"strategies": 25, "batches": 3}
    assert (none.status_code, none.json()["estimated"]) == (202, {"strategies": 0, "batches": 0})
    shown = await status_of(pdca, none.json()["request_id"], "success")
    assert (shown["progress"]["total_batches"], shown["dag"]["run_ids"]) == (0, [])


async def test_strategies_that_cannot_be_checked_are_refused_by_name_and_nothing_is_stored(
    pdca: httpx.AsyncClient,
) -> None:
    await register(services_behind(pdca), "off", enabled=False)

    for strategies, expected in ((["nowhere"], (404, "NOT_FOUND")), (["off"], (400, "BAD_REQUEST"))):
        for dry_run in (True, False):
            body = {**BODY, "strategies": [ONE, *strategies], "dry_run": dry_run}
            response = await pdca.post("/pdca/recheck", json=body, headers=key())
            assert error_of(response) == expected
            assert strategies[0] in response.json()["message"]
    assert (await pdca.get("/runs")).json() == []


async def test_nothing_is_stored_while_the_engine_is_down(
    pdca: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(_: object) -> None:
        raise EngineDown("http://admin:secret@airflow:8080")

    with monkeypatch.context() as patch:
        patch.setattr(FlowEngine, "check", down)
        response = await pdca.post("/pdca/recheck", json=BODY, headers=KEY)
        runs = (await pdca.get("/runs")).json()
    later = await pdca.post("/pdca/recheck", json=BODY, headers=KEY)

    assert error_of(response) == (502, "AIRFLOW_DOWN")
    assert "secret" not in response.text
    assert runs == []
    assert later.status_code == 202


async def test_a_cancelled_request_has_failed(pdca: httpx.AsyncClient) -> None:
    request_id = await asked(pdca)

    await pdca.post(f"/runs/{run_id_of(request_id)}/cancel")

    shown = await status_of(pdca, request_id, "failed")
    assert shown["progress"]["total_batches"] == 1


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "1234567"}, {"Idempotency-Key": "x" * 65}])
async def test_a_request_needs_an_idempotency_key_of_8_to_64_characters(
    pdca: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    response = await pdca.post("/pdca/recheck", json=BODY, headers=headers)

    assert error_of(response) == (400, "BAD_REQUEST")
    assert "8 to 64" in response.json()["message"]


NO_ULIDS = ("x", "01J8TPZ7YJ1E1X4C5N9ZP3M3Q", "81J8TPZ7YJ1E1X4C5N9ZP3M3QJ", "%00", "01J8TPZ7YJ1E1X4C5N9ZP3M3Qé")


@pytest.mark.parametrize("text", NO_ULIDS)
async def test_an_id_that_is_no_ulid_is_an_unknown_request(pdca: httpx.AsyncClient, text: str) -> None:
    for path in ("/pdca/recheck", "/gui/requests"):
        assert error_of(await pdca.get(f"{path}/{text}")) == (404, "NOT_FOUND")


async def test_another_run_is_no_request(pdca: httpx.AsyncClient) -> None:
    run_id = (await pdca.post("/runs", json={"flow_name": "hello"})).json()["run_id"]

    assert error_of(await pdca.get(f"/pdca/recheck/{ulid_of(run_id)}")) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("command", "body"),
    [
        ("nodes/foo/start", {"attempt": 1}),
        ("nodes/batch-9999/start", {"attempt": 1}),
        ("nodes/batch-0001/start", {"attempt": 2}),
        ("nodes/batch-0001/success", {"attempt": 1, "output": {"results": []}}),
        ("nodes/batch-0001/fail", {"attempt": 1, "error": {"code": "X", "message": "x"}}),
        ("complete", {}),
        ("fail", {"error": {"code": "X", "message": "x"}}),
    ],
)
async def test_the_batches_of_a_request_are_the_engines(
    pdca: httpx.AsyncClient, command: str, body: dict[str, Any]
) -> None:
    request_id = await asked(pdca)
    execution = f"/executions/{run_id_of(request_id)}"

    answer = await pdca.post(f"{execution}/{command}", json=body, headers=key())

    assert answer.status_code == 409, answer.text
    assert (await pdca.get(f"/pdca/recheck/{request_id}")).json()["status"] == "running"
    await pdca.post(f"{execution}/cancel", json={}, headers=key())
    assert (await status_of(pdca, request_id, "failed"))["progress"]["completed_batches"] == 1


async def test_nothing_else_has_the_name_of_a_request(pdca: httpx.AsyncClient) -> None:
    name = "pdca.request"
    file = {"workflow": ("flow.yaml", TWO_TASKS)}

    answers = [
        await pdca.post("/runs", json={"flow_name": name}),
        await pdca.post("/runs/yaml", files=file, data={"flow_name": name}),
        await pdca.post("/jobs", json={"flow": name, "parameters": {}}, headers=key()),
        await pdca.post("/executions", json={"graphId": name}, headers=key()),
    ]

    assert [answer.status_code for answer in answers] == [422] * 4
    assert all("choose another one" in answer.text for answer in answers)
    assert (await pdca.get("/runs")).json() == []


async def test_without_a_broker_a_request_is_answered_in_time(pdca: httpx.AsyncClient, broker: Broker) -> None:
    broker.kill()

    async with asyncio.timeout(10.0):
        response = await pdca.post("/pdca/recheck", json=BODY, headers=KEY)

    assert error_of(response) == (500, "INTERNAL_ERROR")
    assert response.headers["retry-after"]


@pytest.mark.parametrize("retries", [True, False])
async def test_a_request_whose_gateway_is_killed_between_create_and_start_is_carried_out(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: bool
) -> None:
    stopped = asyncio.Event()

    async def hang(*_: object) -> None:
        stopped.set()
        await asyncio.Event().wait()

    async with serving(config) as killed:
        await register(services_behind(killed), ONE)
        with monkeypatch.context() as patch:
            # Neither its route nor its driver gets behind the creation.
            patch.setattr(ExecutionService, "start", hang)
            patch.setattr(ExecutionService, "command", hang)
            asking = asyncio.create_task(killed.post("/pdca/recheck", json=BODY, headers=KEY))
            await stopped.wait()
            asking.cancel()
            await asyncio.wait([asking])

    async with serving(gateway_settings(broker.url, tmp_path, index_path=str(tmp_path / "other.sqlite"))) as other:
        if retries:
            again = await other.post("/pdca/recheck", json=BODY, headers=KEY)
            assert (again.status_code, again.json()["estimated"]) == (202, {"strategies": 1, "batches": 1})
        async with asyncio.timeout(20.0):
            while True:
                runs = [run for run in (await other.get("/runs")).json() if run["status"] == "RUNNING"]
                if runs:
                    break
                await asyncio.sleep(0.01)

    assert [run["flow_name"] for run in runs] == ["pdca.request"]


async def test_a_link_of_one_gateway_leads_to_the_artifact_on_another(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path
) -> None:
    second = gateway_settings(broker.url, tmp_path, index_path=str(tmp_path / "other.sqlite"))
    async with serving(config) as one, serving(second) as other:
        await register(services_behind(one), ONE)
        artifact = artifact_id(run_id_of(await asked(one)), 1, 1)
        async with open_stores(config, name="test") as stores:
            await stores.artifacts.put(artifact, REPORT)

        links = [(await client.get(f"/gui/artifacts/{artifact}/url")).json() for client in (one, other)]
        files = [await client.get(link["url"]) for client in (one, other) for link in links]

    assert len({link["url"].partition("key=")[2][:8] for link in links}) == 1
    assert [file.content for file in files] == [REPORT.data] * 4
    headers = files[0].headers
    assert headers["content-type"].startswith("text/markdown")
    assert headers["content-disposition"] == f'attachment; filename="{artifact}.md"'
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "private, no-store")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "sandbox" in headers["content-security-policy"]


async def test_a_link_that_was_changed_or_is_missing_its_signature_leads_nowhere(pdca: httpx.AsyncClient) -> None:
    artifact = artifact_id(RunId(run_id_of(await asked(pdca))), 1, 1)
    await services_behind(pdca).stores.artifacts.put(artifact, REPORT)
    url: str = (await pdca.get(f"/gui/artifacts/{artifact}/url")).json()["url"]

    assert error_of(await pdca.get(url[:-1] + ("A" if url[-1] != "A" else "B"))) == (403, "FORBIDDEN")
    assert error_of(await pdca.get(url.replace("expires=", "expires=1"))) == (403, "FORBIDDEN")
    assert error_of(await pdca.get(f"/gui/artifacts/{artifact}")) == (400, "BAD_REQUEST")
    assert error_of(await pdca.get("/gui/artifacts/nothing/url")) == (404, "NOT_FOUND")
