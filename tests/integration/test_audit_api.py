"""`GET /audit`: every change of every route leaves one record, with the right actor, beyond kills and restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi.routing import APIRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from pyoco_server.http_api import create_app
from pyoco_server.services.context import Stores
from pyoco_server.stores import DeadLetter
from support.broker import Broker
from support.callers import hand_out
from support.gateways import gateway_settings, serving, submit
from support.rechecks import BODY, BODY_FOR_ALL, ONE
from support.wheels import wheel, wheel_name
from support.workers import at_work

PEPPER = "a pepper of the tests"
KEYS = {"http_auth_mode": "api_key", "auth_pepper": PEPPER}
GRAPH = {"nodes": [{"id": "load"}, {"id": "save"}], "edges": [{"from": "load", "to": "save"}]}
NODE = "/executions/{executionId}/nodes/{nodeId}"
YAML = b"version: 1\nflow:\n  graph: |\n    greet\ntasks:\n  greet:\n    callable: flows:greet\n"
# A ticket is a credential of its caller for half a minute; progress renews a lease.
WITHOUT_RECORD = {("POST", "/jobs/{id}/ws-ticket"), ("POST", f"{NODE}/progress")}
SAFE = ("GET", "HEAD", "OPTIONS")


def changing_routes() -> set[tuple[str, str]]:
    return {
        (method, route.path_format)
        for route in create_app(NatsBackendConfig()).router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
        if method not in SAFE
    }


def files_of_the_index(folder: Path) -> list[Path]:
    found = list(folder.glob("*audit.sqlite*"))
    assert found != []
    return found


async def audit(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    response = await client.get("/audit", params={"limit": 500, **query})
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


@pytest.mark.settings(**KEYS)
async def test_only_administrators_read_the_trail_and_keys_are_in_it(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    admin, user = await hand_out(config, "team-a", *EVERY_SCOPE), await hand_out(config, "team-a", Scope.RUNS_READ)

    refused = await client.get("/audit", headers={"X-API-Key": user})
    client.headers["X-API-Key"] = admin
    records = await audit(client, action="api_key.create")

    assert (refused.status_code, refused.json()["err_id"]) == (403, "ERR-PYOCO-0036")
    assert [record["resource"]["id"] for record in records] == [user.split("_")[1], admin.split("_")[1]]
    assert {record["actor"]["kind"] for record in records} == {"operator"}
    assert admin.split("_")[2] not in repr(records)


async def test_records_are_the_same_at_two_gateways_and_after_a_restart(broker: Broker, tmp_path: Path) -> None:
    ours, theirs = (gateway_settings(broker.url, tmp_path / name) for name in ("ours", "theirs"))
    async with serving(ours) as client, serving(theirs) as other:
        for one in (client, other, client):
            await submit(one)
        await asyncio.gather(*(one.put(f"/graphs/g{number}", json=GRAPH) for number, one in enumerate((client, other))))
        found = await asyncio.gather(audit(client), audit(other))
    async with serving(ours) as client:
        again = await audit(client)

    assert found[0] == found[1] == again
    assert sorted(record["action"] for record in again) == ["graph.put"] * 2 + ["run.create"] * 3


async def test_a_killed_broker_and_a_lost_index_lose_and_double_no_record(broker: Broker, tmp_path: Path) -> None:
    config = gateway_settings(broker.url, tmp_path)
    async with serving(config) as client:
        runs = [await submit(client) for _ in range(3)]
        assert len(await audit(client)) == 3
        broker.kill()
        broker.start()
        runs.append(await _submit_again(client))
    for file in files_of_the_index(tmp_path):
        file.unlink()

    async with serving(config) as client:
        records = await audit(client)

    assert sorted(record["resource"]["id"] for record in records) == sorted(runs)


async def _submit_again(client: httpx.AsyncClient) -> str:
    """Submits until the broker is back; with a key, so that it is one submit."""
    async with asyncio.timeout(30):
        while True:
            response = await client.post("/runs", json={"flow_name": "hello"}, headers={"Idempotency-Key": "once"})
            if response.status_code == 200:
                run_id: str = response.json()["run_id"]
                return run_id
            await asyncio.sleep(0.05)


async def test_a_repeated_change_of_a_strategy_leaves_no_second_record(client: httpx.AsyncClient) -> None:
    path, strategy = f"/pdca/strategies/{ONE}", {"title": "Mean reversion", "instrument": "USDJPY"}
    for method, key in [("PUT", "1"), ("PUT", "1"), ("PUT", "2"), ("DELETE", "3"), ("DELETE", "3"), ("DELETE", "4")]:
        body = strategy if method == "PUT" else None
        response = await client.request(method, path, json=body, headers={"Idempotency-Key": key})
        assert response.is_success, response.text

    records = await audit(client, resource=ONE)

    assert [record["action"] for record in records] == ["strategy.delete", "strategy.put"]
    assert {record["outcome"] for record in records} == {"made"}


async def _listed_worker(client: httpx.AsyncClient) -> str:
    async with asyncio.timeout(20):
        while True:
            if workers := (await client.get("/workers")).json():
                worker_id: str = workers[0]["worker_id"]
                return worker_id
            await asyncio.sleep(0.01)


async def test_filters_and_pages_of_the_api(client: httpx.AsyncClient) -> None:
    run_id = await submit(client)
    cancelled = await client.post(f"/runs/{run_id}/cancel")
    await client.put("/graphs/release", json=GRAPH)

    by_request = await audit(client, request_id=cancelled.headers["x-request-id"].lower())
    first = (await client.get("/audit", params={"limit": 2})).json()
    second = (await client.get("/audit", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    wrong = await client.get("/audit", params={"limit": 2, "actor": "ann", "cursor": first["next_cursor"]})

    assert [record["action"] for record in by_request] == ["run.cancel"]
    assert [record["action"] for record in await audit(client, resource=run_id)] == ["run.cancel", "run.create"]
    assert [record["action"] for record in first["items"] + second["items"]] == [
        "graph.put",
        "run.cancel",
        "run.create",
    ]
    assert second["next_cursor"] is None
    assert wrong.status_code == 422
    assert await audit(client, until=1.0) == await audit(client, since=4e9) == await audit(client, actor="ann") == []


async def test_every_changing_route_leaves_one_record_of_its_caller(
    client: httpx.AsyncClient, stores: Stores, config: NatsBackendConfig
) -> None:
    made: dict[tuple[str, str], httpx.Response] = {}

    async def call(method: str, template: str, *, json: Any = None, files: Any = None, **names: str) -> httpx.Response:
        headers = {"Idempotency-Key": str(uuid4())}
        response = await client.request(method, template.format(**names), json=json, files=files, headers=headers)
        assert response.is_success, (method, template, response.text)
        made[method, template] = response
        return response

    async def execution(graph_id: str = "release") -> str:
        """An execution that was started."""
        created = await call("POST", "/executions", json={"graphId": graph_id})
        execution_id: str = created.json()["executionId"]
        await call("POST", "/executions/{executionId}/start", executionId=execution_id)
        return execution_id

    await call("PUT", "/graphs/{graphId}", json=GRAPH, graphId="release")
    run_id = (await call("POST", "/runs", json={"flow_name": "hello"})).json()["run_id"]
    await call("POST", "/runs/{run_id}/cancel", run_id=run_id)
    await call("POST", "/runs/{run_id}/rerun", run_id=run_id)
    await call("POST", "/runs/yaml", files={"workflow": ("flow.yaml", YAML), "flow_name": (None, "greet")})
    job_id = (await call("POST", "/jobs", json={"flow": "hello", "parameters": {}})).json()["id"]
    await call("POST", "/jobs/{id}/tags", json={"tag": "urgent"}, id=job_id)
    await call("DELETE", "/jobs/{id}/tags/{tag}", id=job_id, tag="urgent")
    await call("DELETE", "/jobs/{id}", id=job_id)
    await call("POST", "/wheels", files={"wheel": (wheel_name(), wheel())})
    await call("DELETE", "/wheels/{wheel_name}", wheel_name=wheel_name())
    first = await execution()
    await call("POST", f"{NODE}/start", executionId=first, nodeId="load")
    await call("POST", f"{NODE}/wait", json={"waitKey": "k"}, executionId=first, nodeId="load")
    await call("POST", f"{NODE}/resume", json={"resumeKey": "k"}, executionId=first, nodeId="load")
    await call("POST", f"{NODE}/success", json={}, executionId=first, nodeId="load")
    await call("POST", "/executions:claim", json={"graphIds": ["release"], "workerId": "by-hand", "waitSec": 10})
    await call(
        "POST", f"{NODE}/fail", json={"error": {"code": "NO", "message": "no"}}, executionId=first, nodeId="save"
    )
    await call("POST", "/executions/{executionId}/archive", json={}, executionId=first)
    await call("POST", "/executions/{executionId}/complete", json={}, executionId=await execution("unknown"))
    failure = {"error": {"code": "NO", "message": "no"}}
    await call("POST", "/executions/{executionId}/fail", json=failure, executionId=await execution("unknown"))
    await call("POST", "/executions/{executionId}/cancel", json={}, executionId=await execution())
    await call("POST", "/pdca/recheck_all", json=dict(BODY_FOR_ALL))  # without strategies it ends at once
    await call("PUT", "/pdca/strategies/{id}", json={"title": "Mean reversion", "instrument": "USDJPY"}, id=ONE)
    await call("POST", "/pdca/recheck", json=dict(BODY))
    await call("POST", "/pdca/recheck_all", json=dict(BODY_FOR_ALL))
    await call("DELETE", "/pdca/strategies/{id}", id=ONE)
    await stores.dead_letters.publish(DeadLetter(timestamp=1.0, reason="execution_error", run_id=run_id))
    await call("POST", "/dlq/{seq}/replay", seq="1")
    async with at_work(stores, config, tags=("other",)):
        worker_id = await _listed_worker(client)
        await call("PATCH", "/workers/{worker_id}", json={"hidden": True}, worker_id=worker_id)

    records = await audit(client)
    by_request: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_request.setdefault(record["request_id"], []).append(record)

    counts = {key: len(by_request.get(response.headers["x-request-id"], [])) for key, response in made.items()}
    assert counts == dict.fromkeys(changing_routes() - WITHOUT_RECORD, 1)
    assert [found for found in by_request.values() if len(found) > 1] == []
    assert {record["actor"]["id"] for record in records} == {None}
    assert {record["outcome"] for record in records} == {"made"}
    assert {record["address"] for record in records} == {"127.0.0.1"}
