"""The endpoints of `/runs` through the gateway on a real nats-server, without a worker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from pyoco_server import __version__
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from support.broker import Broker
from support.gateways import gateway_settings, listed, serving, submit
from support.run_driver import RunDriver
from support.runners import began, declared, succeeded

# --- health and submit ------------------------------------------------------------------------------------------------


async def test_health_reports_a_connected_broker(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        response = await client.get("/health")

    assert response.status_code == 200
    assert response.json() == {"status": "ok", "nats": "connected", "version": __version__}


async def test_a_submitted_run_is_readable_at_once_with_every_field_of_the_contract(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        accepted = (await client.post("/runs", json={"flow_name": "hello", "params": {"深": [1, None]}})).json()
        run = (await client.get(f"/runs/{accepted['run_id']}")).json()

    del accepted["warnings"]  # there is no worker
    assert accepted == {"run_id": run["run_id"], "status": "PENDING", "durability": "buffered"}
    assert (run["flow_name"], run["status"], run["params"]) == ("hello", "PENDING", {"深": [1, None]})
    assert (run["tag"], run["tags"], run["tasks"]) == ("default", ["default"], {})
    assert run["heartbeat_at"] == run["updated_at"] == run["submitted_at"]
    assert {"state", "task_records"}.isdisjoint(run)


async def test_response_and_event_have_the_correlation_id(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="test") as stores:
        response = await client.post("/runs", json={"flow_name": "hello"}, headers={"X-Correlation-Id": "ticket-4711"})
        (stored,) = await stores.events.read(RunId(response.json()["run_id"]))
        unasked = await client.get("/health")

    assert response.headers["x-correlation-id"] == "ticket-4711"
    assert stored.commit.correlation_id == "ticket-4711"
    assert unasked.headers["x-correlation-id"] == unasked.headers["x-request-id"]


UNKNOWN = "018f0000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "err_id"),
    [
        ("POST", "/runs", b"", 422, "ERR-PYOCO-0002"),
        ("POST", "/runs", b"{", 422, "ERR-PYOCO-0002"),
        ("POST", "/runs", b'{"flow_name": ""}', 422, "ERR-PYOCO-0002"),
        ("POST", "/runs", b'{"flow_name": "f", "tag": "a.b"}', 422, "ERR-PYOCO-0002"),
        ("POST", "/runs", b'{"flow_name": "f", "params": {"n": NaN}}', 422, "ERR-PYOCO-0002"),
        ("POST", "/runs", b'{"flow_name": "f", "params": {"n": 99999999999999999999}}', 422, "ERR-PYOCO-0002"),
        ("POST", "/runs", b'{"flow_name": "f", "parms": {}}', 422, "ERR-PYOCO-0002"),
        ("POST", "/runs", b'{"flow_name": "f", "params": {"x": "' + b"a" * 131_072 + b'"}}', 413, "ERR-PYOCO-0002"),
        ("POST", "/runs", b" " * (1024 * 1024 + 1), 413, "ERR-PYOCO-0002"),
        ("GET", "/runs?limit=0", b"", 422, "ERR-PYOCO-0017"),
        ("GET", "/runs?limit=201", b"", 422, "ERR-PYOCO-0017"),
        ("GET", "/runs?limit=many", b"", 422, "ERR-PYOCO-0017"),
        ("GET", "/runs?status=DONE", b"", 422, "ERR-PYOCO-0017"),
        ("GET", "/runs?include=everything", b"", 422, "ERR-PYOCO-0017"),
        ("GET", "/runs/no-such-run", b"", 404, "ERR-PYOCO-0005"),
        ("GET", f"/runs/{UNKNOWN}", b"", 404, "ERR-PYOCO-0005"),
        ("GET", f"/runs/{UNKNOWN}?include=everything", b"", 422, "ERR-PYOCO-0002"),
        ("GET", f"/runs/{UNKNOWN}/tasks", b"", 404, "ERR-PYOCO-0005"),
        ("GET", "/runs/..%2F..%2Fhealth/tasks", b"", 404, None),
        ("POST", f"/runs/{UNKNOWN}/cancel", b"", 404, "ERR-PYOCO-0005"),
        ("POST", "/runs/no-such-run/cancel", b"", 404, "ERR-PYOCO-0005"),
        ("POST", f"/runs/{UNKNOWN}/cancel", b'{"reason": 7}', 422, "ERR-PYOCO-0002"),
        ("GET", "/nowhere", b"", 404, "ERR-PYOCO-0033"),
        ("DELETE", "/runs", b"", 405, "ERR-PYOCO-0002"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_invalid_request_gets_the_error_ids_of_the_contract(
    client: httpx.AsyncClient, method: str, path: str, body: bytes, status: int, err_id: str | None
) -> None:
    response = await client.request(method, path, content=body)

    assert response.status_code == status
    error = response.json()
    assert error.keys() == {"detail", "err_id", "msg_id", "message", "hint"}
    assert err_id in (None, error["err_id"])
    assert error["msg_id"].removeprefix("MSG") == error["err_id"].removeprefix("ERR")
    assert response.headers["x-request-id"]


async def test_a_rejected_submit_leaves_no_run(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        await client.post("/runs", json={"flow_name": ""})

        assert (await client.get("/runs")).json() == []


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_task_states_are_returned_and_records_on_request(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="test") as stores:
        driver = RunDriver(stores)
        run_id = await submit(client)
        await driver.start(run_id)
        await driver.record(
            run_id, declared("load", "save"), began("load"), succeeded("load", {"rows": 2}), began("save")
        )
        plain = (await client.get(f"/runs/{run_id}")).json()
        tasks = (await client.get(f"/runs/{run_id}/tasks")).json()
        included = [(await client.get(f"/runs/{run_id}?include={word}")).json() for word in ("records", "full", "all")]

    assert (plain["status"], plain["tasks"]) == ("RUNNING", {"load": "SUCCEEDED", "save": "RUNNING"})
    assert (plain["worker_id"], plain["attempt"]) == ("w-1", 1)
    assert "task_records" not in plain
    assert tasks.keys() == {"run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated"}
    assert tasks["task_records"]["load"]["output"] == {"rows": 2}
    assert tasks["task_records"]["save"]["state"] == "RUNNING"
    assert all(one["task_records"] == tasks["task_records"] for one in included)


async def test_a_failed_run_has_its_error(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="test") as stores:
        run_id = await submit(client)
        await RunDriver(stores).start(run_id)
        await RunDriver(stores).fail(run_id, "ValueError: no such file")
        run = (await client.get(f"/runs/{run_id}")).json()

    assert (run["status"], run["error"]) == ("FAILED", "ValueError: no such file")
    assert run["end_time"] >= run["start_time"] >= run["submitted_at"]


# --- listing ----------------------------------------------------------------------------------------------------------


async def test_a_list_contains_the_own_writes_newest_first(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        for _ in range(20):
            run_id = await submit(client)
            listed = (await client.get("/runs", params={"limit": 1})).json()
            assert [one["run_id"] for one in listed] == [run_id]
        everything = (await client.get("/runs")).json()

    changed = [one["updated_at"] for one in everything]
    assert changed == sorted(changed, reverse=True)
    assert len(everything) == 20


async def test_a_list_of_another_gateway_soon_contains_a_write(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path
) -> None:
    other = gateway_settings(broker.url, tmp_path, index_path=str(tmp_path / "other.sqlite"))
    async with serving(config) as client, serving(other) as second:
        run_id = await submit(client)
        await listed(second, [run_id])


async def test_a_list_is_filtered_by_status_flow_and_tag(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="test") as stores:
        hello, etl = await submit(client, "hello"), await submit(client, "etl", tag="gpu")
        await RunDriver(stores).start(etl)
        await RunDriver(stores).complete(etl)

        await listed(client, [etl], status="COMPLETED")
        await listed(client, [hello], status="PENDING")
        await listed(client, [hello], flow="hello")
        await listed(client, [etl], tag="gpu")
        await listed(client, [], tag="gpu", status="PENDING")
        await listed(client, [], flow="e' OR 1=1 --")


async def test_a_list_item_is_a_summary_by_default(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        run_id = await submit(client, params={"n": 1})
        (summary,) = (await client.get("/runs")).json()
        (whole,) = (await client.get("/runs?include=full")).json()

    assert summary.keys() >= {"run_id", "status", "updated_at", "flow_name", "tag", "tags"}
    assert "params" not in summary
    assert (whole["run_id"], whole["params"], whole["task_records"]) == (run_id, {"n": 1}, {})
    assert "state" not in whole


async def test_the_default_limit_of_a_list_is_fifty(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        await asyncio.gather(*(submit(client) for _ in range(60)))

        assert len((await client.get("/runs")).json()) == 50
        assert len((await client.get("/runs?limit=200")).json()) == 60
        assert len((await client.get("/runs?limit=7&include=full")).json()) == 7


async def test_a_lost_index_file_is_rebuilt(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        run_ids = {await submit(client) for _ in range(5)}
    for file in Path(config.index_path).parent.glob("runs.sqlite*"):
        file.unlink()

    async with serving(config) as client:
        listed = (await client.get("/runs")).json()

    assert {one["run_id"] for one in listed} == run_ids


# --- cancel -----------------------------------------------------------------------------------------------------------


async def test_a_cancelled_waiting_run_is_cancelling_and_then_cancelled(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        run_id = await submit(client)
        response = await client.post(f"/runs/{run_id}/cancel", json={"reason": "wrong input"})
        after = (await client.get(f"/runs/{run_id}")).json()

    assert (response.status_code, response.json()["status"]) == (200, "CANCELLING")
    assert after["status"] == "CANCELLED"
    assert after["cancel_requested_at"] == after["cancel"]["requested_at"]
    assert (after["cancel"]["how"], after["cancel"]["reason"]) == ("before_start", "wrong input")


async def test_cancelling_is_idempotent(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        run_id = await submit(client)
        await client.post(f"/runs/{run_id}/cancel")
        again = await client.post(f"/runs/{run_id}/cancel", content=b"")

    assert (again.status_code, again.json()["status"]) == (200, "CANCELLED")


async def test_cancelling_a_finished_run_returns_its_final_state(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="test") as stores:
        run_id = await submit(client)
        await RunDriver(stores).start(run_id)
        await RunDriver(stores).complete(run_id)
        response = await client.post(f"/runs/{run_id}/cancel")

    assert (response.status_code, response.json()["status"]) == (200, "COMPLETED")
    assert "cancel" not in response.json()


# --- restart ----------------------------------------------------------------------------------------------------------


async def test_a_run_and_its_job_can_be_read_as_they_were(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="test") as stores:
        run_id = await submit(client)
        first = (await client.get(f"/runs/{run_id}")).json()
        await RunDriver(stores).start(run_id)
        await RunDriver(stores).complete(run_id)
        last = (await client.get(f"/runs/{run_id}")).json()

        for at in (first["version"], f"{first['submitted_at']:.9f}", last["version"] - 1):
            past = (await client.get(f"/runs/{run_id}", params={"at": at})).json()
            assert (past["status"], "stale" in past) == ("RUNNING" if at == last["version"] - 1 else "PENDING", False)
        now = await client.get(f"/runs/{run_id}", params={"at": "2999-01-01T00:00:00Z", "include": "records"})
        assert (now.json()["status"], now.json()["version"]) == ("COMPLETED", last["version"])
        assert "task_records" in now.json()
        job = (await client.get(f"/jobs/{run_id}", params={"at": first["version"]})).json()
        assert (job["status"], job["completedAt"]) == ("pending", None)
        for path, code in ((f"/runs/{run_id}", "err_id"), (f"/jobs/{run_id}", "errId")):
            for at, expected in (("1970-01-01", 404), ("soon", 422), ("0", 422), ("", 422)):
                refused = await client.get(path, params={"at": at})
                assert (refused.status_code, code in refused.json()) == (expected, True), (path, at)


async def test_a_run_survives_a_gateway_restart(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        run_id = await submit(client)
    async with serving(config) as client:
        assert (await client.get(f"/runs/{run_id}")).json()["status"] == "PENDING"


async def test_a_gateway_without_a_folder_for_its_index_leaves_nothing(
    config: NatsBackendConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = tmp_path / "temporary"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    async with serving(replace(config, index_path="")) as client:
        await listed(client, [await submit(client)])
        assert list(places.iterdir())

    assert list(places.iterdir()) == []
