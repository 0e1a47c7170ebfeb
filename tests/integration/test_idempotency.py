"""Requests with an idempotency key at real gateways: one effect and one response."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId
from pyoco_server.stores import DeadLetter
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.flow_files import TWO_TASKS
from support.gateways import gateway_settings, serving, submit, wait_for_status
from support.samples import worker
from support.wheels import NAME, wheel

KEY = {"Idempotency-Key": "k-1"}
TICKETS = "/jobs/{id}/ws-ticket"
HELLO = {"flow_name": "hello", "params": {"n": 1, "name": "é"}}


def replayed(response: httpx.Response) -> bool:
    return "idempotency-replayed" in response.headers


async def runs(client: httpx.AsyncClient) -> list[str]:
    return [item["run_id"] for item in (await client.get("/runs")).json()]


async def test_a_repeated_submit_gets_the_same_response_and_is_one_run(client: httpx.AsyncClient) -> None:
    first = await client.post("/runs", json=HELLO, headers=KEY)
    second = await client.post("/runs", json=HELLO, headers={"X-Idempotency-Key": "k-1"})

    assert (first.status_code, replayed(first)) == (200, False)
    assert (second.status_code, replayed(second)) == (200, True)
    assert second.content == first.content
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.headers["x-request-id"] != first.headers["x-request-id"]
    assert await runs(client) == [first.json()["run_id"]]


async def test_an_equivalent_body_is_a_repeat(client: httpx.AsyncClient) -> None:
    first = await client.post("/runs", json=HELLO, headers=KEY)
    other = '{ "params": {"name": "e\\u0301", "n": 1.0},\n "flow_name": "hello" }'

    second = await client.post("/runs", content=other, headers=KEY)

    assert second.json() == first.json()


async def test_another_body_with_the_same_key_is_a_conflict(client: httpx.AsyncClient) -> None:
    await client.post("/runs", json=HELLO, headers=KEY)

    response = await client.post("/runs", json=HELLO | {"tag": "gpu"}, headers=KEY)

    assert (response.status_code, response.json()["err_id"]) == (409, "ERR-PYOCO-0047")
    assert len(await runs(client)) == 1


async def test_the_events_of_a_request_have_its_key(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    run_id = RunId((await client.post("/runs", json=HELLO, headers=KEY)).json()["run_id"])
    await client.post(f"/runs/{run_id}/cancel", headers={"Idempotency-Key": "k-2"})

    async with open_stores(config, name="test") as stores:
        keys = [stored.commit.idempotency_key for stored in await stores.events.read(run_id)]

    assert keys == ["k-1", "k-2", None]


@pytest.mark.parametrize(
    "headers",
    [
        [("Idempotency-Key", "a"), ("X-Idempotency-Key", "b")],
        [("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
        [("Idempotency-Key", "")],
        [("X-Idempotency-Key", "x" * 256)],
        [("Idempotency-Key", "é".encode("latin-1"))],
    ],
    ids=["two names", "twice", "empty", "too long", "not ascii"],
)
async def test_an_invalid_key_is_rejected_without_effect(client: httpx.AsyncClient, headers: Any) -> None:
    response = await client.post("/runs", json=HELLO, headers=headers)

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert await runs(client) == []


async def test_a_header_sent_twice_is_one_key(client: httpx.AsyncClient) -> None:
    both = [("Idempotency-Key", "k-1"), ("X-Idempotency-Key", "k-1"), ("Idempotency-Key", "k-1")]

    first = await client.post("/runs", json=HELLO, headers=both)

    assert replayed(await client.post("/runs", json=HELLO, headers=KEY))
    assert await runs(client) == [first.json()["run_id"]]


async def test_a_key_is_scoped_to_path_and_query(client: httpx.AsyncClient) -> None:
    one, other = await submit(client), await submit(client)

    responses = [
        await client.post(path, headers=KEY)
        for path in (f"/runs/{one}/cancel", f"/runs/{other}/cancel", f"/runs/{one}/cancel?x=1")
    ]

    assert [replayed(response) for response in responses] == [False] * 3


async def test_invalid_input_does_not_use_its_key(client: httpx.AsyncClient) -> None:
    refused = await client.post("/runs", json={"flow_name": ""}, headers=KEY)
    same_text = await client.post("/runs", content='{"flow_name":"a","params":{"é":1,"e\\u0301":2}}', headers=KEY)

    accepted = await client.post("/runs", json=HELLO, headers=KEY)

    assert (refused.status_code, same_text.status_code) == (422, 422)
    assert "same text" in same_text.json()["detail"]
    assert (accepted.status_code, replayed(accepted)) == (200, False)


async def test_concurrent_repeats_are_one_run_with_one_response(client: httpx.AsyncClient) -> None:
    responses = await asyncio.gather(*(client.post("/runs", json=HELLO, headers=KEY) for _ in range(12)))

    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert [replayed(response) for response in responses].count(False) == 1
    assert await runs(client) == [responses[0].json()["run_id"]]


async def test_concurrent_repeats_at_two_gateways_are_one_run_with_one_response(
    client: httpx.AsyncClient, broker: Broker, tmp_path: Path
) -> None:
    async with serving(gateway_settings(broker.url, tmp_path / "other")) as other:
        gateways = [client, other] * 6

        responses = await asyncio.gather(*(one.post("/runs", json=HELLO, headers=KEY) for one in gateways))

        assert len({response.content for response in responses}) == 1
        run_id = responses[0].json()["run_id"]
        for one in (client, other):
            await wait_for_status(one, run_id, "PENDING")
            assert replayed(await one.post("/runs", json=HELLO, headers=KEY))
    assert await runs(client) == [run_id]


async def test_a_restarted_gateway_replays_earlier_responses(config: NatsBackendConfig) -> None:
    async with serving(config) as client:
        first = await client.post("/runs", json=HELLO, headers=KEY)

    async with serving(config) as client:
        second = await client.post("/runs", json=HELLO, headers=KEY)

    assert replayed(second)
    assert second.content == first.content


async def test_a_key_is_scoped_to_its_tenant(broker: Broker, tmp_path: Path) -> None:
    config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
    tenants = ("team-a", "team-b")
    credentials = [KEY | api_key_headers(await hand_out(config, tenant, Scope.RUNS_WRITE)) for tenant in tenants]
    async with serving(config) as client:
        responses = [await client.post("/runs", json=HELLO, headers=headers) for headers in credentials * 2]

    assert [replayed(response) for response in responses] == [False, False, True, True]
    assert responses[0].json() == responses[2].json() != responses[1].json() == responses[3].json()


async def test_a_repeated_cancel_gets_its_first_response_after_the_run_has_changed(client: httpx.AsyncClient) -> None:
    run_id = await submit(client)
    first = await client.post(f"/runs/{run_id}/cancel", json={"reason": "wrong"}, headers=KEY)
    await wait_for_status(client, run_id, "CANCELLED")

    second = await client.post(f"/runs/{run_id}/cancel", json={"reason": "wrong"}, headers=KEY)
    without = await client.post(f"/runs/{run_id}/cancel", json={"reason": "wrong"})

    assert first.json()["status"] == "CANCELLING"
    assert second.content == first.content
    assert without.json()["status"] == "CANCELLED"


async def test_a_not_found_response_is_not_stored(client: httpx.AsyncClient) -> None:
    path = "/runs/00000000-0000-7000-8000-000000000000/cancel"

    responses = [await client.post(path, headers=KEY) for _ in range(2)]

    assert [(response.status_code, replayed(response)) for response in responses] == [(404, False)] * 2


async def test_forms_are_equal_for_any_boundary_and_order_of_parts(client: httpx.AsyncClient) -> None:
    file = {"workflow": ("flow.yaml", TWO_TASKS.encode(), "application/yaml")}
    first = await client.post("/runs/yaml", data={"flow_name": "main", "tag": "a"}, files=file, headers=KEY)
    second = await client.post("/runs/yaml", data={"tag": "a", "flow_name": "main"}, files=file, headers=KEY)
    other = await client.post("/runs/yaml", data={"tag": "b", "flow_name": "main"}, files=file, headers=KEY)

    assert (first.status_code, second.status_code, other.status_code) == (200, 200, 409)
    assert replayed(second)
    assert second.content == first.content


async def test_a_repeated_upload_returns_the_registered_wheel(client: httpx.AsyncClient) -> None:
    async def upload(tags: str = "gpu", key: dict[str, str] = KEY) -> httpx.Response:
        return await client.post("/wheels", data={"tags": tags}, files={"wheel": (NAME, wheel())}, headers=key)

    first, second = await upload(), await upload()
    other_tags, other_key = await upload(tags="cpu"), await upload(key={"Idempotency-Key": "k-2"})

    assert (first.status_code, replayed(first)) == (200, False)
    assert (second.status_code, replayed(second)) == (200, True)
    assert second.content == first.content
    assert (other_tags.status_code, other_tags.json()["err_id"]) == (409, "ERR-PYOCO-0047")
    assert (other_key.status_code, other_key.json()["err_id"]) == (409, "ERR-PYOCO-0022")
    assert len((await client.get("/wheels/history")).json()) == 1


async def test_a_repeated_delete_deletes_a_wheel_once(client: httpx.AsyncClient) -> None:
    async def upload() -> None:
        assert (await client.post("/wheels", files={"wheel": (NAME, wheel())})).status_code == 200

    await upload()
    first = await client.delete(f"/wheels/{NAME}", headers=KEY)
    await upload()
    second = await client.delete(f"/wheels/{NAME}", headers=KEY)

    assert first.json() == second.json() == {"name": NAME, "deleted": True}
    assert replayed(second)
    assert len((await client.get("/wheels")).json()) == 1


async def test_an_error_response_is_stored_and_replayed(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    async with open_stores(config, name="test") as stores:
        await stores.dead_letters.publish(DeadLetter(timestamp=1.0, reason="invalid_job", tag="default"))

    first, second = [await client.post("/dlq/1/replay", headers=KEY) for _ in range(2)]

    assert (first.status_code, replayed(first)) == (409, False)
    assert (second.status_code, replayed(second)) == (409, True)
    assert second.content == first.content


async def test_a_repeated_replay_of_a_dead_letter_is_one_run(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    original = await submit(client)
    async with open_stores(config, name="test") as stores:
        letter = DeadLetter(timestamp=1.0, reason="execution_error", run_id=original, tag="default")
        await stores.dead_letters.publish(letter)

    first, second = [await client.post("/dlq/1/replay", headers=KEY) for _ in range(2)]

    assert (first.status_code, second.status_code) == (200, 200)
    assert second.content == first.content
    assert sorted(await runs(client)) == sorted([original, first.json()["run_id"]])


async def test_a_repeated_hide_of_a_worker_has_one_effect(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    async with open_stores(config, name="test") as stores:
        await stores.registry.put(worker())
    path = f"/workers/{worker().worker_id}"

    first = await client.patch(path, json={"hidden": True}, headers=KEY)
    await client.patch(path, json={"hidden": False})
    second = await client.patch(path, json={"hidden": True}, headers=KEY)

    assert (first.status_code, replayed(second)) == (200, True)
    assert second.content == first.content
    async with open_stores(config, name="test") as stores:
        stored = await stores.registry.get(worker().worker_id)
    assert stored is not None
    assert not stored.hidden


async def test_the_openapi_document_has_the_key_for_every_change(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    changing = [
        (path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if method in ("post", "put", "patch", "delete") and path != TICKETS
    ]

    # A ticket is a secret: each one is new, and none is stored.
    assert "Idempotency-Key" not in str(paths[TICKETS]["post"])
    assert len(changing) >= 7
    for path, operation in changing:
        required = {parameter["name"]: parameter["required"] for parameter in operation["parameters"]}
        assert required["Idempotency-Key"] is path.startswith(("/executions", "/pdca/recheck"))
        assert required["X-Idempotency-Key"] is False
        successes = [response for status, response in operation["responses"].items() if status.startswith("2")]
        assert successes
        assert all("Idempotency-Replayed" in response["headers"] for response in successes)
        assert "409" in operation["responses"]
