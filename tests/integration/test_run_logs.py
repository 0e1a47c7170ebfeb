"""Logs of real runners of a real worker on a real broker: every way to write, crashes, and outages."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.bootstrap import open_stores
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.services.executions.submit import SubmitService
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.supervisor.supervisor import Supervisor
from support.broker import Broker
from support.programs import worker as worker_program
from support.stores import settings
from support.world import USER

FLOWS = f"{Path(__file__).with_name('log_flows.py')}:resolve"
PATIENCE_SEC = 60.0
AGAIN_SEC = 0.01

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runner processes need /proc, pidfd and a subreaper")


@pytest_asyncio.fixture
async def stores(broker: Broker) -> AsyncIterator[Stores]:
    async with open_stores(settings(broker.url), name="test") as opened:
        yield opened


@asynccontextmanager
async def at_work(broker: Broker, **changed: Any) -> AsyncIterator[None]:
    """A worker with real runners and its own connection, for the duration of the block."""
    config = settings(broker.url, consumer_ack_wait_sec=30.0, run_heartbeat_interval_sec=0.05, **changed)
    stop, at_once = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(PATIENCE_SEC), open_stores(config, name="worker") as stores:
        pool = RunnerPool(FLOWS, 1, lambda run_id, lines: None)
        supervisor = Supervisor(stores, pool, config, WorkerId("w-1"), ["default"], 1)
        working = asyncio.create_task(supervisor.run(stop, at_once=at_once))
        try:
            yield
        finally:
            stop.set()
            at_once.set()
            await working


async def begin(stores: Stores, flow_name: str, **params: Any) -> RunId:
    request = Request(flow_name=flow_name, tag="default", input=params)
    return (await SubmitService(stores=stores).submit(request, ("default",), USER)).execution_id


async def until(stores: Stores, run_id: RunId, *statuses: str) -> dict[str, Any]:
    while True:
        loaded = await stores.snapshots.load(run_id)
        if loaded is not None and loaded.plain["status"] in statuses:
            return loaded.plain
        await asyncio.sleep(AGAIN_SEC)


async def ended(stores: Stores, run_id: RunId) -> dict[str, Any]:
    return await until(stores, run_id, "COMPLETED", "FAILED", "CANCELLED")


async def lines_of(stores: Stores, run_id: RunId) -> list[tuple[int, LogLine]]:
    """Every stored line with its attempt; their numbers must be without gaps."""
    found: list[tuple[int, LogLine]] = []
    after = 0
    while (one := await stores.run_logs.next(run_id, after=after)) is not None:
        assert one.chunk.first_line == len(found) + 1
        found += [(one.chunk.attempt, line) for line in one.chunk.lines]
        after = one.sequence
    return found


async def texts_of(stores: Stores, run_id: RunId) -> list[str]:
    return [line.text for _, line in await lines_of(stores, run_id)]


async def written(stores: Stores, run_id: RunId, count: int) -> None:
    """Waits until `count` lines are stored."""
    news = asyncio.Event()
    stop = await stores.run_logs.listen(run_id, news.set)
    while (last := await stores.run_logs.last(run_id)) is None or last.chunk.next_line <= count:
        await news.wait()
        news.clear()
    stop()


async def run_of(broker: Broker, stores: Stores, flow_name: str, **params: Any) -> tuple[dict[str, Any], RunId]:
    async with at_work(broker):
        run_id = await begin(stores, flow_name, **params)
        return await ended(stores, run_id), run_id


# --- every way to write -----------------------------------------------------------------------------------------------


async def test_output_of_a_task_is_stored_once_in_order_with_task_stream_and_level(
    broker: Broker, stores: Stores
) -> None:
    run, run_id = await run_of(broker, stores, "every_way")

    found = [line for _, line in await lines_of(stores, run_id)]
    assert [(line.text, line.task, line.stream, line.level) for line in found] == [
        ("by print", "every_way", "stdout", "INFO"),
        ("two lines", "every_way", "stdout", "INFO"),
        ("at once", "every_way", "stdout", "INFO"),
        ("by stderr", "every_way", "stderr", "WARNING"),
        ("by the first stdout", "every_way", "stdout", "INFO"),
        ("by a descriptor", "every_way", "output", "INFO"),
        ("by a program", "every_way", "output", "INFO"),
        ("by logging", "every_way", "logging", "INFO"),
        ("by logging, bad", "every_way", "logging", "ERROR"),
        ("by a thread", "every_way", "stdout", "INFO"),
        ("no newline", "every_way", "stdout", "INFO"),
        ("by another program", "second", "output", "INFO"),
        ("by the second", "second", "stdout", "INFO"),
    ]
    assert run["status"] == "COMPLETED"
    times = [line.at for line in found if line.stream != "output"]
    assert times == sorted(times)
    assert run["start_time"] <= times[0] <= times[-1] <= run["end_time"]


async def test_logging_configured_by_user_code_is_captured_once_in_its_format(broker: Broker, stores: Stores) -> None:
    _, run_id = await run_of(broker, stores, "configured")

    assert [(line.text, line.stream, line.level) for _, line in await lines_of(stores, run_id)] == [
        ("DEBUG|fine", "logging", "DEBUG"),
        ("WARNING|hm", "logging", "WARNING"),
    ]


async def test_output_of_parallel_tasks_is_kept_apart(broker: Broker, stores: Stores) -> None:
    _, run_id = await run_of(broker, stores, "parallel")

    found = [line for _, line in await lines_of(stores, run_id)]
    for name in ("left", "right"):
        expected = [text for n in range(200) for text in (f"{name} {n}", f"{name} long " + "x" * 6000)]
        assert [line.text for line in found if line.task == name] == expected
    assert len(found) == 800


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flow_name", "last"),
    [
        ("exits", ["last words", "unfinished"]),
        ("segfaults", ["last words", "Fatal Python error: Segmentation fault"]),
        ("killed", ["before", "last words"]),
    ],
)
async def test_the_last_line_before_a_crash_is_in_the_log_when_the_run_is_failed(
    broker: Broker, stores: Stores, flow_name: str, last: list[str]
) -> None:
    run, run_id = await run_of(broker, stores, flow_name)

    assert run["status"] == "FAILED"
    assert (await texts_of(stores, run_id))[: len(last)] == last  # Python's report of a crash has more lines


# --- volume -----------------------------------------------------------------------------------------------------------


async def test_cancels_and_heartbeats_work_while_a_task_prints_at_full_speed(broker: Broker, stores: Stores) -> None:
    async with at_work(broker, max_run_log_bytes=100_000):
        run_id = await begin(stores, "chatters")
        await written(stores, run_id, 200)
        beats = {(await until(stores, run_id, "RUNNING"))["heartbeat_at"]}
        while len(beats) < 5:
            beats.add((await until(stores, run_id, "RUNNING"))["heartbeat_at"])
            await asyncio.sleep(AGAIN_SEC)
        await cancel(stores, run_id, None, USER)
        run = await ended(stores, run_id)

    assert (run["status"], run["cancel"]["how"]) == ("CANCELLED", "cooperative")
    found = await texts_of(stores, run_id)
    (marker,) = [text for text in found if text.startswith("[pyoco:")]
    at = found.index(marker)
    assert [int(text.split()[1]) for text in found[:at]] == list(range(at))
    after = [int(text.split()[1]) for text in found[at + 1 :]]
    assert after == list(range(after[0], after[0] + len(after)))
    assert f"[pyoco: {after[0] - at} lines dropped" in marker


async def test_a_hundred_thousand_lines_are_stored_in_order(broker: Broker, stores: Stores) -> None:
    _, run_id = await run_of(broker, stores, "counts", lines=100_000)

    assert await texts_of(stores, run_id) == [f"line {number}" for number in range(100_000)]


# --- outages ----------------------------------------------------------------------------------------------------------


async def test_a_broker_restart_loses_no_line(broker: Broker, stores: Stores) -> None:
    async with at_work(broker):
        run_id = await begin(stores, "counts_slowly", lines=400)
        await written(stores, run_id, 20)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        run = await _ended_after_a_restart(broker, run_id)

    async with open_stores(settings(broker.url), name="reader") as reading:
        assert run["status"] == "COMPLETED"
        assert await texts_of(reading, run_id) == [f"line {number}" for number in range(400)]


async def _ended_after_a_restart(broker: Broker, run_id: RunId) -> dict[str, Any]:
    async with open_stores(settings(broker.url), name="reader") as reading:
        return await ended(reading, run_id)


async def test_lines_of_a_killed_worker_stay_and_the_next_attempt_appends(
    broker: Broker, stores: Stores, tmp_path: Path
) -> None:
    environment = {
        "PYOCO_NATS_URL": broker.url,
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "1.0",
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.2",
    }
    async with asyncio.timeout(PATIENCE_SEC):
        with worker_program("--flow-resolver", FLOWS, "--concurrency", "1", cwd=tmp_path, env=environment) as first:
            run_id = await begin(stores, "counts_slowly", lines=300)
            await written(stores, run_id, 20)
            first.signal(signal.SIGKILL)
            await asyncio.to_thread(first.exit_code)
        before = await lines_of(stores, run_id)
        with worker_program("--flow-resolver", FLOWS, "--concurrency", "1", cwd=tmp_path, env=environment):
            await ended(stores, run_id)

    found = await lines_of(stores, run_id)
    assert found[: len(before)] == before
    assert [line.text for attempt, line in found if attempt == 1] == [f"line {n}" for n in range(len(before))]
    assert [(attempt, line.text) for attempt, line in found[len(before) :]] == [(2, f"line {n}") for n in range(300)]
