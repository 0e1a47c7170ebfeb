"""`GET /runs` through gateways on a real nats-server: filters, pages while runs change, and errors."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import RunId
from pyoco_server.services.executions.submit import SubmitService
from pyoco_server.services.projections import lists
from support.gateways import gateway_settings, listed, serving, submit, wait_for_status
from support.run_driver import RunDriver
from support.world import USER

YAML = "ab" * 32
BAD_QUERIES = [
    ("statsu=RUNNING", "statsu"),
    ("status=RUNNING&status=FAILED", "status"),
    ("limit=1&limit=2", "limit"),
    ("status=running", "status"),
    ("flow=", "flow"),
    ("tag=" + "x" * 65, "tag"),
    ("tags=", "tags"),
    ("&".join(f"tags=l{n}" for n in range(9)), "tags"),
    ("updated_after=yesterday", "updated_after"),
    ("updated_after=nan", "updated_after"),
    ("updated_after=-inf", "updated_after"),
    ("submitted_after=yesterday", "submitted_after"),
    ("submitted_after=2026-02-30", "submitted_after"),
    ("submitted_before=nan", "submitted_before"),
    ("submitted_before=1&submitted_before=2", "submitted_before"),
    ("id_prefix=", "id_prefix"),
    ("id_prefix=019A", "id_prefix"),
    ("id_prefix=%", "id_prefix"),
    ("id_prefix=0%0A", "id_prefix"),
    ("id_prefix=" + "0" * 37, "id_prefix"),
    ("workflow_yaml_sha256=abc", "workflow_yaml_sha256"),
    ("workflow_yaml_sha256=" + "g" * 64, "workflow_yaml_sha256"),
    ("include=some", "include"),
    ("error=", "error"),
    ("error=" + "x" * 201, "error"),
    ("error=a&error=b", "error"),
    ("cursor=nonsense", "cursor"),
    ("cursor=%F0%9F%A5%90", "cursor"),
    ("cursor=" + "a" * 5000, "cursor"),
    ("x" * 5000 + "=1", "xxx"),
]


async def ask(client: httpx.AsyncClient, **query: Any) -> Any:
    response = await client.get("/runs", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def ids(items: list[dict[str, Any]]) -> list[str]:
    return [item["run_id"] for item in items]


async def test_an_empty_system_has_empty_lists(client: httpx.AsyncClient) -> None:
    assert await ask(client) == []
    for query in ({"cursor": ""}, {"updated_after": 0}, {"workflow_yaml_sha256": YAML}):
        total = 0 if query == {"cursor": ""} else None
        assert await ask(client, **query) == {"items": [], "next_cursor": None, "total": total}


async def test_several_labels_match_runs_that_have_all_of_them(client: httpx.AsyncClient) -> None:
    plain = await submit(client)
    nightly = await submit(client, tags=["nightly"])
    both = await submit(client, tags=["nightly", "大 きい"])

    assert ids(await ask(client, tags="nightly")) == [both, nightly]
    assert ids(await ask(client, tags=["nightly", "大 きい"])) == [both]
    assert ids(await ask(client, tags="default")) == [plain]


async def test_runs_of_a_flow_yaml_are_found_by_its_digest(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    await submit(client)
    async with open_stores(config, name="test") as stores:
        request = Request(flow_name="main", tag="default", workflow_yaml_sha256=YAML)
        run_id = (await SubmitService(stores=stores).submit(request, (), USER)).execution_id
    await listed(client, [run_id], flow="main")

    page = await ask(client, workflow_yaml_sha256=YAML.upper())

    assert ids(page["items"]) == [run_id]
    assert page["items"][0]["workflow_yaml_sha256"] == YAML
    assert page["next_cursor"] is None


async def test_runs_are_found_by_their_error(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    refused, reset, _ = [await submit(client) for _ in range(3)]
    async with open_stores(config, name="test") as stores:
        driver = RunDriver(stores)
        for run_id, error in ((refused, "Connection REFUSED"), (reset, "connection reset")):
            await driver.start(RunId(run_id))
            await driver.fail(RunId(run_id), error)
    # Another program has changed them: the index of this gateway follows.
    await listed(client, [reset, refused], status="FAILED")

    page = await ask(client, error="connection", limit=1)

    assert ids(page["items"]) == [reset]
    assert ids((await ask(client, error="connection", cursor=page["next_cursor"]))["items"]) == [refused]
    assert ids((await ask(client, error="refused", flow="hello", status="FAILED"))["items"]) == [refused]
    assert (await ask(client, error="connection", status="CANCELLED"))["items"] == []
    other = await client.get("/runs", params={"error": "reset", "cursor": page["next_cursor"]})
    assert (other.status_code, other.json()["err_id"]) == (422, "ERR-PYOCO-0017")


async def test_a_list_by_status_says_how_many_there_are(client: httpx.AsyncClient) -> None:
    runs = [await submit(client) for _ in range(3)]
    await client.post(f"/runs/{runs[0]}/cancel")
    await wait_for_status(client, runs[0], "CANCELLED")

    assert [(await ask(client, cursor="", limit=1, **query))["total"] for query in ({}, {"status": "PENDING"})] == [
        3,
        2,
    ]
    assert (await ask(client, cursor="", flow="hello"))["total"] is None


async def test_what_changed_after_a_time_excludes_that_time(client: httpx.AsyncClient) -> None:
    first, second = await submit(client), await submit(client)
    at = (await client.get(f"/runs/{first}")).json()["updated_at"]

    assert ids((await ask(client, updated_after=at))["items"]) == [second]
    assert ids((await ask(client, updated_after=at - 0.001))["items"]) == [second, first]


async def test_runs_are_found_by_submission_time_and_by_the_beginning_of_their_ids(client: httpx.AsyncClient) -> None:
    runs = [await submit(client) for _ in range(3)]
    times = [(await client.get(f"/runs/{run_id}")).json()["submitted_at"] for run_id in runs]
    # A float of seconds is finer than the microseconds of ISO 8601.
    written = datetime.fromtimestamp(times[1] - 1e-6, UTC).isoformat()

    assert ids(await ask(client, submitted_after=times[1])) == runs[:0:-1]
    assert ids(await ask(client, submitted_after=written, flow="hello")) == runs[:0:-1]
    assert ids(await ask(client, submitted_before=times[1])) == runs[:1]
    assert ids(await ask(client, submitted_after=times[1], submitted_before=times[2])) == [runs[1]]
    assert ids(await ask(client, submitted_after="2999-01-01")) == []
    assert ids(await ask(client, id_prefix=runs[1])) == [runs[1]]
    assert ids(await ask(client, id_prefix=runs[1][:4], limit=2)) == runs[:0:-1]
    first = await ask(client, submitted_before=times[2], cursor="", limit=1)
    assert ids(first["items"]) == [runs[1]]
    rest = await ask(client, submitted_before=times[2], cursor=first["next_cursor"])
    assert ids(rest["items"]) == [runs[0]]
    other = await client.get("/runs", params={"submitted_before": times[1], "cursor": first["next_cursor"]})
    assert (other.status_code, other.json()["err_id"]) == (422, "ERR-PYOCO-0017")


@pytest.mark.parametrize("include", [[], ["full"]])
async def test_pages_are_consecutive_to_the_end(client: httpx.AsyncClient, include: list[str]) -> None:
    runs = [await submit(client) for _ in range(5)]

    pages = [await ask(client, cursor="", limit=2, include=include)]
    while pages[-1]["next_cursor"] is not None:
        pages.append(await ask(client, cursor=pages[-1]["next_cursor"], limit=2, include=include))

    assert [ids(page["items"]) for page in pages] == [[runs[4], runs[3]], [runs[2], runs[1]], [runs[0]]]
    assert all(("params" in item) is bool(include) for page in pages for item in page["items"])


async def test_a_run_that_changes_between_pages_is_listed_last_in_its_newer_state(client: httpx.AsyncClient) -> None:
    runs = [await submit(client) for _ in range(4)]
    first = await ask(client, cursor="", limit=2)

    await client.post(f"/runs/{runs[0]}/cancel")
    await wait_for_status(client, runs[0], "CANCELLED")
    rest = await ask(client, cursor=first["next_cursor"], limit=5)

    assert ids(first["items"]) == [runs[3], runs[2]]
    assert [(item["run_id"], item["status"]) for item in rest["items"]] == [
        (runs[1], "PENDING"),
        (runs[0], "CANCELLED"),
    ]
    assert rest["next_cursor"] is None


async def test_a_cursor_continues_at_another_gateway_and_after_a_lost_index(
    client: httpx.AsyncClient, config: NatsBackendConfig, tmp_path: Path
) -> None:
    runs = [await submit(client) for _ in range(3)]
    first = await ask(client, cursor="", limit=1)

    async with serving(gateway_settings(config.nats_url, tmp_path / "other")) as other:
        second = await ask(other, cursor=first["next_cursor"], limit=1)
    async with serving(gateway_settings(config.nats_url, tmp_path / "new")) as new:
        third = await ask(new, cursor=second["next_cursor"], limit=1)

    assert [ids(page["items"]) for page in (first, second, third)] == [[runs[2]], [runs[1]], [runs[0]]]
    assert third["next_cursor"] is None


async def test_full_runs_above_the_size_limit_end_a_page_or_become_summaries(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [await submit(client, params={"text": "x" * 5000}) for _ in range(4)]
    monkeypatch.setattr(lists, "MAX_WHOLE_BYTES", 8_000)

    array = await ask(client, include="full")
    pages = [await ask(client, cursor="", include="full")]
    while pages[-1]["next_cursor"] is not None:
        pages.append(await ask(client, cursor=pages[-1]["next_cursor"], include="full"))

    assert ids(array) == runs[::-1]
    assert ["params" in item for item in array] == [True, False, False, False]
    assert [ids(page["items"]) for page in pages] == [[run_id] for run_id in runs[::-1]]
    assert all("params" in page["items"][0] for page in pages)


async def test_an_invalid_query_is_rejected_with_the_name_of_its_parameter(client: httpx.AsyncClient) -> None:
    for query, named in BAD_QUERIES:
        response = await client.get(f"/runs?{query}")

        problem = response.json()
        assert (response.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0017"), query
        assert problem["detail"].startswith(named)
        assert len(problem["detail"]) < 500


async def test_a_cursor_is_valid_only_for_its_filters(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await submit(client)
    cursor = (await ask(client, cursor="", limit=1))["next_cursor"]

    response = await client.get("/runs", params={"cursor": cursor, "status": "PENDING"})

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert "other filters" in response.json()["detail"]
    assert len((await ask(client, cursor=cursor, limit=200))["items"]) == 2


async def test_a_list_that_lacks_this_gateways_last_write_is_bounded_and_has_a_header(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "OWN_WRITE_WAIT_SEC", 0.05)
    await submit(client)
    fresh = await client.get("/runs")
    monkeypatch.setattr("pyoco_server.services.projections.indexer.Indexer._move_to", lambda self, sequence: None)
    await submit(client)

    async with asyncio.timeout(5.0):
        stale = await client.get("/runs")

    assert (fresh.status_code, stale.status_code) == (200, 200)
    assert "pyoco-list-stale" not in fresh.headers
    assert stale.headers["pyoco-list-stale"] == "true"
    assert "pyoco_stale_lists_total 0.0" not in (await client.get("/metrics")).text
