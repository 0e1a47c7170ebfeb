"""Lists of jobs and tags on a real nats-server: filters, pages while jobs change, two gateways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from support.broker import Broker
from support.gateways import gateway_settings, serving, submit
from support.jobs import by_hand, job, refused, submit_job
from support.run_driver import RunDriver

INVALID = (422, "ERR-PYOCO-0017")


@pytest.fixture
def config(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NatsBackendConfig:
    # Lists wait long for the gateway's own writes, because the machine may be busy.
    monkeypatch.setattr("pyoco_server.services.projections.lists.OWN_WRITE_WAIT_SEC", 10.0)
    return gateway_settings(broker.url, tmp_path)


async def page(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    response = await client.get("/jobs", params=query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def pages(client: httpx.AsyncClient, **query: Any) -> AsyncIterator[list[str]]:
    """The ids of each page, to the end."""
    following: dict[str, str] = {}
    while True:
        body = await page(client, **query, **following)
        yield [found["id"] for found in body["jobs"]]
        if "nextToken" not in body:
            return
        following = {"nextToken": body["nextToken"]}


async def found(client: httpx.AsyncClient, **query: Any) -> list[str]:
    return [job_id async for ids in pages(client, **query) for job_id in ids]


async def tags(client: httpx.AsyncClient, **query: Any) -> dict[str, int]:
    """The tags of all pages."""
    counts: dict[str, int] = {}
    following: dict[str, str] = {}
    while True:
        response = (await client.get("/tags", params={**query, **following})).json()
        counts |= {item["tag"]: item["count"] for item in response["tags"]}
        if "nextToken" not in response:
            return counts
        following = {"nextToken": response["nextToken"]}


async def test_jobs_are_listed_newest_first_as_in_single_reads_without_params(client: httpx.AsyncClient) -> None:
    job_ids = [await submit_job(client, "a", timeout_sec=90) for _ in range(3)]

    body = await page(client)

    whole = [await job(client, job_id) for job_id in reversed(job_ids)]
    assert body == {"jobs": [{name: shown[name] for name in shown if name != "parameters"} for shown in whole]}


async def test_a_list_contains_runs_and_executions(client: httpx.AsyncClient) -> None:
    ids = [await submit_job(client), await submit(client), await by_hand(client, "start")]

    assert await found(client) == ids[::-1]


async def test_several_tags_match_jobs_that_have_all_of_them(client: httpx.AsyncClient) -> None:
    both, one, other = [await submit_job(client, *labels) for labels in (("a/b", "🚀"), ("a/b",), ("🚀",))]

    assert await found(client, tag="a/b") == [one, both]
    assert await found(client, tag=["a/b", "🚀"]) == [both]
    assert await found(client, tag="nobody's") == []
    await client.post(f"/jobs/{other}/tags", json={"tag": "a/b"})
    await client.delete(f"/jobs/{both}/tags/a%2Fb")
    assert await found(client, tag=["a/b", "🚀"]) == [other]


async def test_every_status_is_listed_by_its_name(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    names = ("pending", "running", "stopping", "completed", "failed", "canceled")
    ids = {name: await submit_job(client, "x", name) for name in names}
    async with open_stores(config, name="worker") as stores:
        driver = RunDriver(stores)
        for name in ("running", "stopping", "completed", "failed"):
            await driver.start(ids[name])
        await driver.complete(ids["completed"])
        await driver.fail(ids["failed"], "no such file")
    # A list waits for the last write of its gateway, and thereby for earlier ones of a worker.
    for name in ("stopping", "canceled"):
        await client.delete(f"/jobs/{ids[name]}")

    listed = {status: await found(client, status=status, tag="x") for status in names if status != "stopping"}

    assert listed == {name: [ids[name]] for name in listed} | {"running": [ids["stopping"], ids["running"]]}
    assert await found(client, tag="x") == list(ids.values())[::-1]


async def test_an_archived_job_is_in_no_list_and_its_tags_are_not_counted(client: httpx.AsyncClient) -> None:
    gone, stays = await submit_job(client, "x", "only here"), await submit_job(client, "x")
    for _ in range(2):
        await client.delete(f"/jobs/{gone}")

    assert await found(client) == await found(client, tag="x") == [stays]
    assert await found(client, status="canceled") == []
    assert await tags(client) == {"x": 1}


async def test_pages_contain_every_job_once_during_changes(client: httpx.AsyncClient) -> None:
    job_ids = [await submit_job(client, "x") for _ in range(25)]
    shown: list[str] = []

    async for ids in pages(client, tag="x", limit=4):
        assert len(ids) <= 4
        shown += ids
        if shown:
            await submit_job(client, "x")  # newer than the first page
            await client.post(f"/jobs/{job_ids[0]}/tags", json={"tag": f"moved {len(shown)}"})
            await client.delete(f"/jobs/{shown[-1]}")  # on an earlier page

    assert shown == job_ids[::-1]


async def test_jobs_are_found_by_creation_time_and_by_the_beginning_of_their_ids(client: httpx.AsyncClient) -> None:
    ids = [await submit_job(client) for _ in range(3)]
    times = [(await client.get(f"/runs/{job_id}")).json()["submitted_at"] for job_id in ids]

    assert await found(client, submitted_after=times[1], limit=1) == ids[:0:-1]
    assert await found(client, submitted_before=times[2], status="pending") == ids[1::-1]
    assert await found(client, id_prefix=ids[2][:30], submitted_after="1970-01-01") == [ids[2]]
    token = (await page(client, submitted_after=times[0], limit=1))["nextToken"]
    assert refused(await client.get("/jobs", params={"nextToken": token, "limit": 1})) == INVALID


async def test_pages_continue_at_another_gateway(client: httpx.AsyncClient, broker: Broker, tmp_path: Path) -> None:
    job_ids = [await submit_job(client, "x") for _ in range(5)]
    first = await page(client, tag="x", limit=3)

    async with serving(gateway_settings(broker.url, tmp_path / "other")) as other:
        rest = await page(other, tag="x", limit=3, nextToken=first["nextToken"])

    assert [found["id"] for found in (*first["jobs"], *rest["jobs"])] == job_ids[::-1]
    assert "nextToken" not in rest


async def test_tags_are_counted_and_sorted_by_code_point(client: httpx.AsyncClient) -> None:
    for labels in (("urgent", "a/b"), ("urgent", "夜間"), ("Urgent", "🚀"), ("urgently",)):
        await submit_job(client, *labels)

    counts = await tags(client)

    assert list(counts.items()) == [("Urgent", 1), ("a/b", 1), ("urgent", 2), ("urgently", 1), ("夜間", 1), ("🚀", 1)]
    assert await tags(client, prefix="urgent") == {"urgent": 2, "urgently": 1}
    assert await tags(client, limit=1) == counts
    assert await tags(client, limit=2, prefix="urgent") == {"urgent": 2, "urgently": 1}
    assert await tags(client, prefix="nobody's") == {}
    assert await tags(client, prefix="%") == {}


async def test_a_page_token_is_valid_only_for_its_list(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await submit_job(client, "x", "y")
    job_token = (await page(client, tag="x", limit=1))["nextToken"]
    tag_token = (await client.get("/tags", params={"limit": 1})).json()["nextToken"]

    for path, query in (
        ("/jobs", {"nextToken": job_token}),
        ("/jobs", {"nextToken": job_token, "tag": "y"}),
        ("/jobs", {"nextToken": job_token, "tag": "x", "status": "running"}),
        ("/jobs", {"nextToken": tag_token}),
        ("/jobs", {"nextToken": "garbage"}),
        ("/jobs", {"nextToken": "é"}),
        ("/tags", {"nextToken": tag_token, "prefix": "x"}),
        ("/tags", {"nextToken": job_token}),
        ("/tags", {"nextToken": "garbage"}),
    ):
        response = await client.get(path, params=query)
        assert refused(response) == INVALID
        assert "nextToken" in response.json()["detail"]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/jobs?status=RUNNING", "status"),
        ("/jobs?status=running&status=failed", "status"),
        ("/jobs?limit=0", "limit"),
        ("/jobs?limit=201", "limit"),
        ("/jobs?limit=1&limit=2", "limit"),
        ("/jobs?limit=many", "limit"),
        ("/jobs?tag=", "tag"),
        ("/jobs?tag=" + "x" * 129, "tag"),
        ("/jobs?" + "&".join(f"tag={number}" for number in range(9)), "tag"),
        ("/jobs?tags=x", "tags"),
        ("/jobs?submitted_after=x", "submitted_after"),
        ("/jobs?submitted_before=2026-13-01", "submitted_before"),
        ("/jobs?id_prefix=g", "id_prefix"),
        ("/jobs?nextToken=" + "x" * 5000, "nextToken"),
        ("/tags?limit=0", "limit"),
        ("/tags?limit=1001", "limit"),
        ("/tags?prefix=" + "x" * 129, "prefix"),
        ("/tags?prefix=a&prefix=b", "prefix"),
        ("/tags?tag=x", "tag"),
    ],
    ids=lambda value: value[:40],
)
async def test_an_invalid_query_is_rejected_with_its_name(client: httpx.AsyncClient, path: str, named: str) -> None:
    response = await client.get(path)

    assert refused(response) == INVALID
    assert named in response.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/jobs?tag=%00", "/jobs?tag=%FF", "/tags?prefix=%00", "/tags?prefix=%FF", "/jobs?tag=.."]
)
async def test_an_invalid_tag_matches_no_job(client: httpx.AsyncClient, path: str) -> None:
    await submit_job(client, "x")

    response = await client.get(path)

    assert response.status_code == 200
    assert response.json() in ({"jobs": []}, {"tags": []})


async def test_without_a_broker_a_list_is_a_503(client: httpx.AsyncClient, broker: Broker) -> None:
    broker.kill()
    try:
        await client.get("/jobs/00000000-0000-7000-8000-000000000000")
        responses = [await client.get(path) for path in ("/jobs", "/tags")]
    finally:
        broker.start()

    assert [refused(response) for response in responses] == [(503, "ERR-PYOCO-0003")] * 2
