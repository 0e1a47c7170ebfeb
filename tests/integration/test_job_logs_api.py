"""`GET /jobs/{id}/logs` of a real gateway on a real broker: tokens, filters, ETags, and byte ranges."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.services.context import Stores
from support.gateways import serving, submit, wait_for_status
from support.printed import ANSWERED_SEC, finished, written_so_far
from support.served import served
from support.workers import Working

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05)

TEXT = {"Accept": "text/plain"}
# Characters of one to four bytes, over several chunks.
LINES = [f"{number:04} größer 漢字 😀 " + "x" * (number % 300) for number in range(1500)]
WHOLE = "".join(f"{line}\n" for line in LINES).encode()


async def page(client: httpx.AsyncClient, job_id: str, **query: Any) -> dict[str, Any]:
    response = await client.get(f"/jobs/{job_id}/logs", params=query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def text(client: httpx.AsyncClient, job_id: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.get(f"/jobs/{job_id}/logs", headers=TEXT | named)


def messages(*pages: dict[str, Any]) -> list[str]:
    return [entry["message"] for one in pages for entry in one["entries"]]


async def test_an_entry_has_all_fields_of_a_line(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await finished(client, worker, "one", "two")

    response = await client.get(f"/jobs/{job_id}/logs")

    assert response.json()["complete"] is True
    assert response.json()["entries"][1] == {
        "timestamp": "2023-11-14T22:13:20.000Z",
        "message": "two",
        "n": 2,
        "task": "load",
        "level": "INFO",
        "stream": "stdout",
        "attempt": 1,
    }
    assert response.headers["cache-control"] == "private, no-cache"
    assert response.headers["vary"] == "Accept"
    assert "accept-ranges" not in response.headers


async def test_ranges_are_the_exact_bytes_of_the_log(
    client: httpx.AsyncClient, worker: Working, stores: Stores
) -> None:
    job_id = await finished(client, worker, *LINES)
    size, chance = len(WHOLE), random.Random(6)
    borders, sequence = [0], 0
    while (stored := await stores.run_logs.next(RunId(job_id), after=sequence)) is not None:
        borders.append(stored.chunk.next_byte)
        sequence = stored.sequence
    pairs = [(border - 1, border) for border in borders[1:-1]] + [(border, border + 2) for border in borders[:-1]]
    pairs += [tuple(sorted(chance.sample(range(size), 2))) for _ in range(30)]  # type: ignore[misc]
    pairs += [(0, size - 1), (size - 1, size - 1), (0, 0)]

    whole = await text(client, job_id)

    assert len(borders) > 3
    assert (whole.status_code, whole.content) == (200, WHOLE)
    assert whole.headers["content-length"] == str(size)
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert (whole.headers["accept-ranges"], whole.headers["x-content-type-options"]) == ("bytes", "nosniff")
    for first, last in pairs:
        part = await text(client, job_id, Range=f"bytes={first}-{last}")
        assert (part.status_code, part.content) == (206, WHOLE[first : last + 1]), (first, last)
        assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
        assert part.headers["etag"] == whole.headers["etag"]


async def test_a_range_after_the_end_gets_the_length_of_the_log(client: httpx.AsyncClient, worker: Working) -> None:
    job_id, empty_id = await finished(client, worker, "größer"), await submit(client)

    for job, requests, size in ((job_id, "bytes=9-", 9), (job_id, "bytes=-0", 9), (empty_id, "bytes=0-", 0)):
        refused = await text(client, job, Range=requests)

        assert (refused.status_code, refused.headers["content-range"]) == (416, f"bytes */{size}")
        assert refused.headers["content-type"] == "application/problem+json"
        assert (refused.json()["code"], refused.json()["status"]) == ("RANGE_NOT_SATISFIABLE", 416)
    nothing = await text(client, empty_id, Range="bytes=-5")
    assert (nothing.status_code, nothing.content, nothing.headers["content-length"]) == (200, b"", "0")


async def test_a_range_is_served_only_if_if_range_matches(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await submit(client)
    runner = await worker.executor.begun()
    runner.write("one")
    await written_so_far(client, job_id, 1)
    before = (await text(client, job_id)).headers["etag"]
    same = await text(client, job_id, Range="bytes=1-", If_Range=before)
    runner.write("two")
    runner.end()
    await wait_for_status(client, job_id, "COMPLETED")

    grown = [
        await text(client, job_id, Range="bytes=4-", If_Range=value)
        for value in (before, f"W/{before}", "Wed, 18 Feb 2026 12:00:00 GMT")
    ]
    now = (await text(client, job_id)).headers["etag"]

    assert (same.status_code, same.content) == (206, b"ne\n")
    assert [(one.status_code, one.content) for one in grown] == [(200, b"one\ntwo\n")] * 3
    assert now != before
    assert (await text(client, job_id, Range="bytes=4-", If_Range=now)).content == b"two\n"
    assert (await text(client, job_id, Range="bytes=99-", If_Range=before)).status_code == 200
    assert (await text(client, job_id, If_Range=now)).status_code == 200
    assert (await text(client, job_id, Range="bytes=4-")).content == b"two\n"


async def test_an_unchanged_log_is_a_304(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await finished(client, worker, "one", "two", "three")
    path = f"/jobs/{job_id}/logs"
    requests: list[tuple[str, dict[str, str]]] = [
        (path, {}),
        (path, TEXT),
        (f"{path}?tail=1", {}),
        (f"{path}?tail=1", TEXT),
        (f"{path}?limit=1", {}),
        (f"{path}?limit=1&waitSec=1", TEXT),
        (f"{path}?level=ERROR", {}),
        (f"{path}?task=load", {}),
    ]
    tags = [(await client.get(where, headers=headers)).headers["etag"] for where, headers in requests]

    assert len(set(tags)) == len(tags)
    assert all(tag.startswith('"') for tag in tags)
    for (where, headers), tag in zip(requests, tags, strict=True):
        for value in (tag, f"W/{tag}", f'"x,y", {tag}', "*"):
            again = await client.get(where, headers=headers | {"If-None-Match": value})
            assert (again.status_code, again.headers["etag"], again.content) == (304, tag, b""), (where, value)
            assert (again.headers["vary"], again.headers["cache-control"]) == ("Accept", "private, no-cache")
        for value in ('"x"', tag.strip('"'), f'{tag}, "'):
            assert (await client.get(where, headers=headers | {"If-None-Match": value})).status_code == 200, value
    # A matching ETag also takes precedence over a range.
    assert (await text(client, job_id, Range="bytes=99-", If_None_Match=tags[1])).status_code == 304
    # Two headers form one list.
    twice = [("If-None-Match", '"x"'), ("If-None-Match", tags[0])]
    assert (await client.get(path, headers=twice)).status_code == 304


async def test_the_etag_changes_with_every_line_and_the_end(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await submit(client)
    path = f"/jobs/{job_id}/logs"
    tags: list[tuple[str, str]] = []

    async def record_etags() -> None:
        as_json, as_text = await client.get(path), await text(client, job_id)
        tags.append((as_json.headers["etag"], as_text.headers["etag"]))

    await record_etags()
    runner = await worker.executor.begun()
    for number in range(1, 4):
        runner.write(f"line {number}")
        await written_so_far(client, job_id, number)
        await record_etags()
    runner.end()
    await wait_for_status(client, job_id, "COMPLETED")
    await record_etags()

    assert len({as_json for as_json, _ in tags}) == 5
    assert len({as_text for _, as_text in tags}) == 4
    assert tags[-1][1] == tags[-2][1]  # the end adds no byte


async def test_tokens_etags_and_ranges_are_valid_at_every_gateway_for_a_growing_log(
    config: NatsBackendConfig, client: httpx.AsyncClient, worker: Working
) -> None:
    job_id = await submit(client)
    runner = await worker.executor.begun()
    runner.write("one", "two", "three")
    await written_so_far(client, job_id, 3)
    token = (await page(client, job_id, limit=2))["nextToken"]
    got = (await text(client, job_id)).content
    runner.write("four")
    runner.end()
    await wait_for_status(client, job_id, "COMPLETED")
    tag, query_tag = [
        (await client.get(f"/jobs/{job_id}/logs", headers=headers)).headers["etag"] for headers in (TEXT, {})
    ]

    for _ in range(2):  # at a second gateway, and restarted
        async with serving(config) as another:
            assert messages(await page(another, job_id, sinceToken=token)) == ["three", "four"]
            assert got + (await text(another, job_id, Range=f"bytes={len(got)}-")).content == b"one\ntwo\nthree\nfour\n"
            assert (await text(another, job_id, If_None_Match=tag)).status_code == 304
            known = await another.get(f"/jobs/{job_id}/logs", headers={"If-None-Match": query_tag})
            assert known.status_code == 304


async def test_lines_are_filtered_by_task_and_level(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await submit(client)
    runner = await worker.executor.begun()
    for level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        runner.write(f"load {level}", task="load", level=level)
        runner.write(f"save {level}", task="save", level=level)
    runner.end()
    await wait_for_status(client, job_id, "COMPLETED")

    severe = await page(client, job_id, level="ERROR")
    saved = await page(client, job_id, task="save", level="WARNING")
    last = await page(client, job_id, task="load", tail=2)
    first = await page(client, job_id, task="load", limit=2)
    second = await page(client, job_id, task="load", limit=2, sinceToken=first["nextToken"])
    as_text = await client.get(f"/jobs/{job_id}/logs?task=save&level=ERROR", headers=TEXT)

    assert messages(severe) == ["load ERROR", "save ERROR", "load CRITICAL", "save CRITICAL"]
    assert messages(saved) == ["save WARNING", "save ERROR", "save CRITICAL"]
    assert [entry["n"] for entry in saved["entries"]] == [6, 8, 10]
    assert messages(last) == ["load ERROR", "load CRITICAL"]
    assert messages(first, second) == ["load DEBUG", "load INFO", "load WARNING", "load ERROR"]
    assert (await page(client, job_id, task="nobody"))["complete"] is True
    assert as_text.text == "save ERROR\nsave CRITICAL\n"
    assert as_text.headers["x-log-complete"] == "true"
    assert "accept-ranges" not in as_text.headers


async def test_a_wait_for_a_level_ignores_other_levels(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await submit(client)
    runner = await worker.executor.begun()
    async with asyncio.timeout(ANSWERED_SEC):
        waiting = asyncio.create_task(page(client, job_id, waitSec=30, level="ERROR"))
        runner.write("calm")
        await written_so_far(client, job_id, 1)
        runner.write("alarm", level="ERROR")
        alarmed = await waiting
        waiting = asyncio.create_task(page(client, job_id, waitSec=30, level="ERROR", sinceToken=alarmed["nextToken"]))
        runner.end()
        ended = await waiting

    assert (messages(alarmed), alarmed["complete"]) == (["alarm"], False)
    assert (messages(ended), ended["complete"]) == ([], True)


async def test_a_wait_with_an_etag_ends_with_a_new_line(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await submit(client)
    runner = await worker.executor.begun()
    path = f"/jobs/{job_id}/logs"
    tag = (await client.get(path)).headers["etag"]

    in_vain = await client.get(f"{path}?waitSec=0.05", headers={"If-None-Match": tag})
    async with asyncio.timeout(ANSWERED_SEC):
        waiting = asyncio.create_task(client.get(f"{path}?waitSec=30&tail=1", headers={"If-None-Match": tag}))
        runner.write("one", "two")
        body = await waiting
        again = await client.get(f"{path}?tail=1", headers={"If-None-Match": body.headers["etag"]})
    runner.end()

    assert in_vain.status_code == 304
    assert messages(body.json()) == ["two"]
    assert again.status_code == 304


async def test_a_tail_continues_with_its_token(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await submit(client)
    runner = await worker.executor.begun()
    runner.write(*LINES[:500])
    await written_so_far(client, job_id, 500)
    last = await page(client, job_id, tail=400)
    runner.write(*LINES[500:])
    runner.end()
    await wait_for_status(client, job_id, "COMPLETED")

    assert (messages(last), last["complete"]) == (LINES[100:500], False)
    assert messages(await page(client, job_id, sinceToken=last["nextToken"])) == LINES[500:]


@pytest.mark.parametrize(
    "query",
    [
        "sinceToken=nonsense",
        "sinceToken=" + "a" * 300,
        "limit=0",
        "limit=10001",
        "limit=1e3",
        "tail=0",
        "tail=5&tail=6",
        "waitSec=31",
        "waitSec=nan",
        "level=error",
        "level=",
        "task=",
        "since_token=x",
        "%F0%9F%98%80=%00",
    ],
)
async def test_an_invalid_query_is_rejected(client: httpx.AsyncClient, query: str) -> None:
    job_id = await submit(client)

    for headers in ({}, TEXT):
        response = await client.get(f"/jobs/{job_id}/logs?{query}", headers=headers)

        assert (response.status_code, response.json()["errId"]) == (422, "ERR-PYOCO-0043")
        assert response.headers["content-type"] == "application/problem+json"


async def test_a_range_together_with_a_query_is_rejected(client: httpx.AsyncClient, worker: Working) -> None:
    job_id = await finished(client, worker, "one", "two")
    path = f"/jobs/{job_id}/logs?tail=1"

    refused = await client.get(path, headers=TEXT | {"Range": "bytes=0-1"})
    of_another_unit = await client.get(path, headers=TEXT | {"Range": "lines=0-1"})
    of_json = await client.get(path, headers={"Range": "bytes=0-1"})

    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_LOG_QUERY")
    assert "Range" in refused.json()["detail"]
    assert (of_another_unit.status_code, of_another_unit.content) == (200, b"two\n")
    assert (of_json.status_code, messages(of_json.json())) == (200, ["two"])


async def test_a_token_of_another_job_or_with_a_tail_is_rejected(client: httpx.AsyncClient) -> None:
    job_id, other_id = await submit(client), await submit(client)
    token = (await page(client, job_id))["nextToken"]

    assert (await client.get(f"/jobs/{other_id}/logs", params={"sinceToken": token})).status_code == 422
    assert (await client.get(f"/jobs/{job_id}/logs", params={"sinceToken": token, "tail": 5})).status_code == 422


@pytest.mark.parametrize("job_id", ["0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11", "nonsense"])
async def test_a_missing_job_is_a_404(client: httpx.AsyncClient, job_id: str) -> None:
    for headers in ({}, TEXT, TEXT | {"Range": "bytes=0-"}, {"If-None-Match": "*"}):
        response = await client.get(f"/jobs/{job_id}/logs", headers=headers)

        assert (response.status_code, response.json()["errId"]) == (404, "ERR-PYOCO-0005")


async def test_head_has_the_headers_of_get_and_ignores_ranges(
    config: NatsBackendConfig, client: httpx.AsyncClient, worker: Working
) -> None:
    job_id = await finished(client, worker, *LINES)
    path = f"/jobs/{job_id}/logs"
    compared = ("content-length", "content-type", "etag", "vary", "accept-ranges", "x-next-token")

    with served(config) as address:
        async with httpx.AsyncClient(base_url=address) as outside:
            for where, headers in ((path, TEXT), (path, {}), (f"{path}?tail=5", TEXT)):
                shown = await outside.get(where, headers=headers)
                body = await outside.head(where, headers=headers | {"Range": "bytes=0-1"})

                assert (body.status_code, body.content) == (200, b"")
                assert [body.headers.get(name) for name in compared] == [shown.headers.get(name) for name in compared]
                known = await outside.head(where, headers=headers | {"If-None-Match": shown.headers["etag"]})
                assert known.status_code == 304
            assert shown.content.count(b"\n") == 5
            assert (await outside.get(path, headers=TEXT | {"Range": "bytes=100-"})).content == WHOLE[100:]
