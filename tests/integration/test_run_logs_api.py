"""`GET /runs/{run_id}/logs` of a real gateway on a real broker: pages, tokens, the end, waiting, plain text."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from support.gateways import submit, wait_for_status
from support.printed import ANSWERED_SEC, finished, written_so_far
from support.workers import Working

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05)


async def page(client: httpx.AsyncClient, run_id: str, **query: Any) -> dict[str, Any]:
    response = await client.get(f"/runs/{run_id}/logs", params=query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def messages(*pages: dict[str, Any]) -> list[str]:
    return [item["message"] for one in pages for item in one["items"]]


async def test_a_finished_log_has_all_lines_with_all_fields(client: httpx.AsyncClient, worker: Working) -> None:
    run_id = await finished(client, worker, "one", "two")

    body = await page(client, run_id)

    assert body["run_id"] == run_id
    assert body["complete"] is True
    assert body["items"][1] == {
        "n": 2,
        "ts": 1_700_000_000.0,
        "task": "load",
        "level": "INFO",
        "stream": "stdout",
        "message": "two",
        "attempt": 1,
    }


async def test_pages_have_no_gap_and_no_overlap(client: httpx.AsyncClient, worker: Working) -> None:
    written = [f"line {number:05} " + "x" * 200 for number in range(2500)]  # over several chunks
    run_id = await finished(client, worker, *written)

    pages = [await page(client, run_id, limit=700)]
    while not pages[-1]["complete"]:
        pages.append(await page(client, run_id, limit=700, since_token=pages[-1]["next_token"]))

    assert messages(*pages) == written
    assert [len(one["items"]) for one in pages] == [700, 700, 700, 400]
    assert [item["n"] for one in pages for item in one["items"]] == list(range(1, 2501))
    again = await page(client, run_id, since_token=pages[-1]["next_token"])
    assert (again["items"], again["complete"]) == ([], True)


async def test_a_wait_ends_with_the_first_line_and_with_the_end(client: httpx.AsyncClient, worker: Working) -> None:
    run_id = await submit(client)
    runner = await worker.executor.begun()
    async with asyncio.timeout(ANSWERED_SEC):
        waiting = asyncio.create_task(page(client, run_id, wait_sec=30))
        runner.write("news")
        first = await waiting
        waiting = asyncio.create_task(page(client, run_id, wait_sec=30, since_token=first["next_token"]))
        runner.end()
        second = await waiting

    assert (messages(first), first["complete"]) == (["news"], False)
    assert (messages(second), second["complete"]) == ([], True)


async def test_a_wait_that_times_out_returns_an_empty_page_with_a_token(
    client: httpx.AsyncClient, worker: Working
) -> None:
    run_id = await submit(client)
    runner = await worker.executor.begun()

    nothing = await page(client, run_id, wait_sec=0.05)
    runner.write("late")
    runner.end()
    await wait_for_status(client, run_id, "COMPLETED")

    assert (nothing["items"], nothing["complete"]) == ([], False)
    assert messages(await page(client, run_id, since_token=nothing["next_token"])) == ["late"]


async def test_a_run_that_waits_in_the_queue_has_an_empty_log(client: httpx.AsyncClient) -> None:
    body = await page(client, await submit(client))

    assert (body["items"], body["complete"]) == ([], False)


async def test_plain_text_contains_the_lines_and_a_header_the_next_token(
    client: httpx.AsyncClient, worker: Working
) -> None:
    run_id = await finished(client, worker, "größer", "", "<script>")
    ask = {"headers": {"Accept": "text/plain"}}

    first = await client.get(f"/runs/{run_id}/logs?limit=2", **ask)  # type: ignore[arg-type]
    token = first.headers["x-next-token"]
    second = await client.get(f"/runs/{run_id}/logs", params={"since_token": token}, **ask)  # type: ignore[arg-type]

    assert first.headers["content-type"] == "text/plain; charset=utf-8"
    assert (first.text, first.headers["x-log-complete"]) == ("größer\n\n", "false")
    assert (second.text, second.headers["x-log-complete"]) == ("<script>\n", "true")
    assert second.headers["x-content-type-options"] == "nosniff"


async def test_a_page_begins_with_any_line_and_says_how_much_is_stored(
    client: httpx.AsyncClient, worker: Working
) -> None:
    run_id = await finished(client, worker, *(f"line {number:05} " + "x" * 200 for number in range(1, 1501)))

    middle = await page(client, run_id, from_line=1234, limit=2)
    behind = await page(client, run_id, from_line=1501)

    assert [item["n"] for item in middle["items"]] == [1234, 1235]
    assert (middle["scanned_to"], middle["lines"], middle["bytes"]) == (1235, 1500, 1500 * 212)
    assert (behind["items"], behind["complete"], behind["scanned_to"]) == ([], True, 1500)
    behind_it = await page(client, run_id, since_token=middle["next_token"], limit=1)
    assert [item["n"] for item in behind_it["items"]] == [1236]


async def test_a_search_finds_lines_of_the_whole_log(client: httpx.AsyncClient, worker: Working) -> None:
    texts = ["Needle" if number in (3, 900, 1700) else "hay " + "x" * 200 for number in range(1, 1701)]
    run_id = await finished(client, worker, *texts)

    found = (await client.get(f"/runs/{run_id}/logs/matches", params={"q": "needle"})).raise_for_status().json()
    rest: dict[str, str | int] = {"q": "needle", "from_line": 4, "limit": 1}
    part = (await client.get(f"/runs/{run_id}/logs/matches", params=rest)).raise_for_status().json()

    assert found["numbers"] == [3, 900, 1700]
    assert (found["complete"], found["scanned_to"], found["lines"]) == (True, 1700, 1700)
    assert (part["numbers"], part["complete"]) == ([900], False)
    assert 900 <= part["scanned_to"] < 1700
    assert messages(await page(client, run_id, q="NEEDLE")) == []
    assert messages(await page(client, run_id, q="Needle", task="load", level="INFO")) == ["Needle"] * 3
    assert messages(await page(client, run_id, q="needle", level="ERROR")) == []


async def test_a_search_of_a_growing_log_continues_where_it_was(client: httpx.AsyncClient, worker: Working) -> None:
    run_id = await submit(client)
    runner = await worker.executor.begun()
    runner.write("needle")
    await written_so_far(client, run_id, 1)
    first = (await client.get(f"/runs/{run_id}/logs/matches", params={"q": "needle"})).json()
    runner.write("hay", "needle")
    runner.end()
    await wait_for_status(client, run_id, "COMPLETED")

    query = {"q": "needle", "since_token": first["next_token"]}
    second = (await client.get(f"/runs/{run_id}/logs/matches", params=query)).json()

    assert (first["numbers"], first["complete"], first["scanned_to"]) == ([1], False, 1)
    assert (second["numbers"], second["complete"]) == ([3], True)


@pytest.mark.parametrize(
    "query",
    [{}, {"q": ""}, {"q": "x" * 201}, {"q": "x", "limit": 100_001}, {"level": "LOUD"}, {"q": "x", "from_line": 0}],
)
async def test_an_invalid_search_is_rejected(client: httpx.AsyncClient, query: dict[str, Any]) -> None:
    run_id = await submit(client)

    response = await client.get(f"/runs/{run_id}/logs/matches", params=query)

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0043")


@pytest.mark.parametrize(
    "query",
    [
        {"since_token": "nonsense"},
        {"from_line": 0},
        {"from_line": 1, "tail": 1},
        {"from_line": 1, "since_token": "nonsense"},
        {"since_token": "a" * 300},
        {"limit": 0},
        {"limit": 10_001},
        {"tail": 0},
        {"wait_sec": 31},
        {"wait_sec": "nan"},
    ],
    ids=str,
)
async def test_an_invalid_query_is_rejected(client: httpx.AsyncClient, query: dict[str, Any]) -> None:
    run_id = await submit(client)

    response = await client.get(f"/runs/{run_id}/logs", params=query)

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0043")


async def test_a_token_of_another_run_or_with_a_tail_is_rejected(client: httpx.AsyncClient) -> None:
    run_id, other_id = await submit(client), await submit(client)
    token = (await page(client, run_id))["next_token"]

    for query in ({"since_token": token}, {"since_token": token, "tail": 5}):
        assert (await client.get(f"/runs/{other_id}/logs", params=query)).status_code == 422


async def test_a_missing_run_is_a_404(client: httpx.AsyncClient) -> None:
    response = await client.get("/runs/0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11/logs")

    assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0005")
