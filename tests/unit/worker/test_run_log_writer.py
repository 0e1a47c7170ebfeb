"""Storing the lines of attempts: in order, once, after earlier attempts, and never blocking the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyoco_server.adapters.system import SystemClock
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LogLine, chunk_of
from pyoco_server.errors import RequestTooLarge
from pyoco_server.worker.output import run_log
from pyoco_server.worker.output.tagged_lines import FIRST_TASK
from support.runners import began, declared, succeeded
from support.world import THEIRS, World
from unit.worker.conftest import QUICK, running_worker


async def stored(world: World, run_id: RunId) -> list[tuple[int, LogLine]]:
    """Every stored line with its attempt; numbers and offsets must be without gaps."""
    found: list[tuple[int, LogLine]] = []
    line, byte, after = 1, 0, 0
    while (one := await world.truth.run_logs.next(run_id, after=after)) is not None:
        assert (one.chunk.first_line, one.chunk.first_byte, one.chunk.previous) == (line, byte, after)
        line, byte, after = one.chunk.next_line, one.chunk.next_byte, one.sequence
        found += [(one.chunk.attempt, each) for each in one.chunk.lines]
    return found


async def texts(world: World, run_id: RunId) -> list[tuple[int, str]]:
    return [(attempt, line.text) for attempt, line in await stored(world, run_id)]


async def test_lines_are_stored_in_order_before_the_end(world: World) -> None:
    run_id = await world.submit()
    seen = []

    async def read_before_the_end() -> None:
        seen.append(await texts(world, run_id))

    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.write("one", "two", task="load")
        world.faults.before("events.append", read_before_the_end)
        runner.write("three")
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert seen == [[(1, "one"), (1, "two"), (1, "three")]]


async def test_a_run_that_prints_nothing_writes_nothing(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end()
        await world.until(run_id, "COMPLETED")

    assert not [call for call in world.faults.calls if call.startswith("logs.")]


async def test_lines_of_the_first_task_get_its_name_when_it_is_known(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.write("from a program", task=FIRST_TASK)
        runner.end("completed", declared("load", "save"), began("load"), succeeded("load"), began("save"))
        await world.until(run_id, "COMPLETED")

    assert [line.task for _, line in await stored(world, run_id)] == ["load"]


async def test_lines_of_the_first_task_wait_for_its_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "BATCH_SEC", 0.0)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.write("from a program", task=FIRST_TASK)
        for _ in range(100):
            await asyncio.sleep(0)
        runner.say(declared("load"), began("load"))
        await world.faults.done("run_logs.append")
        while_it_ran = [line.task for _, line in await stored(world, run_id)]
        runner.end()

    assert while_it_ran == ["load"]


async def test_lines_are_stored_during_the_run(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.write("one")
        await world.faults.done("run_logs.append")
        while_it_ran = await texts(world, run_id)
        runner.end()

    assert while_it_ran == [(1, "one")]


async def test_a_short_outage_loses_no_line(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.fail("run_logs.append", times=2)
        world.faults.lose_answer("run_logs.append")
        for number in range(100):
            runner.write(f"line {number}")
            await asyncio.sleep(0)
        await world.faults.done("run_logs.append")
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert await texts(world, run_id) == [(1, f"line {number}") for number in range(100)]


async def test_the_end_waits_for_its_lines_during_an_outage(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "FLUSH_SEC", 0.05)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.is_offline = True
        written = world.faults.calls.count("events.append")
        runner.write("late")
        runner.end()
        for _ in range(5):
            await world.faults.tried("run_logs.append")
        tried_to_end = world.faults.calls.count("events.append") - written
        world.faults.is_offline = False
        await world.until(run_id, "COMPLETED")

    assert tried_to_end == 0
    assert await texts(world, run_id) == [(1, "late")]


async def test_a_run_ends_even_if_the_broker_stores_no_lines(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "FLUSH_SEC", 0.05)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.fail("run_logs.append", times=3)
        runner.write("late")
        runner.end()
        await world.until(run_id, "COMPLETED")
        told_late = await texts(world, run_id)
        await world.faults.done("run_logs.append")

    assert told_late == []
    assert await texts(world, run_id) == [(1, "late")]


async def test_a_later_attempt_appends_to_the_log_of_the_earlier_one(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    first = chunk_of([LogLine(1.0, None, "stdout", "INFO", "first")], attempt=1, behind=None, sequence=0)
    await world.truth.run_logs.append(run_id, first, after=0)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.write("second")
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert await texts(world, run_id) == [(1, "first"), (2, "second")]


async def test_a_later_attempt_fences_the_earlier_one_before_its_first_line(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await world.faults.done("run_logs.append")
        zombie = run_log.RunLogWriter(world.truth.run_logs, run_id, 1, 10_000, asyncio.ensure_future)
        zombie.add([LogLine(1.0, None, "stdout", "INFO", "of a zombie")])
        await zombie.flush()
        zombie.add([LogLine(1.0, None, "stdout", "INFO", "once more")])
        await zombie.flush()
        runner.write("of the holder")
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert await texts(world, run_id) == [(2, "of the holder")]


async def test_lines_follow_those_of_a_concurrent_earlier_attempt(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    earlier = run_log.RunLogWriter(world.truth.run_logs, run_id, 1, 10_000, asyncio.ensure_future)

    async def meanwhile() -> None:
        earlier.add([LogLine(1.0, None, "stdout", "INFO", "just in time")])
        await earlier.flush()

    world.faults.before("run_logs.append", meanwhile)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.write("second")
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert await texts(world, run_id) == [(1, "just in time"), (2, "second")]


async def test_chunks_too_large_for_the_broker_are_split(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.fail("run_logs.append", RequestTooLarge(), times=2)
        runner.write("one", "two", "three", "four")
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert await texts(world, run_id) == [(1, text) for text in ("one", "two", "three", "four")]


async def test_a_line_refused_by_the_broker_is_replaced_by_a_marker(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.fail("run_logs.append", RequestTooLarge())
        runner.write("large")
        runner.end()
        await world.until(run_id, "COMPLETED")

    (line,) = await texts(world, run_id)
    assert line == (1, "[pyoco: 1 line dropped: its 5 characters are more than the broker accepts]")


async def test_unstorable_lines_are_dropped_some_time_after_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "FLUSH_SEC", 0.01)
    monkeypatch.setattr(run_log, "GIVE_UP_AFTER_SEC", 0.0)
    run_id, writing = await world.submit(), []
    log = run_log.RunLogWriter(
        world.stores.run_logs, run_id, 1, 10_000, lambda work: writing.append(asyncio.ensure_future(work))
    )
    world.faults.is_offline = True

    log.add([LogLine(1.0, None, "stdout", "INFO", "never")])
    await log.flush()
    async with asyncio.timeout(5):
        await asyncio.gather(*writing)
    world.faults.is_offline = False

    assert await texts(world, run_id) == []


async def test_a_log_beyond_its_limit_has_one_marker_and_its_end() -> None:
    settings: dict[str, Any] = QUICK | {"max_run_log_bytes": 4096}
    world = World(clock=SystemClock(), **settings)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        for number in range(1000):
            runner.write(f"line {number}")
        runner.write("the traceback at the end", stream="pyoco", level="ERROR")
        runner.end("failed", error_type="ValueError", message="no")
        await world.until(run_id, "FAILED")

    found = [text for _, text in await texts(world, run_id)]
    assert found[0] == "line 0"
    assert [text for text in found if "lines dropped" in text] == [
        f"[pyoco: {1001 - (len(found) - 1)} lines dropped: "
        "the log has reached PYOCO_MAX_RUN_LOG_BYTES; the last lines follow]"
    ]
    assert found[-2:] == ["line 999", "the traceback at the end"]


async def test_retention_removes_the_log_with_the_run() -> None:
    world = World(run_retention_sec=60.0)
    run_id = await world.submit()
    await world.start(run_id)
    first = chunk_of([LogLine(1.0, None, "stdout", "INFO", "first")], attempt=1, behind=None, sequence=0)
    await world.truth.run_logs.append(run_id, first, after=0)
    await world.complete(run_id)
    world.clock.pass_time(61.0)
    await world.catch_up()

    await world.maintenance.remove_old_runs()

    assert await world.snapshot(run_id) is None
    assert await world.truth.run_logs.last(run_id) is None
