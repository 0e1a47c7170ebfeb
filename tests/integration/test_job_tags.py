"""Tags of jobs on a real nats-server: idempotent, also after the end, stored as events, safe when concurrent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from support.broker import Broker
from support.executions import MISSING
from support.gateways import gateway_settings, serving
from support.jobs import by_hand, do, events, job, refused, submit_job
from support.run_driver import RunDriver

# Any text that fits on one line.
LABELS = [
    "urgent",
    "a/b",
    "/",
    "//x/",
    "50%",
    "%2F",
    "a b",
    "夜間 バッチ",
    "🚀",
    "שלום",
    "a?b#c&d=e+f",
    "a\\b",
    "x" * 128,
]


@pytest.fixture
def config(shared_broker: Broker, tmp_path: Path) -> NatsBackendConfig:
    return gateway_settings(shared_broker.url, tmp_path)


async def add(client: httpx.AsyncClient, job_id: str, tag: str, **headers: str) -> httpx.Response:
    return await client.post(f"/jobs/{job_id}/tags", json={"tag": tag}, headers=headers)


async def remove(client: httpx.AsyncClient, job_id: str, tag: str) -> httpx.Response:
    return await client.delete(f"/jobs/{job_id}/tags/{quote(tag, safe='')}")


async def tags(client: httpx.AsyncClient, job_id: str) -> list[str]:
    response = await client.get(f"/jobs/{job_id}/tags")
    assert response.status_code == 200, response.text
    body: list[str] = response.json()
    return body


async def test_tags_are_added_and_read_as_in_the_contract(client: httpx.AsyncClient) -> None:
    job_id = await submit_job(client, "urgent", "data")

    response = await add(client, job_id, "analysis")

    assert (response.status_code, response.json()) == (200, ["urgent", "data", "analysis"])
    assert await tags(client, job_id) == (await job(client, job_id))["tags"] == ["urgent", "data", "analysis"]


async def test_adding_and_removing_tags_is_idempotent(client: httpx.AsyncClient) -> None:
    job_id = await submit_job(client, "urgent")

    added = [(await add(client, job_id, "x")).json() for _ in range(2)]
    removed = [await remove(client, job_id, "urgent") for _ in range(2)]

    assert added == [["urgent", "x"]] * 2
    assert [(response.status_code, response.content) for response in removed] == [(204, b"")] * 2
    assert await tags(client, job_id) == ["x"]
    assert [event["type"] for event in await events(client, job_id)] == [
        "EXECUTION_CREATED",
        "EXECUTION_TAG_ADDED",
        "EXECUTION_TAG_REMOVED",
    ]


async def test_a_tag_event_has_its_actor_and_key_id(client: httpx.AsyncClient) -> None:
    job_id = await submit_job(client)

    first, again = [await add(client, job_id, "x", **{"Idempotency-Key": "k-1"}) for _ in range(2)]

    event = (await events(client, job_id))[-1]
    assert (event["type"], event["payload"], event["command"]) == ("EXECUTION_TAG_ADDED", {"tag": "x"}, "AddTag")
    assert (event["idempotencyKey"], event["actor"]["kind"]) == ("k-1", "user")
    assert event["correlationId"] == first.headers["x-correlation-id"]
    assert (again.json(), again.headers["idempotency-replayed"]) == (["x"], "true")


async def test_finished_and_archived_jobs_can_be_tagged(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    job_id = await submit_job(client, "raw")
    async with open_stores(config, name="worker") as stores:
        await RunDriver(stores).start(job_id)
        await RunDriver(stores).complete(job_id)

    assert (await add(client, job_id, "seen")).json() == ["raw", "seen"]
    await client.delete(f"/jobs/{job_id}")
    assert (await remove(client, job_id, "raw")).status_code == 204
    assert (await job(client, job_id))["tags"] == ["seen"]
    assert (await job(client, job_id))["status"] == "completed"


@pytest.mark.parametrize("label", LABELS, ids=ascii)
async def test_every_tag_that_can_be_added_can_be_removed(client: httpx.AsyncClient, label: str) -> None:
    job_id = await submit_job(client, "first")

    assert (await add(client, job_id, label)).json() == ["first", label]
    assert (await remove(client, job_id, label)).status_code == 204
    assert await tags(client, job_id) == ["first"]


@pytest.mark.parametrize("label", ["", "x" * 129, "a\0b", "\u202e", "tab\t", ".", ".."], ids=ascii)
async def test_adding_an_invalid_tag_fails_and_removing_it_succeeds(client: httpx.AsyncClient, label: str) -> None:
    job_id = await submit_job(client)

    response = await add(client, job_id, label)

    assert refused(response) == (422, "ERR-PYOCO-0002")
    if label not in (".", ".."):  # the client normalizes these to another path
        assert (await remove(client, job_id, label)).status_code == 204
    assert [event["type"] for event in await events(client, job_id)] == ["EXECUTION_CREATED"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'"x"', b"{}", b'{"tag": 1}', b'{"tag": "x", "tags": []}', b'{"tag": null}']
)
async def test_an_invalid_body_is_rejected(client: httpx.AsyncClient, body: bytes) -> None:
    job_id = await submit_job(client)

    assert refused(await client.post(f"/jobs/{job_id}/tags", content=body)) == (422, "ERR-PYOCO-0002")


async def test_a_job_has_at_most_64_tags(client: httpx.AsyncClient) -> None:
    labels = [f"tag {number}" for number in range(64)]
    job_id = await submit_job(client, *labels)

    response = await add(client, job_id, "one more")

    assert refused(response) == (409, "ERR-PYOCO-0030")
    assert response.json()["guard"] == "TOO_MANY_TAGS"
    assert (await add(client, job_id, labels[0])).json() == labels


@pytest.mark.parametrize("job_id", [MISSING, "1234"])
async def test_a_missing_job_has_no_tags(client: httpx.AsyncClient, job_id: str) -> None:
    for response in (
        await client.get(f"/jobs/{job_id}/tags"),
        await add(client, job_id, "x"),
        await remove(client, job_id, "x"),
    ):
        assert refused(response) == (404, "ERR-PYOCO-0005")


async def test_concurrent_additions_at_two_gateways_lose_no_tag(
    client: httpx.AsyncClient, shared_broker: Broker, tmp_path: Path
) -> None:
    job_id = await submit_job(client)
    labels = [f"tag {number}" for number in range(20)]

    async with serving(gateway_settings(shared_broker.url, tmp_path / "other")) as other:
        responses = await asyncio.gather(
            *(add(gateway, job_id, label) for gateway, label in zip((client, other) * 10, labels, strict=True))
        )
        seen = [await tags(gateway, job_id) for gateway in (client, other)]

    assert {response.status_code for response in responses} == {200}
    assert sorted(seen[0]) == sorted(labels)
    assert seen[0] == seen[1]
    assert max((response.json() for response in responses), key=len) == seen[0]


async def test_concurrent_tags_and_node_reports_are_all_stored(client: httpx.AsyncClient) -> None:
    execution_id = await by_hand(client, "start")
    await do(client, execution_id, "nodes/build/start")
    labels = [f"tag {number}" for number in range(8)]

    await asyncio.gather(
        *(add(client, execution_id, label) for label in labels),
        *(do(client, execution_id, "nodes/build/progress", {"progress": percent}) for percent in range(8)),
    )
    await do(client, execution_id, "nodes/build/success", {"output": 1})

    shown = (await client.get(f"/executions/{execution_id}")).json()
    seen = [event["type"] for event in await events(client, execution_id)]
    assert sorted(shown["tags"]) == sorted(await tags(client, execution_id)) == labels
    assert [node["status"] for node in shown["nodes"]] == ["SUCCEEDED", "READY"]
    assert (seen.count("EXECUTION_TAG_ADDED"), seen.count("NODE_PROGRESS_REPORTED")) == (8, 8)
