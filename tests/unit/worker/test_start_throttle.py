"""Runs started before a runner is free: only short ones, and none is lost."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from pyoco_server.domain.fleet.records import WorkerCode
from pyoco_server.domain.ids import RunId
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.worker.attempt.context import SHORT_RUN_SEC, StartThrottle
from support.runners import ScriptedRunner
from support.workers import Working
from support.world import THEIRS, USER, WORKER, World
from unit.worker.conftest import running_worker


@pytest.fixture(autouse=True)
def _every_run_counts_as_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.worker.attempt.context.SHORT_RUN_SEC", 3600.0)


async def one_running_and_one_waiting(world: World, handle: Working) -> tuple[ScriptedRunner, RunId]:
    run_ids = {await world.submit(), await world.submit()}
    runner = await handle.executor.begun()
    assert runner.job is not None
    (waiting,) = run_ids - {runner.job.run_id}
    while not (await world.execution(waiting)).attempt:
        await world.faults.done("events.append")
    return runner, waiting


async def test_a_run_started_early_begins_when_its_runner_is_free(world: World) -> None:
    async with running_worker(world) as handle:
        runner, waiting = await one_running_and_one_waiting(world, handle)
        assert handle.executor.runs == 1
        runner.end()
        (await handle.executor.begun()).end()
        run = await world.until(waiting, "COMPLETED")

    assert run["attempt"] == 1


async def test_a_run_waiting_for_a_runner_is_in_the_workers_record(world: World) -> None:
    async with running_worker(world) as handle:
        runner, waiting = await one_running_and_one_waiting(world, handle)
        assert runner.job is not None
        both = {runner.job.run_id, waiting}
        while (record := await world.truth.registry.get(WORKER)) is None or set(record.current_run_ids) != both:
            await world.faults.done("registry.put")
        runner.end()
        (await handle.executor.begun()).end()
        await world.until(waiting, "COMPLETED")


async def test_a_run_cancelled_while_it_waits_never_begins(world: World) -> None:
    async with running_worker(world) as handle:
        runner, waiting = await one_running_and_one_waiting(world, handle)
        await cancel(world.truth, waiting, None, USER)
        await world.faults.done("events.read")
        runner.end()
        run = await world.until(waiting, "CANCELLED")

    assert handle.executor.runs == 1
    assert run["cancel"]["how"] == "cooperative"


async def test_a_run_taken_over_while_it_waits_is_released_without_a_reply(world: World) -> None:
    async with running_worker(world) as handle:
        runner, waiting = await one_running_and_one_waiting(world, handle)
        holder = (await world.execution(waiting)).holder
        assert holder is not None
        assert holder.instance_id is not None
        await world.start(waiting, THEIRS, attempt=2)
        await world.truth.signals.tell(holder.instance_id, waiting)
        await world.faults.done("events.read")
        runner.end()
        await world.faults.done("delivery.ack")

    replies = [call for call in world.faults.calls if call.startswith("delivery.") and call != "delivery.in_progress"]
    assert replies == ["delivery.ack"]
    assert handle.executor.runs == 1
    assert (await world.execution(waiting)).attempt == 2


async def test_a_run_that_waits_too_long_is_returned_and_begins_with_another_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.worker.attempt.attempt.GIVE_BACK_AFTER_SEC", 0.02)
    async with running_worker(world) as handle:
        runner, waiting = await one_running_and_one_waiting(world, handle)
        await world.faults.done("delivery.nak")
        runner.end()
        (await handle.executor.begun()).end()
        run = await world.until(waiting, "COMPLETED")

    assert run["attempt"] == 2


async def test_a_run_started_early_with_code_that_was_replaced_is_started_again_with_the_new_one(world: World) -> None:
    async with running_worker(world) as handle:
        handle.executor.code = WorkerCode(version="old", reload=True)
        runner, waiting = await one_running_and_one_waiting(world, handle)
        handle.executor.code = WorkerCode(version="new", reload=True)
        runner.end()
        (await handle.executor.begun()).end()
        run = await world.until(waiting, "COMPLETED")

    assert (run["attempt"], run["code_version"]) == (2, "new")


async def test_long_runs_are_not_started_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.worker.attempt.context.SHORT_RUN_SEC", SHORT_RUN_SEC)
    line = StartThrottle(1, average_run_sec=SHORT_RUN_SEC)

    async with AsyncExitStack() as held:
        assert not await line.acquire(held)
        for _ in range(20):
            line.note_run(0.001)
        assert await line.acquire(held)
        line.note_run(60.0)
        assert not await line.acquire(held)
