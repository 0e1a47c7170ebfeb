"""`POST /runs/{run_id}/rerun` on a real nats-server: the same run once more, whatever it was."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.pdca.ids import run_id_of
from support.flow_files import TWO_TASKS
from support.gateways import serving, submit, wait_for_status
from support.workers import at_work

UNKNOWN = "018f0000-0000-7000-8000-000000000000"


async def rerun(client: httpx.AsyncClient, run_id: str, key: str = "", **body: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return await client.post(f"/runs/{run_id}/rerun", json=body, headers=headers)


async def run_of(client: httpx.AsyncClient, response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    run: dict[str, Any] = (await client.get(f"/runs/{response.json()['run_id']}")).json()
    return run


async def test_a_rerun_repeats_the_run_as_it_was_submitted(client: httpx.AsyncClient) -> None:
    original = await submit(
        client, "etl", params={"day": "monday", "n": 1}, tag="gpu", tags=["nightly"], timeout_sec=60
    )
    await client.post(f"/jobs/{original}/tags", json={"tag": "looked-at"})
    await client.post(f"/runs/{original}/cancel")

    response = await rerun(client, original, params={"n": 2})

    run = await run_of(client, response)
    assert response.json()["rerun_of"] == run["rerun_of"] == original
    assert (run["flow_name"], run["params"], run["status"]) == ("etl", {"day": "monday", "n": 2}, "PENDING")
    assert (run["tag"], run["tags"], run["timeout_sec"]) == ("gpu", ["nightly"], 60.0)
    assert (await client.get(f"/runs/{original}")).json()["status"] == "CANCELLED"
    assert {one["run_id"]: one.get("rerun_of") for one in (await client.get("/runs")).json()}[run["run_id"]] == original


async def test_a_rerun_of_a_rerun_names_the_rerun(client: httpx.AsyncClient) -> None:
    original = await submit(client, "etl", params={"n": 1})
    second = await run_of(client, await rerun(client, original, params={"n": 2}))

    third = await run_of(client, await client.post(f"/runs/{second['run_id']}/rerun"))

    assert (third["rerun_of"], third["params"]) == (second["run_id"], {"n": 2})


async def test_a_rerun_of_a_file_has_its_text_and_the_parameters_of_the_file_only(client: httpx.AsyncClient) -> None:
    files = {"workflow": ("flow.yaml", TWO_TASKS)}
    submitted = await client.post("/runs/yaml", files=files, data={"flow_name": "nightly"})
    original = await run_of(client, submitted)

    again = await run_of(client, await rerun(client, original["run_id"], params={"n": 5}))
    refused = await rerun(client, original["run_id"], params={"m": 5})

    assert again["workflow_yaml_sha256"] == original["workflow_yaml_sha256"]
    assert (again["params"], again["tasks"]) == ({"day": "monday", "n": 5}, original["tasks"])
    assert refused.status_code == 422
    assert "'m' is not a parameter of the file of this run, which has day, n" in refused.json()["detail"]


async def test_a_rerun_of_a_graph_starts_with_the_same_version_of_it(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "key-1"}
    await client.put("/graphs/release", json={"nodes": ["build", "ship"], "edges": [["build", "ship"]]})
    created = await client.post("/executions", json={"graphId": "release", "input": {"v": 1}}, headers=headers)
    await client.put("/graphs/release", json={"nodes": ["other"], "edges": []})

    response = await rerun(client, created.json()["executionId"], "key-2", params={"v": 2})
    again = await rerun(client, created.json()["executionId"], "key-2", params={"v": 2})

    run = await run_of(client, response)
    assert again.json() == response.json()
    assert (run["status"], run["graph_version"], run["params"]) == ("RUNNING", 1, {"v": 2})
    nodes = (await client.get(f"/executions/{run['run_id']}")).json()["nodes"]
    assert {node["nodeId"]: node["status"] for node in nodes} == {"build": "READY", "ship": "IDLE"}


async def test_a_rerun_is_executed_by_a_worker_once_per_key(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores:
        original = await submit(client, "etl", params={"n": 1})

        first = await rerun(client, original, "once")
        second = await rerun(client, original, "once")

        assert first.json() == second.json()
        assert second.headers["idempotency-replayed"] == "true"
        async with at_work(stores, config, slots=2) as worker:
            for _ in range(2):
                (await worker.executor.begun()).end()
            ended = await wait_for_status(client, first.json()["run_id"], "COMPLETED")
        assert ended["params"] == {"n": 1}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"params": {"x": "a" * 131_072}}, 413),
        ({"params": []}, 422),
        ({"parms": {}}, 422),
        ({"strict": "yes"}, 422),
        ({"params": {"n" * 100_000: 1}}, 200),
    ],
)
async def test_an_invalid_rerun_is_rejected_and_leaves_no_run(
    client: httpx.AsyncClient, body: dict[str, Any], status: int
) -> None:
    original = await submit(client, "etl", params={"y": "b" * 1_000})

    response = await rerun(client, original, **body)

    assert response.status_code == status, response.text
    assert len((await client.get("/runs")).json()) == (2 if status == 200 else 1)


@pytest.mark.parametrize("run_id", [UNKNOWN, "no-such-run", "..%2F..%2Fhealth"])
async def test_a_rerun_of_an_unknown_run_is_not_found(client: httpx.AsyncClient, run_id: str) -> None:
    assert (await rerun(client, run_id)).status_code == 404


async def test_a_request_of_the_pdca_api_is_not_run_again(client: httpx.AsyncClient) -> None:
    await client.put("/pdca/strategies/one", json={"title": "One", "instrument": "USDJPY"})
    recheck = {"strategies": ["one"], "window": {"lookback_days": 7}, "reason": "manual"}
    accepted = await client.post("/pdca/recheck", json=recheck, headers={"Idempotency-Key": "recheck-1"})
    run_id = run_id_of(accepted.json()["request_id"])

    refused = await rerun(client, run_id, params={"strategies": 2})

    runs = (await client.get("/runs", params={"flow": "pdca.request"})).json()
    assert (refused.status_code, refused.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert "send it to /pdca/recheck or /pdca/recheck_all" in refused.json()["detail"]
    assert [run["run_id"] for run in runs] == [run_id]
