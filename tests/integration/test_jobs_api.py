"""`/jobs` through the gateway on a real nats-server: submit, read, delete; equality with runs and executions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from support.broker import Broker
from support.executions import MISSING
from support.gateways import gateway_settings, serving, submit
from support.jobs import ANALYSIS, by_hand, do, events, job, refused, submit_job
from support.run_driver import RunDriver

NOT_THERE = (404, "ERR-PYOCO-0005")
INVALID = (422, "ERR-PYOCO-0002")
TOO_LARGE = (413, "ERR-PYOCO-0002")
KEY = {"Idempotency-Key": "k-1"}


@pytest.fixture
def config(shared_broker: Broker, tmp_path: Path) -> NatsBackendConfig:
    return gateway_settings(shared_broker.url, tmp_path)


@pytest_asyncio.fixture
async def driver(config: NatsBackendConfig) -> AsyncIterator[RunDriver]:
    """Sends the commands of a worker."""
    async with open_stores(config, name="worker") as stores:
        yield RunDriver(stores)


async def types(client: httpx.AsyncClient, job_id: str) -> list[str]:
    return [event["type"] for event in await events(client, job_id)]


# --- submit and read --------------------------------------------------------------------------------------------------


async def test_a_job_is_created_as_in_the_contract(client: httpx.AsyncClient) -> None:
    response = await client.post("/jobs", json=ANALYSIS)

    body = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"/jobs/{body['id']}"
    assert (body["status"], body["tags"], body["startedAt"]) == ("pending", ["urgent", "test"], None)
    created_at = datetime.fromisoformat(body["createdAt"])
    assert body["createdAt"].endswith("Z")
    assert created_at.tzinfo == UTC
    del body["warnings"]  # there is no worker
    assert (await client.get(response.headers["location"])).json() == body


async def test_a_submit_without_options_has_the_default_flow_and_tag_and_no_labels(client: httpx.AsyncClient) -> None:
    body = await job(client, await submit_job(client))

    assert body == {
        "id": body["id"],
        "status": "pending",
        "flow": "main",
        "tag": "default",
        "createdAt": body["createdAt"],
        "startedAt": None,
        "completedAt": None,
        "tags": [],
        "attempt": 0,
        "parameters": {},
    }


async def test_flow_tag_and_timeout_are_options(client: httpx.AsyncClient) -> None:
    body = await job(client, await submit_job(client, flow="etl", tag="gpu", timeout_sec=90))

    assert (body["flow"], body["tag"], body["timeoutSec"]) == ("etl", "gpu", 90.0)


async def test_the_default_flow_is_a_setting(shared_broker: Broker, tmp_path: Path) -> None:
    async with serving(gateway_settings(shared_broker.url, tmp_path, jobs_default_flow="analyse")) as client:
        body = await job(client, await submit_job(client))

    assert body["flow"] == "analyse"


async def test_a_job_is_pending_running_and_completed(client: httpx.AsyncClient, driver: RunDriver) -> None:
    completed, failed = await submit_job(client), await submit_job(client)
    await driver.start(completed)
    await driver.start(failed)
    running = await job(client, completed)
    await driver.complete(completed)
    await driver.fail(failed, "ValueError: no such file")

    ends = [await job(client, job_id) for job_id in (completed, failed)]

    assert (running["status"], running["attempt"], running["completedAt"]) == ("running", 1, None)
    assert running["createdAt"] <= running["startedAt"]
    assert [end["status"] for end in ends] == ["completed", "failed"]
    assert all(end["startedAt"] <= end["completedAt"] for end in ends)
    assert ends[1]["error"] == "ValueError: no such file"
    assert "error" not in ends[0]


async def test_a_job_is_also_a_run_and_an_execution(client: httpx.AsyncClient) -> None:
    job_id, run_id = await submit_job(client, "urgent"), await submit(client, tags=["nightly"])
    execution_id = await by_hand(client, "start")

    as_run = (await client.get(f"/runs/{job_id}")).json()
    as_execution = (await client.get(f"/executions/{job_id}")).json()
    run_as_job, execution_as_job = await job(client, run_id), await job(client, execution_id)

    assert (as_run["flow_name"], as_run["tags"], as_run["status"]) == ("main", ["urgent"], "PENDING")
    assert (as_execution["graphId"], as_execution["status"]) == ("main", "ACTIVE")
    assert (run_as_job["flow"], run_as_job["tags"], run_as_job["status"]) == ("hello", ["nightly"], "pending")
    assert (execution_as_job["flow"], execution_as_job["tag"]) == ("pair", None)
    assert (execution_as_job["status"], execution_as_job["tags"]) == ("running", [])


@pytest.mark.parametrize("job_id", [MISSING, "1234", "%F0%9F%92%A5", "x" * 500])
async def test_an_unknown_job_id_is_a_404(client: httpx.AsyncClient, job_id: str) -> None:
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/tags"):
        assert refused(await client.get(path)) == NOT_THERE


# --- once per key -----------------------------------------------------------------------------------------------------


async def test_a_repeated_submit_with_a_key_is_one_job(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "one job"}

    first, again = [await client.post("/jobs", json=ANALYSIS, headers=key) for _ in range(2)]
    other = await client.post("/jobs", json={"parameters": {}}, headers=key)

    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.text, again.headers["location"]) == (first.text, first.headers["location"])
    assert again.headers["idempotency-replayed"] == "true"
    assert refused(other) == (409, "ERR-PYOCO-0047")


async def test_a_repeated_delete_needs_a_new_key_for_the_next_effect(client: httpx.AsyncClient) -> None:
    job_id = await submit_job(client)

    responses = [await client.delete(f"/jobs/{job_id}", headers=KEY) for _ in range(3)]
    once = await types(client, job_id)
    await client.delete(f"/jobs/{job_id}", headers={"Idempotency-Key": "k-2"})

    assert [response.status_code for response in responses] == [204] * 3
    assert [response.headers.get("idempotency-replayed") for response in responses] == [None, "true", "true"]
    assert once == ["EXECUTION_CREATED", "EXECUTION_CANCEL_REQUESTED", "EXECUTION_CANCELED"]
    assert (await types(client, job_id))[3:] == ["EXECUTION_ARCHIVED"]


# --- delete -----------------------------------------------------------------------------------------------------------


async def test_deleting_a_waiting_job_cancels_it(client: httpx.AsyncClient) -> None:
    job_id = await submit_job(client)

    response = await client.delete(f"/jobs/{job_id}")

    body = await job(client, job_id)
    assert (response.status_code, response.content) == (204, b"")
    assert body["status"] == "canceled"
    assert body["createdAt"] <= body["cancelRequestedAt"] <= body["completedAt"]


async def test_a_deleted_job_is_running_until_its_worker_has_stopped(
    client: httpx.AsyncClient, driver: RunDriver
) -> None:
    job_id = await submit_job(client)
    await driver.start(job_id)

    responses = [await client.delete(f"/jobs/{job_id}") for _ in range(2)]
    stopping = await job(client, job_id)
    await driver.complete(job_id)

    assert [response.status_code for response in responses] == [204, 204]
    assert (stopping["status"], stopping["completedAt"]) == ("running", None)
    assert stopping["cancelRequestedAt"] is not None
    assert (await job(client, job_id))["status"] == "canceled"


async def test_deleting_a_finished_job_archives_it_once_and_keeps_it_readable(
    client: httpx.AsyncClient, driver: RunDriver
) -> None:
    job_id = await submit_job(client)
    await driver.start(job_id)
    await driver.complete(job_id)

    responses = [await client.delete(f"/jobs/{job_id}") for _ in range(3)]

    assert [response.status_code for response in responses] == [204] * 3
    assert (await types(client, job_id)).count("EXECUTION_ARCHIVED") == 1
    assert (await job(client, job_id))["status"] == "completed"


async def test_deleting_a_graph_execution_cancels_and_then_archives_it(client: httpx.AsyncClient) -> None:
    held = await by_hand(client, "start")
    await do(client, held, "nodes/build/start", {"workerId": "ann", "leaseSec": 60})
    done = await by_hand(client, "start")
    for node in ("build", "deploy"):
        await do(client, done, f"nodes/{node}/start")
        await do(client, done, f"nodes/{node}/success")

    for execution_id in (held, done):
        assert (await client.delete(f"/jobs/{execution_id}")).status_code == 204

    assert (await job(client, held))["cancelRequestedAt"] is not None
    assert (await types(client, done))[-1] == "EXECUTION_ARCHIVED"
    late = await client.post(f"/executions/{held}/nodes/build/success", headers={"Idempotency-Key": "late"})
    assert late.status_code == 409
    assert (await job(client, held))["status"] == "canceled"


@pytest.mark.parametrize("job_id", [MISSING, "1234", "%00", "x" * 500])
async def test_deleting_a_missing_job_succeeds(client: httpx.AsyncClient, job_id: str) -> None:
    for headers in ({}, KEY, KEY):
        assert (await client.delete(f"/jobs/{job_id}", headers=headers)).status_code == 204


async def test_a_job_that_ends_during_concurrent_deletes_is_archived_or_canceled(
    client: httpx.AsyncClient, driver: RunDriver
) -> None:
    job_id = await submit_job(client)
    await driver.start(job_id)

    end = asyncio.ensure_future(driver.complete(job_id))
    responses = await asyncio.gather(*(client.delete(f"/jobs/{job_id}") for _ in range(8)))
    await end

    assert {response.status_code for response in responses} == {204}
    seen, body = await types(client, job_id), await job(client, job_id)
    if body["status"] == "completed":
        assert seen.count("EXECUTION_ARCHIVED") == 1
    else:
        assert (body["status"], seen.count("EXECUTION_CANCEL_REQUESTED")) == ("canceled", 1)


async def test_a_delete_without_a_broker_is_a_503(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        async with serving(gateway_settings(broker.url, tmp_path)) as client:
            job_id = await submit_job(client)
            broker.kill()
            requests: list[tuple[str, str, Any]] = [
                ("POST", "/jobs", {"parameters": {}}),
                ("GET", f"/jobs/{job_id}", None),
                ("DELETE", f"/jobs/{job_id}", None),
                ("GET", f"/jobs/{job_id}/tags", None),
                ("POST", f"/jobs/{job_id}/tags", {"tag": "x"}),
                ("DELETE", f"/jobs/{job_id}/tags/x", None),
            ]
            responses = [await client.request(method, path, json=body) for method, path, body in requests]
            broker.start()

    for response in responses:
        assert refused(response) in ((503, "ERR-PYOCO-0003"), (503, "ERR-PYOCO-0004"))
        assert response.headers["retry-after"].isdigit()


# --- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"", INVALID),
        (b"{}", INVALID),
        (b"[]", INVALID),
        (b'{"parameters": []}', INVALID),
        (b'{"parameters": {}, "flow_name": "x"}', INVALID),
        (b'{"parameters": {}, "tags": ["a", 1]}', INVALID),
        (b'{"parameters": {}, "tags": ["\\u0000"]}', INVALID),
        (b'{"parameters": {}, "tags": ["\\u202e"]}', INVALID),
        (b'{"parameters": {"n": 123456789012345678901234567890}}', INVALID),
        (b'{"parameters": {"x": NaN}}', INVALID),
        (b'{"parameters": ' + b'{"a":' * 100 + b"1" + b"}" * 101, INVALID),
        (b'{"parameters": {"x": "' + b"x" * 200_000 + b'"}}', TOO_LARGE),
        (b'{"parameters": {"x": "' + b"x" * 2_000_000 + b'"}}', TOO_LARGE),
        (b'{"parameters": {"x": [' + b"0," * 200_000 + b"0]}}", TOO_LARGE),
    ],
    ids=lambda value: value[:40].decode() if isinstance(value, bytes) else "",
)
async def test_an_invalid_job_is_rejected(client: httpx.AsyncClient, content: bytes, body: tuple[int, str]) -> None:
    assert refused(await client.post("/jobs", content=content)) == body


async def test_an_unknown_query_parameter_is_rejected_with_its_name(client: httpx.AsyncClient) -> None:
    job_id = await submit_job(client)
    for method, path, body in (
        ("POST", "/jobs", {"parameters": {}}),
        ("GET", f"/jobs/{job_id}", None),
        ("DELETE", f"/jobs/{job_id}", None),
        ("GET", f"/jobs/{job_id}/tags", None),
        ("POST", f"/jobs/{job_id}/tags", {"tag": "x"}),
        ("DELETE", f"/jobs/{job_id}/tags/x", None),
    ):
        response = await client.request(method, path, params={"force": "1"}, json=body)

        assert refused(response) == INVALID
        assert "force" in response.json()["detail"]
    assert (await job(client, job_id))["status"] == "pending"
