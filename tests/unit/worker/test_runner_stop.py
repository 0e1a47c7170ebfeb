"""Runs that exceed their timeout: cancelled, killed after the grace, FAILED with a receipt."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from pyoco_server.domain.execution.state import NodeStatus, StopHow, TimeoutReceipt
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.trace import TaskStarted
from pyoco_server.worker.attempt.runner_stop import grace_of_limit, timeout_failure
from pyoco_server.worker.runner_process.protocol import EndKind
from support.runners import began, declared, succeeded
from support.samples import new_run_id
from support.world import HELLO, THEIRS, USER, World
from unit.worker.conftest import letters, running_worker
from unit.worker.test_attempt_claims import put_into_queue

SHORT = replace(HELLO, timeout_sec=0.02)


def limited(step: TaskStarted, limit_sec: float) -> TaskStarted:
    return dataclasses.replace(step, limit_sec=limit_sec)


async def snapshot_of(world: World, run_id: RunId) -> dict[str, Any]:
    found = await world.snapshot(run_id)
    assert found is not None
    plain: dict[str, Any] = found.plain
    return plain


async def test_a_flow_that_observes_the_timeout_fails_with_a_receipt_and_a_dead_letter(world: World) -> None:
    run_id = await world.submit(SHORT)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load", "save"), began("load"))
        await runner.cancelled.wait()
        runner.end("cancelled")
        await world.faults.done("delivery.ack")

    run = await snapshot_of(world, run_id)
    assert (run["status"], run["error_code"], run["timeout_sec"]) == ("FAILED", "ERR-PYOCO-0042", 0.02)
    over = "the run exceeded its time limit: more than 0.02 s (timeout_sec) while running load"
    assert run["error"] == f"{over}; it ended by itself 0.0 s later"
    assert run["timeout"]["limit_sec"] == 0.02
    assert run["timeout"]["how"] == "cooperative"
    assert run["timeout"]["reached_at"] - run["start_time"] >= 0.019
    assert run["timeout"]["stopped_at"] >= run["timeout"]["reached_at"]
    assert run["tasks"] == {"load": "FAILED", "save": "PENDING"}
    assert run["task_records"]["load"]["error_code"] == "ERR-PYOCO-0042"
    assert "cancel" not in run
    assert await letters(world) == [("execution_error", run_id)]


async def test_a_flow_that_ignores_the_timeout_is_killed_after_the_grace_period(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await world.submit(SHORT)
    with caplog.at_level(logging.WARNING):
        async with running_worker(world) as handle:
            runner = await handle.executor.begun()
            runner.say(declared("load"), began("load"))
            await world.until(run_id, "FAILED")
            assert runner.killed.is_set()

    run = await snapshot_of(world, run_id)
    assert run["timeout"]["how"] == "killed"
    assert run["timeout"]["stopped_at"] - run["timeout"]["reached_at"] >= 0.049
    assert run["error"].endswith("while running load; it did not stop within 0.05 s, and its process was killed")
    assert "ERR-PYOCO-0042" in [record.__dict__.get("err_id") for record in caplog.records]


async def test_a_flow_that_completes_after_its_timeout_has_failed(world: World) -> None:
    run_id = await world.submit(SHORT)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await runner.cancelled.wait()
        runner.end("completed", declared("load"), began("load"), succeeded("load", 1), at=world.now())
        await world.until(run_id, "FAILED")

    run = await snapshot_of(world, run_id)
    assert run["error_code"] == "ERR-PYOCO-0042"
    assert run["tasks"] == {"load": "SUCCEEDED"}


async def test_a_flow_that_ends_in_time_is_not_stopped(world: World) -> None:
    run_id = await world.submit(replace(HELLO, timeout_sec=60.0))
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.end("completed")
        run = await world.until(run_id, "COMPLETED")

    assert not runner.cancelled.is_set()
    assert (run["timeout_sec"], run.get("timeout")) == (60.0, None)


async def test_a_cancel_during_the_stop_wins(world: World) -> None:
    run_id = await world.submit(SHORT)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await runner.cancelled.wait()
        await cancel(world.truth, run_id, "never mind", USER)
        await world.until(run_id, "CANCELLED")
        assert runner.killed.is_set()

    run = await snapshot_of(world, run_id)
    assert (run["status"], run["cancel"]["how"], run["error"]) == ("CANCELLED", "killed", None)
    assert await letters(world) == []


async def test_a_timeout_during_a_cancel_changes_nothing(world: World) -> None:
    run_id = await world.submit(replace(HELLO, timeout_sec=0.03))
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await cancel(world.truth, run_id, None, USER)
        await runner.cancelled.wait()
        await world.until(run_id, "CANCELLED")

    run = await snapshot_of(world, run_id)
    assert (run["cancel"]["how"], run.get("timeout")) == ("killed", None)


async def test_a_runner_is_stopped_during_an_outage(world: World) -> None:
    run_id = await world.submit(SHORT)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.is_offline = True
        runner.say(declared("load"), began("load"))
        await runner.killed.wait()
        world.faults.is_offline = False
        await world.until(run_id, "FAILED")

    assert (await snapshot_of(world, run_id))["timeout"]["how"] == "killed"
    assert (await world.execution(run_id)).nodes[NodeId("load")].status is NodeStatus.FAILED


@pytest.mark.parametrize(("how", "status"), [("completed", "COMPLETED"), ("failed", "FAILED")])
async def test_a_flow_that_ended_in_time_during_an_outage_has_not_timed_out(
    world: World, how: EndKind, status: str
) -> None:
    run_id = await world.submit(SHORT)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.is_offline = True
        runner.say(declared("load"), began("load"))
        runner.end(how, at=world.now())
        await runner.cancelled.wait()
        world.faults.is_offline = False
        run = await world.until(run_id, status)

    assert run.get("timeout") is None
    assert run.get("error_code") != "ERR-PYOCO-0042"


async def test_the_time_limit_restarts_after_a_take_over(world: World) -> None:
    run_id = await world.submit(SHORT)
    await world.start(run_id, THEIRS)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await runner.cancelled.wait()
        runner.end("cancelled")
        run = await world.until(run_id, "FAILED")

    assert run["attempt"] == 2
    assert run["timeout"]["limit_sec"] == 0.02


async def test_the_time_limit_of_a_foreign_producers_job_applies(world: World) -> None:
    run_id = new_run_id()
    plain = {"run_id": run_id, "flow_name": "etl", "tag": "default", "submitted_at": 5.5, "timeout_sec": 0.02}
    await put_into_queue(world, orjson.dumps(plain))
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await runner.cancelled.wait()
        runner.end("cancelled")
        run = await world.until(run_id, "FAILED")

    assert (run["timeout_sec"], run["error_code"]) == (0.02, "ERR-PYOCO-0042")


def test_many_running_tasks_are_counted_and_not_all_named() -> None:
    receipt = TimeoutReceipt(limit_sec=1.5, reached_at=1.0, stopped_at=2.0, how=StopHow.ABANDONED)

    message = timeout_failure(receipt, [f"t{n}" for n in range(8)], 30.0).message

    assert message.endswith(
        "more than 1.5 s (timeout_sec) while running t0, t1, t2, t3, t4 and 3 more;"
        " it did not stop within 1.5 s, and its thread was left behind"
    )


@pytest.mark.parametrize(
    ("limit_sec", "grace_sec", "expected"), [(0.5, 30.0, 1.0), (5.0, 30.0, 5.0), (60.0, 30.0, 30.0), (60.0, 0.0, 0.0)]
)
def test_the_grace_after_a_limit_is_at_most_as_long_as_the_limit(
    limit_sec: float, grace_sec: float, expected: float
) -> None:
    assert grace_of_limit(limit_sec, grace_sec) == expected


async def test_a_task_over_its_own_limit_ends_the_run(world: World) -> None:
    run_id = await world.submit(HELLO)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load", "save"), limited(began("load"), 0.02))
        run = await world.until(run_id, "FAILED")

    assert runner.killed.is_set()
    assert (run["error_code"], run["timeout"]["task"], run["timeout"]["limit_sec"]) == ("ERR-PYOCO-0042", "load", 0.02)
    assert run["error"] == (
        "the run exceeded its time limit: task load took more than 0.02 s (timeout_sec of the task);"
        " it did not stop within 0.05 s, and its process was killed"
    )
    assert run["tasks"] == {"load": "FAILED", "save": "PENDING"}


async def test_a_task_that_ends_in_time_stops_the_clock_of_its_limit(world: World) -> None:
    run_id = await world.submit(HELLO)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load", "save"), limited(began("load"), 0.02), succeeded("load"))
        runner.say(limited(began("save"), 0.2))
        await runner.cancelled.wait()
        runner.end("cancelled")
        run = await world.until(run_id, "FAILED")

    assert run["timeout"]["task"] == "save"


async def test_a_retry_does_not_renew_the_limit_of_its_task(world: World) -> None:
    run_id = await world.submit(HELLO)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load"), limited(began("load"), 0.02), limited(began("load", 2), 60.0))
        run = await world.until(run_id, "FAILED")

    assert run["timeout"]["limit_sec"] == 0.02
    assert run["task_records"]["load"]["attempt"] == 2
