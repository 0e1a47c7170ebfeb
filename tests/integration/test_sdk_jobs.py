"""Jobs at a real gateway on a real broker: lists, labels, logs, and restarts in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.http_client import (
    AsyncPyocoHttpClient,
    IdempotencyConflict,
    InvalidRequest,
    JobLogEntry,
    RunNotFound,
)
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.gateways import gateway_settings
from support.run_driver import RunDriver
from support.samples import new_run_id
from support.streams import PATIENCE_SEC, Gateway, listening
from support.tcp_proxy import TcpProxy
from support.written import Writer, numbered


@pytest.fixture
async def sdk(gateway: Gateway) -> AsyncIterator[AsyncPyocoHttpClient]:
    async with AsyncPyocoHttpClient(url(gateway)) as client:
        yield client


def url(gateway: Gateway) -> str:
    return f"http://127.0.0.1:{gateway.port}"


def messages(entries: list[JobLogEntry]) -> list[str]:
    return [entry["message"] for entry in entries]


async def listed(sdk: AsyncPyocoHttpClient, job_ids: list[str], **query: Any) -> None:
    """Waits until the list has exactly these jobs."""
    async with asyncio.timeout(PATIENCE_SEC):
        while [job["id"] async for job in sdk.iter_jobs(**query)] != job_ids:
            continue


async def begun(sdk: AsyncPyocoHttpClient, stores: Stores, *texts: str, **wanted: Any) -> tuple[str, Writer]:
    """A running job that has written these lines, and its writer."""
    job_id: str = (await sdk.submit_job({}, **wanted))["id"]
    await RunDriver(stores).start(job_id)
    writer = Writer(stores.run_logs, RunId(job_id))
    if texts:
        await writer.write(*texts)
    return job_id, writer


async def test_a_job_has_the_submitted_values(sdk: AsyncPyocoHttpClient) -> None:
    wanted: dict[str, Any] = {"flow": "report", "tag": "gpu", "tags": ["urgent", "a/b"], "timeout_sec": 60.0}

    job = await sdk.submit_job({"input": "data.csv"}, **wanted, idempotency_key="once")
    again = await sdk.submit_job({"input": "data.csv"}, **wanted, idempotency_key="once")
    shown = await sdk.get_job(job["id"])

    assert job == again == {**shown, "warnings": ["no worker is running now, and the run waits for one"]}
    assert (job["status"], job["flow"], job["tag"], job["tags"]) == ("pending", "report", "gpu", ["urgent", "a/b"])
    assert (job["parameters"], job["timeoutSec"]) == ({"input": "data.csv"}, 60.0)
    with pytest.raises(IdempotencyConflict):
        await sdk.submit_job({"input": "other.csv"}, **wanted, idempotency_key="once")


async def test_jobs_are_listed_by_their_labels_and_status_newest_first(sdk: AsyncPyocoHttpClient) -> None:
    first, second, third = [
        (await sdk.submit_job({}, tags=tags))["id"] for tags in (["x"], ["x", "y"], ["y", "日本語"])
    ]

    await listed(sdk, [third, second, first], limit=1)
    await listed(sdk, [second], tags=["x", "y"])
    await listed(sdk, [third], tags="日本語", status="pending")
    await listed(sdk, [], status="failed")
    page = await sdk.list_jobs(limit=2)
    rest = await sdk.list_jobs(limit=2, next_token=page["nextToken"])

    assert [job["id"] for job in page["jobs"] + rest["jobs"]] == [third, second, first]
    assert [(one["tag"], one["count"]) async for one in sdk.iter_tags(limit=1)] == [
        ("x", 2),
        ("y", 2),
        ("日本語", 1),
    ]
    assert (await sdk.list_tags("日"))["tags"] == [{"tag": "日本語", "count": 1}]


async def test_labels_are_added_and_removed_also_on_a_finished_job(sdk: AsyncPyocoHttpClient, stores: Stores) -> None:
    job_id, _ = await begun(sdk, stores, tags=["a"])
    await RunDriver(stores).complete(job_id)

    added = await sdk.add_job_tag(job_id, "seen/by ann?#%41")
    twice = await sdk.add_job_tag(job_id, "seen/by ann?#%41")
    await sdk.remove_job_tag(job_id, "a")
    await sdk.remove_job_tag(job_id, "never had")
    kept = await sdk.job_tags(job_id)
    await sdk.remove_job_tag(job_id, "seen/by ann?#%41")

    assert added == twice == ["a", "seen/by ann?#%41"]
    assert kept == ["seen/by ann?#%41"]
    assert await sdk.job_tags(job_id) == []


async def test_missing_jobs_and_invalid_queries_are_errors(sdk: AsyncPyocoHttpClient) -> None:
    missing = str(new_run_id())

    for method in ("get_job", "job_tags", "job_logs"):
        with pytest.raises(RunNotFound) as caught:
            await getattr(sdk, method)(missing)
        assert (caught.value.err_id, caught.value.code) == ("ERR-PYOCO-0005", "EXECUTION_NOT_FOUND")
    with pytest.raises(RunNotFound):
        [item async for item in sdk.follow_job_logs(missing)]
    with pytest.raises(InvalidRequest) as refused:
        await sdk.list_jobs(status="lost")
    assert refused.value.hint


async def test_a_log_is_read_page_by_page_by_its_end_by_task_and_by_level(
    sdk: AsyncPyocoHttpClient, stores: Stores
) -> None:
    job_id, writer = await begun(sdk, stores, *numbered(1, 5))
    await writer.write("trouble", task="save", level="ERROR")

    first = await sdk.job_logs(job_id, limit=2)
    rest = await sdk.job_logs(job_id, since_token=first["nextToken"])
    tail = await sdk.job_logs(job_id, tail=2)
    chosen = await sdk.job_logs(job_id, task="save", level="WARNING")

    assert messages(first["entries"] + rest["entries"]) == [*numbered(1, 5), "trouble"]
    assert messages(tail["entries"]) == ["5", "trouble"]
    assert messages(chosen["entries"]) == ["trouble"]
    assert (rest["complete"], rest["entries"][-1]["timestamp"]) == (False, "2023-11-14T22:13:20.250Z")


async def test_a_download_is_resumed_until_the_log_is_complete(
    sdk: AsyncPyocoHttpClient, stores: Stores, tmp_path: Path
) -> None:
    path = tmp_path / "job.log"
    job_id, writer = await begun(sdk, stores, "größer", "漢字")

    first = await sdk.download_job_log(job_id, path)
    nothing = await sdk.download_job_log(job_id, path)
    await writer.write("😀")
    await RunDriver(stores).complete(job_id)
    rest = await sdk.download_job_log(job_id, path)
    last = await sdk.download_job_log(job_id, path)

    assert path.read_text("utf-8") == "größer\n漢字\n😀\n"
    assert first == {"bytes_written": 16, "size_bytes": 16, "complete": False}
    assert nothing == {"bytes_written": 0, "size_bytes": 16, "complete": False}
    assert rest == {"bytes_written": 5, "size_bytes": 21, "complete": True}
    assert last == {"bytes_written": 0, "size_bytes": 21, "complete": True}


async def test_a_file_that_is_not_a_prefix_of_the_log_is_not_changed(
    sdk: AsyncPyocoHttpClient, stores: Stores, tmp_path: Path
) -> None:
    job_id, _ = await begun(sdk, stores, "1")
    path = tmp_path / "notes.txt"
    path.write_text("longer than the log")

    with pytest.raises(ValueError, match="it is not the beginning of this log"):
        await sdk.download_job_log(job_id, path)
    await sdk.download_job_log(job_id, path, resume=False)

    assert path.read_bytes() == b"1\n"


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({}, ["1", "2", "3", "late", "5"]),
        ({"tail": 1}, ["3", "late", "5"]),
        ({"level": "ERROR"}, ["late"]),
        ({"task": "load"}, ["1", "2", "3", "5"]),
    ],
    ids=["all", "tail", "level", "task"],
)
async def test_a_log_is_followed_to_the_end_of_its_job(
    sdk: AsyncPyocoHttpClient, stores: Stores, wanted: dict[str, Any], shown: list[str]
) -> None:
    job_id, writer = await begun(sdk, stores, *numbered(1, 3))

    async with sdk.follow_job_logs(job_id, **wanted) as lines:
        seen = [await anext(lines)] if "level" not in wanted else []
        assert lines.status is None
        await writer.write("late", task="save", level="ERROR")
        await writer.write("5")
        await RunDriver(stores).fail(job_id, "no more paper")
        async with asyncio.timeout(PATIENCE_SEC):
            seen += [entry async for entry in lines]

    assert messages(seen) == shown
    assert lines.status == "failed"
    assert lines.job is not None
    assert lines.job["error"] == "no more paper"


async def test_following_resumes_at_its_position(sdk: AsyncPyocoHttpClient, stores: Stores) -> None:
    job_id, writer = await begun(sdk, stores, *numbered(1, 5))
    async with sdk.follow_job_logs(job_id) as lines:
        first = [await anext(lines), await anext(lines)]
    await writer.write("6")
    await RunDriver(stores).complete(job_id)
    async with sdk.follow_job_logs(job_id, after=lines.place) as more:
        rest = [entry async for entry in more]

    assert messages(first + rest) == numbered(1, 6)
    assert (lines.status, more.status) == (None, "completed")


async def test_no_line_is_lost_or_duplicated_over_disconnects_and_a_restart(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path, stores: Stores
) -> None:
    (tmp_path / "second").mkdir()
    second = gateway_settings(broker.url, tmp_path / "second")
    seen: list[JobLogEntry] = []
    async with listening(config) as before, TcpProxy(url(before)) as proxy:
        address = proxy.url.replace("nats://", "http://")
        async with asyncio.timeout(60), AsyncPyocoHttpClient(address) as client:
            job_id, writer = await begun(client, stores, *numbered(1, 10))
            lines = client.follow_job_logs(job_id)
            for first in range(11, 200, 20):
                await writer.write(*numbered(first, first + 19))
                seen += [await anext(lines) for _ in range(7)]
                proxy.cut()
            async with listening(second) as after:
                before.disconnect_all()
                proxy.lead_to(url(after))
                proxy.cut()
                await writer.write(*numbered(211, 220))
                await RunDriver(stores).complete(job_id)
                seen += [entry async for entry in lines]

    assert messages(seen) == list(numbered(1, 220))
    assert [entry["n"] for entry in seen] == list(range(1, 221))
    assert lines.status == "completed"


async def test_a_download_resumes_over_cut_connections(
    gateway: Gateway, sdk: AsyncPyocoHttpClient, stores: Stores, tmp_path: Path
) -> None:
    job_id, writer = await begun(sdk, stores)
    for first in range(0, 20_000, 1000):
        await writer.write(*(f"{number:0200}" for number in range(first, first + 1000)))
    path = tmp_path / "job.log"
    async with TcpProxy(url(gateway)) as proxy, AsyncPyocoHttpClient(proxy.url.replace("nats", "http")) as client:
        proxy.hold_replies()
        downloading = asyncio.create_task(client.download_job_log(job_id, path))
        await proxy.reply_held()
        proxy.cut()
        async with asyncio.timeout(PATIENCE_SEC):
            received = await downloading

    assert path.read_bytes() == b"".join(b"%0200d\n" % number for number in range(20_000))
    assert received["size_bytes"] == 20_000 * 201
