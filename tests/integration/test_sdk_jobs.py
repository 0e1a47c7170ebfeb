"""Jobs at a real gateway on a real broker: lists, labels, logs, and restarts in between."""

from __future__ import annotations

import asyncio
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
from support.hand import Hand
from support.samples import new_run_id
from support.streams import PATIENCE_SEC, Gateway, listening
from support.tcp_proxy import TcpProxy
from support.twins import Twin
from support.written import Writer, numbered


class Person:
    """Calls the client in a thread, beside the loop in which the gateway runs."""

    def __init__(self, url: str) -> None:
        self._twin = Twin(url)

    async def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        async with asyncio.timeout(PATIENCE_SEC):
            return await asyncio.to_thread(self._twin.ask, method, *arguments, **named)

    async def take(self, method: str, *arguments: Any, **named: Any) -> list[Any]:
        async with asyncio.timeout(PATIENCE_SEC):
            return await asyncio.to_thread(lambda: self._twin.take(method, *arguments, **named))


@pytest.fixture
def person(gateway: Gateway) -> Person:
    return Person(url(gateway))


def url(gateway: Gateway) -> str:
    return f"http://127.0.0.1:{gateway.port}"


def messages(entries: list[JobLogEntry]) -> list[str]:
    return [entry["message"] for entry in entries]


async def listed(person: Person, job_ids: list[str], **query: Any) -> None:
    """Return as soon as the list has just these jobs."""
    async with asyncio.timeout(PATIENCE_SEC):
        while [job["id"] for job in await person.take("iter_jobs", **query)] != job_ids:
            continue


async def begun(person: Person, stores: Stores, *texts: str, **wanted: Any) -> tuple[str, Writer]:
    """A job that runs and has written this, and what it goes on writing with."""
    job_id: str = (await person.ask("submit_job", {}, **wanted))["id"]
    await Hand(stores).start(job_id)
    writer = Writer(stores.run_logs, RunId(job_id))
    if texts:
        await writer.write(*texts)
    return job_id, writer


async def test_a_job_has_the_submitted_values(person: Person) -> None:
    wanted = {"flow": "report", "tag": "gpu", "tags": ["urgent", "a/b"], "timeout_sec": 60.0}

    job = await person.ask("submit_job", {"input": "data.csv"}, **wanted, idempotency_key="once")
    again = await person.ask("submit_job", {"input": "data.csv"}, **wanted, idempotency_key="once")
    shown = await person.ask("get_job", job["id"])

    assert job == again == shown
    assert (job["status"], job["flow"], job["tag"], job["tags"]) == ("pending", "report", "gpu", ["urgent", "a/b"])
    assert (job["parameters"], job["timeoutSec"]) == ({"input": "data.csv"}, 60.0)
    with pytest.raises(IdempotencyConflict):
        await person.ask("submit_job", {"input": "other.csv"}, **wanted, idempotency_key="once")


async def test_jobs_are_listed_by_their_labels_and_status_newest_first(person: Person) -> None:
    first, second, third = [
        (await person.ask("submit_job", {}, tags=tags))["id"] for tags in (["x"], ["x", "y"], ["y", "日本語"])
    ]

    await listed(person, [third, second, first], limit=1)
    await listed(person, [second], tags=["x", "y"])
    await listed(person, [third], tags="日本語", status="pending")
    await listed(person, [], status="failed")
    page = await person.ask("list_jobs", limit=2)
    rest = await person.ask("list_jobs", limit=2, next_token=page["nextToken"])

    assert [job["id"] for job in page["jobs"] + rest["jobs"]] == [third, second, first]
    assert [(one["tag"], one["count"]) for one in await person.take("iter_tags", limit=1)] == [
        ("x", 2),
        ("y", 2),
        ("日本語", 1),
    ]
    assert (await person.ask("list_tags", "日"))["tags"] == [{"tag": "日本語", "count": 1}]


async def test_labels_are_added_and_removed_also_on_a_finished_job(person: Person, stores: Stores) -> None:
    job_id, _ = await begun(person, stores, tags=["a"])
    await Hand(stores).complete(job_id)

    added = await person.ask("add_job_tag", job_id, "seen/by ann?#%41")
    twice = await person.ask("add_job_tag", job_id, "seen/by ann?#%41")
    await person.ask("remove_job_tag", job_id, "a")
    await person.ask("remove_job_tag", job_id, "never had")
    kept = await person.ask("job_tags", job_id)
    await person.ask("remove_job_tag", job_id, "seen/by ann?#%41")

    assert added == twice == ["a", "seen/by ann?#%41"]
    assert kept == ["seen/by ann?#%41"]
    assert await person.ask("job_tags", job_id) == []


async def test_missing_jobs_and_invalid_queries_are_errors(person: Person) -> None:
    nobody = str(new_run_id())

    for method in ("get_job", "job_tags", "job_logs"):
        with pytest.raises(RunNotFound) as caught:
            await person.ask(method, nobody)
        assert (caught.value.err_id, caught.value.code) == ("ERR-PYOCO-0005", "EXECUTION_NOT_FOUND")
    with pytest.raises(RunNotFound):
        await person.take("follow_job_logs", nobody)
    with pytest.raises(InvalidRequest) as refused:
        await person.ask("list_jobs", status="lost")
    assert refused.value.hint


async def test_a_log_is_read_page_by_page_by_its_end_by_task_and_by_level(person: Person, stores: Stores) -> None:
    job_id, writer = await begun(person, stores, *numbered(1, 5))
    await writer.write("trouble", task="save", level="ERROR")

    first = await person.ask("job_logs", job_id, limit=2)
    rest = await person.ask("job_logs", job_id, since_token=first["nextToken"])
    tail = await person.ask("job_logs", job_id, tail=2)
    chosen = await person.ask("job_logs", job_id, task="save", level="WARNING")

    assert messages(first["entries"] + rest["entries"]) == [*numbered(1, 5), "trouble"]
    assert messages(tail["entries"]) == ["5", "trouble"]
    assert messages(chosen["entries"]) == ["trouble"]
    assert (rest["complete"], rest["entries"][-1]["timestamp"]) == (False, "2023-11-14T22:13:20.250Z")


async def test_a_download_is_resumed_until_the_log_is_complete(person: Person, stores: Stores, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    job_id, writer = await begun(person, stores, "größer", "漢字")

    first = await person.ask("download_job_log", job_id, path)
    nothing = await person.ask("download_job_log", job_id, path)
    await writer.write("😀")
    await Hand(stores).complete(job_id)
    rest = await person.ask("download_job_log", job_id, path)
    last = await person.ask("download_job_log", job_id, path)

    assert path.read_text("utf-8") == "größer\n漢字\n😀\n"
    assert first == {"bytes_written": 16, "size_bytes": 16, "complete": False}
    assert nothing == {"bytes_written": 0, "size_bytes": 16, "complete": False}
    assert rest == {"bytes_written": 5, "size_bytes": 21, "complete": True}
    assert last == {"bytes_written": 0, "size_bytes": 21, "complete": True}


async def test_a_file_that_is_no_beginning_of_the_log_is_not_changed(
    person: Person, stores: Stores, tmp_path: Path
) -> None:
    job_id, _ = await begun(person, stores, "1")
    path = tmp_path / "notes.txt"
    path.write_text("longer than the log")

    with pytest.raises(ValueError, match="it is not the beginning of this log"):
        await person.ask("download_job_log", job_id, path)
    await person.ask("download_job_log", job_id, path, resume=False)

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
    gateway: Gateway, stores: Stores, wanted: dict[str, Any], shown: list[str]
) -> None:
    job_id, writer = await begun(Person(url(gateway)), stores, *numbered(1, 3))

    async with AsyncPyocoHttpClient(url(gateway)) as client, client.follow_job_logs(job_id, **wanted) as lines:
        seen = [await anext(lines)] if "level" not in wanted else []
        assert lines.status is None
        await writer.write("late", task="save", level="ERROR")
        await writer.write("5")
        await Hand(stores).fail(job_id, "no more paper")
        async with asyncio.timeout(PATIENCE_SEC):
            seen += [entry async for entry in lines]

    assert messages(seen) == shown
    assert lines.status == "failed"
    assert lines.job is not None
    assert lines.job["error"] == "no more paper"


async def test_following_continues_at_its_place(gateway: Gateway, stores: Stores) -> None:
    job_id, writer = await begun(Person(url(gateway)), stores, *numbered(1, 5))
    async with AsyncPyocoHttpClient(url(gateway)) as client:
        async with client.follow_job_logs(job_id) as lines:
            first = [await anext(lines), await anext(lines)]
        await writer.write("6")
        await Hand(stores).complete(job_id)
        async with client.follow_job_logs(job_id, after=lines.place) as more:
            rest = [entry async for entry in more]

    assert messages(first + rest) == numbered(1, 6)
    assert (lines.status, more.status) == (None, "completed")


async def test_no_line_is_lost_or_doubled_over_cut_connections_and_a_restart(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path, stores: Stores
) -> None:
    (tmp_path / "second").mkdir()
    second = gateway_settings(broker.url, tmp_path / "second")
    seen: list[JobLogEntry] = []
    async with listening(config) as before, TcpProxy(url(before)) as proxy:
        address = proxy.url.replace("nats://", "http://")
        job_id, writer = await begun(Person(url(before)), stores, *numbered(1, 10))
        async with (
            asyncio.timeout(60),
            AsyncPyocoHttpClient(address) as client,
            client.follow_job_logs(job_id) as lines,
        ):
            for first in range(11, 200, 20):
                await writer.write(*numbered(first, first + 19))
                seen += [await anext(lines) for _ in range(7)]
                proxy.cut()
            async with listening(second) as after:
                before.let_go()
                proxy.lead_to(url(after))
                proxy.cut()
                await writer.write(*numbered(211, 220))
                await Hand(stores).complete(job_id)
                seen += [entry async for entry in lines]

    assert messages(seen) == list(numbered(1, 220))
    assert [entry["n"] for entry in seen] == list(range(1, 221))
    assert lines.status == "completed"


async def test_a_download_resumes_over_cut_connections(gateway: Gateway, stores: Stores, tmp_path: Path) -> None:
    job_id, writer = await begun(Person(url(gateway)), stores)
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
