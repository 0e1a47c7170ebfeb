"""Attempts at runs, from the queue to the stored end, with scripted runners."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest
from msgspec import structs

from pyoco_server.adapters.system import SystemClock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import CancelExecution
from pyoco_server.domain.execution.state import NodeStatus, StopHow, WheelUsed
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.errors import RequestTooLarge
from pyoco_server.logs import JsonLines
from pyoco_server.services.executions.cancel import cancel
from support.runners import began, declared, succeeded
from support.world import HELLO, THEIRS, USER, World
from unit.worker.conftest import QUICK, letters, running_worker


async def receipt(world: World, run_id: RunId) -> dict[str, Any]:
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    cancel: dict[str, Any] = snapshot.plain["cancel"]
    return cancel


# --- success and failure ----------------------------------------------------------------------------------------------


async def test_a_run_is_started_in_the_log_before_its_runner(world: World) -> None:
    run_id = await world.submit()
    world.faults.calls.clear()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        state = await world.execution(run_id)
        runner.end()
        await world.until(run_id, "COMPLETED")

    before = world.faults.calls[: world.faults.calls.index("runner.begin")]
    assert before.count("events.append") == 1
    assert state.attempt == 1
    assert runner.job is not None
    assert (runner.job.run_id, runner.job.flow_name, runner.job.params, runner.job.attempt) == (
        run_id,
        "hello",
        {"name": "world"},
        1,
    )


async def test_a_run_gets_a_runner_of_its_tenant(world: World) -> None:
    run_id = await world.submit(structs.replace(HELLO, tenant_id="team-a"))
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end()
        await world.until(run_id, "COMPLETED")

    assert handle.executor.tenants == ["team-a"]


async def test_every_record_of_a_run_has_the_correlation_id_of_its_submit(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load"), began("load"))
        await world.until(run_id, "RUNNING", tasks={"load": "RUNNING"})
        runner.end("failed", message="no such file")
        await world.until(run_id, "FAILED")

    commits = [stored.commit for stored in await world.truth.events.read(run_id)]
    assert {commit.actor.kind for commit in commits} == {"user", "worker"}
    assert {commit.correlation_id for commit in commits} == {USER.correlation_id}
    about = [record for record in caplog.records if getattr(record, "run_id", None) == run_id]
    assert {record.getMessage() for record in about} == {"run failed", "attempt over"}
    assert {getattr(record, "correlation_id", None) for record in about} == {USER.correlation_id}


async def test_a_cancel_before_the_start_is_confirmed_under_the_same_correlation_id(world: World) -> None:
    run_id = await world.submit()
    await world.handle(run_id, CancelExecution(at=world.now()))
    async with running_worker(world):
        await world.until(run_id, "CANCELLED")

    last = (await world.truth.events.read(run_id))[-1].commit
    assert (last.actor.kind, last.correlation_id) == ("worker", USER.correlation_id)


async def test_steps_are_recorded_during_the_run_and_the_job_is_acked_after_its_end(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load", "save"), began("load"))
        await world.until(run_id, "RUNNING", tasks={"load": "RUNNING", "save": "PENDING"})
        runner.say(succeeded("load", {"rows": 2}))
        runner.end("completed", began("save"), succeeded("save"))
        await world.faults.done("delivery.ack")

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert await world.status(run_id) == "COMPLETED"
    assert snapshot.plain["tasks"] == {"load": "SUCCEEDED", "save": "SUCCEEDED"}
    assert snapshot.plain["task_records"]["load"]["output"] == {"rows": 2}
    assert snapshot.plain["worker_id"] == "w-1"
    assert len(await world.truth.queue.stored("default")) == 0
    assert await letters(world) == []


async def test_a_run_records_the_wheels_of_its_runner(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        handle.executor.wheels = (WheelUsed(name="tools-1.0-py3-none-any.whl", sha256="00ff"),)
        runner = await handle.executor.begun()
        handle.executor.wheels = ()
        runner.end()
        await world.until(run_id, "COMPLETED")

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert snapshot.plain["wheels"] == [{"name": "tools-1.0-py3-none-any.whl", "sha256": "00ff"}]


async def test_the_end_is_stored_in_log_and_snapshot_before_the_ack(world: World) -> None:
    run_id = await world.submit()
    statuses = []

    async def read_before_the_ack() -> None:
        statuses.append(await world.status(run_id))

    world.faults.before("delivery.ack", read_before_the_ack)
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end()
        await world.faults.done("delivery.ack")

    assert statuses == ["COMPLETED"]


async def test_a_failed_flow_fails_the_run_with_a_dead_letter_and_an_ack(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end("failed", error_type="ValueError", message="no such file")
        await world.faults.done("delivery.ack")

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert (snapshot.plain["status"], snapshot.plain["error"]) == ("FAILED", "ValueError: no such file")
    (letter,) = await world.truth.dead_letters.recent()
    assert (letter.reason, letter.error, letter.run_id) == ("execution_error", "ValueError: no such file", run_id)
    assert (letter.flow_name, letter.tag, letter.tags) == ("hello", "default", ("default",))
    assert (letter.worker_id, letter.num_delivered) == ("w-1", 1)


async def test_dead_letters_of_failed_flows_can_be_disabled_but_not_those_of_missing_flows() -> None:
    world = World(dlq_publish_execution_error=False)
    failed, missing = await world.submit(), await world.submit()
    async with running_worker(world) as handle:
        for _ in range(2):
            runner = await handle.executor.begun()
            assert runner.job is not None
            runner.end("failed" if runner.job.run_id == failed else "flow_not_found")
        await world.faults.done("delivery.ack", times=2)

    assert await letters(world) == [("flow_not_found", missing)]
    snapshot = await world.snapshot(missing)
    assert snapshot is not None
    assert snapshot.plain["status"] == "FAILED"
    assert "hello" in snapshot.plain["error"]


async def test_a_crashed_runner_fails_its_run_with_the_name_of_the_signal(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load"), began("load"))
        runner.die("SIGSEGV", "about to crash")
        run = await world.until(run_id, "FAILED")

    assert "SIGSEGV" in run["error"]
    assert "about to crash" in run["error"]
    assert run["tasks"] == {"load": "FAILED"}


async def test_a_run_whose_runner_died_before_it_read_the_job_restarts_in_another(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        (await handle.executor.begun()).die("SIGKILL", never_began=True)
        (await handle.executor.begun()).end()
        run = await world.until(run_id, "COMPLETED", "FAILED")

    assert run["status"] == "COMPLETED"
    assert run["attempt"] == 2


@pytest.mark.parametrize("with_end", [True, False], ids=["with its end", "before its end"])
async def test_a_report_too_large_for_one_message_is_stored_in_several(world: World, with_end: bool) -> None:
    run_id = await world.submit()
    steps = (
        declared("load", "save"),
        began("load"),
        succeeded("load", "much"),
        began("save"),
        succeeded("save", "more"),
    )
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.fail("events.append", RequestTooLarge("more than nats takes"), times=2)
        if not with_end:
            runner.say(*steps)
        runner.end("completed", *(steps if with_end else ()))
        run = await world.until(run_id, "COMPLETED")

    assert run["tasks"] == {"load": "SUCCEEDED", "save": "SUCCEEDED"}
    assert [record["output"] for record in run["task_records"].values()] == ["much", "more"]
    assert run["attempt"] == 1


# --- cancel -----------------------------------------------------------------------------------------------------------


async def test_a_flow_that_observes_the_cancel_ends_cooperatively_with_a_receipt(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("wait"), began("wait"))
        await world.until(run_id, "RUNNING", tasks={"wait": "RUNNING"})
        await cancel(world.truth, run_id, "wrong input", USER)
        await runner.cancelled.wait()
        runner.end("cancelled")
        await world.faults.done("delivery.ack")

    state = await receipt(world, run_id)
    assert await world.status(run_id) == "CANCELLED"
    assert (state["how"], state["reason"]) == ("cooperative", "wrong input")
    assert state["requested_at"] <= state["delivered_at"] <= state["stopped_at"]
    assert (await world.execution(run_id)).nodes[NodeId("wait")].status is NodeStatus.CANCELED


async def test_a_flow_that_completes_despite_a_cancel_is_cancelled(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await cancel(world.truth, run_id, None, USER)
        await runner.cancelled.wait()
        runner.end("completed")
        await world.until(run_id, "CANCELLED")

    assert (await receipt(world, run_id))["how"] == "cooperative"


async def test_a_flow_that_ignores_a_cancel_is_killed_after_the_grace_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await world.submit()
    with caplog.at_level(logging.WARNING):
        async with running_worker(world) as handle:
            runner = await handle.executor.begun()
            await cancel(world.truth, run_id, None, USER)
            await world.until(run_id, "CANCELLED")
            assert runner.killed.is_set()

    state = await receipt(world, run_id)
    assert state["how"] == "killed"
    assert state["stopped_at"] - state["delivered_at"] >= 0.05
    assert "ERR-PYOCO-0021" in [record.__dict__.get("err_id") for record in caplog.records]
    assert await letters(world) == []


async def test_a_cancel_whose_signal_was_lost_is_noticed_by_the_next_heartbeat(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await world.handle(run_id, CancelExecution(at=world.now()))
        await runner.cancelled.wait()
        runner.end("cancelled")
        await world.until(run_id, "CANCELLED")


async def test_a_cancel_between_the_last_step_and_the_end_wins(world: World) -> None:
    run_id = await world.submit()

    async def cancel_before_the_end() -> None:
        await world.handle(run_id, CancelExecution(at=world.now()))

    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.before("events.append", cancel_before_the_end)
        runner.end("completed", declared("load"), began("load"), succeeded("load"))
        await world.until(run_id, "CANCELLED")


async def test_a_run_cancelled_before_its_start_is_acked_without_a_runner(world: World) -> None:
    run_id = await world.submit()
    await world.handle(run_id, CancelExecution(at=world.now()))
    async with running_worker(world) as handle:
        await world.faults.done("delivery.ack")
        assert handle.executor.runs == 0

    assert await world.status(run_id) == "CANCELLED"
    assert (await receipt(world, run_id))["how"] == "before_start"


async def test_a_cancelled_run_whose_holder_was_lost_ends_with_the_next_worker(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    await world.handle(run_id, CancelExecution(at=world.now()))
    async with running_worker(world) as handle:
        await world.until(run_id, "CANCELLED")
        assert handle.executor.runs == 0

    assert (await world.execution(run_id)).cancel is not None
    assert (await receipt(world, run_id))["how"] == StopHow.ABANDONED.value


# --- log lines of the contract ----------------------------------------------------------------------------------------


def line_of(caplog: pytest.LogCaptureFixture, message: str) -> dict[str, Any]:
    record = next(record for record in caplog.records if record.getMessage() == message)
    line: dict[str, Any] = orjson.loads(JsonLines("pyoco-server:worker", NatsBackendConfig()).format(record))
    return line


async def test_the_log_line_of_a_failed_run_carries_its_context_and_the_original_exception(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.end(
            "failed", error_type="OSError", message="no disk", traceback="Traceback …", origin="flows.py:7 in load"
        )
        await world.until(run_id, "FAILED")

    line = line_of(caplog, "run failed")
    assert (line["run_id"], line["flow_name"], line["tag"], line["worker_id"]) == (run_id, "hello", "default", "w-1")
    assert (line["reason"], line["err_id"], line["msg_id"]) == ("execution_error", "ERR-PYOCO-0007", "MSG-PYOCO-0007")
    assert (line["exc_type"], line["exc_message"]) == ("OSError", "no disk")
    assert (line["exc_traceback"], line["exc_origin"]) == ("Traceback …", "flows.py:7 in load")


async def test_the_log_line_of_a_missing_flow_names_that_error_and_no_exception_of_a_task(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end("flow_not_found")
        await world.until(run_id, "FAILED")

    line = line_of(caplog, "run failed")
    assert (line["reason"], line["err_id"], line["msg_id"]) == ("flow_not_found", "ERR-PYOCO-0006", "MSG-PYOCO-0006")
    assert (line["flow_name"], line["tag"], line["worker_id"]) == ("hello", "default", "w-1")
    assert not [name for name in line if name.startswith("exc_")]


async def test_a_public_view_that_stays_above_its_limit_without_records_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(clock=SystemClock(), **QUICK, max_run_snapshot_bytes=1024)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared(*(f"task-{n}" for n in range(100))))
        await world.until(run_id, "RUNNING")
        runner.end("completed", began("task-1"), succeeded("task-1"))
        await world.until(run_id, "COMPLETED")

    found = [record for record in caplog.records if getattr(record, "err_id", "") == "ERR-PYOCO-0010"]
    assert [(record.levelname, getattr(record, "run_id", None)) for record in found] == [("WARNING", run_id)]
