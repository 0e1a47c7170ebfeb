"""Attempts at runs, from the queue to the stored end, with runners that do what the test says."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from pyoco_server.adapters.memory.job_queue import MemoryJobQueue
from pyoco_server.application.cancel import cancel
from pyoco_server.application.handle import commit
from pyoco_server.application.ports import Job
from pyoco_server.errors import RequestTooLarge
from pyoco_server.execution.commands import CancelExecution, Command, StartExecution
from pyoco_server.execution.ids import NodeId, RunId
from pyoco_server.execution.state import NodeStatus, Status, StopHow
from support.runners import began, declared, succeeded
from support.samples import new_run_id
from support.world import THEIRS, USER, WORKER, World
from unit.worker.conftest import working


async def letters(world: World) -> list[tuple[str, str | None]]:
    return [(letter.reason, letter.run_id) for letter in await world.truth.dead_letters.recent()]


async def receipt(world: World, run_id: RunId) -> dict[str, Any]:
    shown = await world.shown(run_id)
    assert shown is not None
    cancel: dict[str, Any] = shown.plain["cancel"]
    return cancel


async def put_into_queue(world: World, payload: bytes, created_sequence: int | None = None) -> None:
    """What a foreign producer does: any bytes, without our header."""
    queue = world.truth.queue
    assert isinstance(queue, MemoryJobQueue)
    await queue.put(payload, tag="default", created_sequence=created_sequence)


# --- the plain way ----------------------------------------------------------------------------------------------------


async def test_a_run_is_started_in_the_log_before_its_runner_begins(world: World) -> None:
    run_id = await world.submit()
    world.faults.calls.clear()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        told = await world.told(run_id)
        runner.end()
        await world.until(run_id, "COMPLETED")

    before = world.faults.calls[: world.faults.calls.index("runner.begin")]
    assert before.count("log.append") == 1
    assert told.attempt == 1
    assert runner.job is not None
    assert (runner.job.run_id, runner.job.flow_name, runner.job.params, runner.job.attempt) == (
        run_id,
        "hello",
        {"name": "world"},
        1,
    )


async def test_what_the_flow_does_is_recorded_while_it_does_it_and_the_job_acked_after_its_end(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        runner.say(declared("load", "save"), began("load"))
        await world.until(run_id, "RUNNING", tasks={"load": "RUNNING", "save": "PENDING"})
        runner.say(succeeded("load", {"rows": 2}))
        runner.end("completed", began("save"), succeeded("save"))
        await world.faults.done("delivery.ack")

    shown = await world.shown(run_id)
    assert shown is not None
    assert await world.status(run_id) == "COMPLETED"
    assert shown.plain["tasks"] == {"load": "SUCCEEDED", "save": "SUCCEEDED"}
    assert shown.plain["task_records"]["load"]["output"] == {"rows": 2}
    assert shown.plain["worker_id"] == "w-1"
    assert await world.truth.queue.depth("default") == 0
    assert await letters(world) == []


async def test_the_end_is_stored_in_log_and_snapshot_before_the_queue_hears_of_it(world: World) -> None:
    run_id = await world.submit()
    statuses = []

    async def look() -> None:
        statuses.append(await world.status(run_id))

    world.faults.before("delivery.ack", look)
    async with working(world) as at_work:
        (await at_work.executor.begun()).end()
        await world.faults.done("delivery.ack")

    assert statuses == ["COMPLETED"]


async def test_a_failed_flow_is_failed_with_its_error_a_letter_and_an_ack(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        (await at_work.executor.begun()).end("failed", error_type="ValueError", message="no such file")
        await world.faults.done("delivery.ack")

    shown = await world.shown(run_id)
    assert shown is not None
    assert (shown.plain["status"], shown.plain["error"]) == ("FAILED", "ValueError: no such file")
    (letter,) = await world.truth.dead_letters.recent()
    assert (letter.reason, letter.error, letter.run_id) == ("execution_error", "ValueError: no such file", run_id)
    assert (letter.flow_name, letter.tag, letter.tags) == ("hello", "default", ("default",))
    assert (letter.worker_id, letter.num_delivered) == ("w-1", 1)


async def test_letters_of_failed_flows_can_be_switched_off_but_not_those_of_missing_flows() -> None:
    world = World(dlq_publish_execution_error=False)
    failed, missing = await world.submit(), await world.submit()
    async with working(world) as at_work:
        for _ in range(2):
            runner = await at_work.executor.begun()
            assert runner.job is not None
            runner.end("failed" if runner.job.run_id == failed else "flow_not_found")
        await world.faults.done("delivery.ack", times=2)

    assert await letters(world) == [("flow_not_found", missing)]
    shown = await world.shown(missing)
    assert shown is not None
    assert shown.plain["status"] == "FAILED"
    assert "hello" in shown.plain["error"]


async def test_a_runner_that_dies_fails_its_run_by_the_name_of_the_signal(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        runner.say(declared("load"), began("load"))
        runner.die("SIGSEGV", "about to crash")
        shown = await world.until(run_id, "FAILED")

    assert "SIGSEGV" in shown["error"]
    assert "about to crash" in shown["error"]
    assert shown["tasks"] == {"load": "FAILED"}


async def test_a_run_whose_runner_died_before_it_read_the_job_goes_on_in_another(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        (await at_work.executor.begun()).die("SIGKILL", never_began=True)
        (await at_work.executor.begun()).end()
        shown = await world.until(run_id, "COMPLETED", "FAILED")

    assert shown["status"] == "COMPLETED"
    assert shown["attempt"] == 2


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
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        world.faults.fail("log.append", RequestTooLarge("more than nats takes"), times=2)
        if not with_end:
            runner.say(*steps)
        runner.end("completed", *(steps if with_end else ()))
        shown = await world.until(run_id, "COMPLETED")

    assert shown["tasks"] == {"load": "SUCCEEDED", "save": "SUCCEEDED"}
    assert [record["output"] for record in shown["task_records"].values()] == ["much", "more"]
    assert shown["attempt"] == 1


async def test_a_flow_that_hears_the_cancel_ends_cooperatively_with_a_receipt(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        runner.say(declared("wait"), began("wait"))
        await world.until(run_id, "RUNNING", tasks={"wait": "RUNNING"})
        await cancel(world.truth, run_id, "wrong input", "alice", USER)
        await runner.cancelled.wait()
        runner.end("cancelled")
        await world.faults.done("delivery.ack")

    told = await receipt(world, run_id)
    assert await world.status(run_id) == "CANCELLED"
    assert (told["how"], told["reason"]) == ("cooperative", "wrong input")
    assert told["requested_at"] <= told["delivered_at"] <= told["stopped_at"]
    assert (await world.told(run_id)).nodes[NodeId("wait")].status is NodeStatus.CANCELED


async def test_a_flow_that_completes_although_it_was_told_to_stop_is_cancelled(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        await cancel(world.truth, run_id, None, None, USER)
        await runner.cancelled.wait()
        runner.end("completed")
        await world.until(run_id, "CANCELLED")

    assert (await receipt(world, run_id))["how"] == "cooperative"


async def test_a_flow_that_does_not_hear_is_killed_after_the_grace_and_the_log_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await world.submit()
    with caplog.at_level(logging.WARNING):
        async with working(world) as at_work:
            runner = await at_work.executor.begun()
            await cancel(world.truth, run_id, None, None, USER)
            await world.until(run_id, "CANCELLED")
            assert runner.killed.is_set()

    told = await receipt(world, run_id)
    assert told["how"] == "killed"
    assert told["stopped_at"] - told["delivered_at"] >= 0.05
    assert "ERR-PYOCO-0021" in [record.__dict__.get("err_id") for record in caplog.records]
    assert await letters(world) == []


async def test_a_cancel_whose_tap_was_lost_is_heard_with_the_next_heartbeat(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        await world.handle(run_id, CancelExecution(at=world.now()))
        await runner.cancelled.wait()
        runner.end("cancelled")
        await world.until(run_id, "CANCELLED")


async def test_a_cancel_between_the_last_step_and_the_end_still_wins(world: World) -> None:
    run_id = await world.submit()

    async def cancel_it() -> None:
        await world.handle(run_id, CancelExecution(at=world.now()))

    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        world.faults.before("log.append", cancel_it)
        runner.end("completed", declared("load"), began("load"), succeeded("load"))
        await world.until(run_id, "CANCELLED")


async def test_a_run_cancelled_before_it_began_is_acked_unseen(world: World) -> None:
    run_id = await world.submit()
    await world.handle(run_id, CancelExecution(at=world.now()))
    async with working(world) as at_work:
        await world.faults.done("delivery.ack")
        assert at_work.executor.runs == 0

    assert await world.status(run_id) == "CANCELLED"
    assert (await receipt(world, run_id))["how"] == "before_start"


async def test_a_cancelled_run_whose_holder_was_lost_ends_with_the_next_worker(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    await world.handle(run_id, CancelExecution(at=world.now()))
    async with working(world) as at_work:
        await world.until(run_id, "CANCELLED")
        assert at_work.executor.runs == 0

    assert (await world.told(run_id)).cancel is not None
    assert (await receipt(world, run_id))["how"] == StopHow.ABANDONED.value


# --- somebody else's --------------------------------------------------------------------------------------------------


async def test_a_run_that_another_worker_took_over_is_let_go_without_a_word_to_the_queue(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        await world.start(run_id, THEIRS, attempt=2)
        runner.say(declared("load"))
        await runner.killed.wait()
    said = [call for call in world.faults.calls if call.startswith("delivery.") and call != "delivery.in_progress"]

    assert said == []
    told = await world.told(run_id)
    assert (told.attempt, dict(told.nodes)) == (2, {})


async def test_a_take_over_is_noticed_by_the_heartbeat_of_a_flow_that_says_nothing(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        await world.start(run_id, THEIRS, attempt=2)
        await runner.killed.wait()


async def test_a_run_of_a_living_worker_is_left_to_it(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    await world.truth.signals.listen(THEIRS, lambda _: None, lambda asked: asked == run_id)
    async with working(world) as at_work:
        await world.faults.done("signals.holds")
        assert at_work.executor.runs == 0

    assert "delivery.ack" not in world.faults.calls
    assert (await world.told(run_id)).attempt == 1


@pytest.mark.parametrize("holder", ["gone", "on something else"])
async def test_a_run_whose_holder_is_lost_or_has_let_go_of_it_is_taken_over(world: World, holder: str) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    if holder == "on something else":
        await world.truth.signals.listen(THEIRS, lambda _: None, lambda asked: asked != run_id)
    async with working(world, name="w-9") as at_work:
        runner = await at_work.executor.begun()
        assert runner.job is not None
        assert runner.job.attempt == 2
        runner.end()
        shown = await world.until(run_id, "COMPLETED")

    assert shown["worker_id"] == "w-9"


async def unshown(world: World, *commands: Command) -> RunId:
    """A run whose log is ahead of its snapshot: whoever wrote these was killed before the snapshot was advanced."""
    run_id = await world.submit()
    for command in commands:
        await commit(world.truth, await world.told(run_id), command, USER)
    return run_id


THEIR_START = StartExecution(at=2.0, attempt=1, worker_id=WORKER, instance_id=THEIRS)


async def test_a_run_whose_holder_was_lost_before_its_snapshot_showed_it_is_taken_over_at_once(world: World) -> None:
    run_id = await unshown(world, THEIR_START)
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        runner.end()
        shown = await world.until(run_id, "COMPLETED")

    assert shown["attempt"] == 2


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_run_that_somebody_began_a_moment_ago_is_left_to_it(world: World, cancelled: bool) -> None:
    also = (CancelExecution(at=3.0),) if cancelled else ()
    run_id = await unshown(world, THEIR_START, *also)
    await world.truth.signals.listen(THEIRS, lambda _: None, lambda asked: asked == run_id)
    async with working(world) as at_work:
        await world.faults.done("signals.holds")
        assert at_work.executor.runs == 0

    told = await world.told(run_id)
    assert (told.attempt, told.status) == (1, Status.ACTIVE)
    assert not {"delivery.ack", "delivery.term", "delivery.nak"} & set(world.faults.calls)


async def test_a_node_that_a_lost_worker_had_begun_begins_anew_with_the_next_attempt(world: World) -> None:
    run_id = await world.submit()
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        runner.say(declared("load"), began("load"))
        await world.until(run_id, "RUNNING", tasks={"load": "RUNNING"})
    async with working(world, name="w-2") as at_work:
        runner = await at_work.executor.begun()
        runner.end("completed", declared("load"), began("load"), succeeded("load", 7))
        shown = await world.until(run_id, "COMPLETED")

    assert shown["task_records"]["load"]["attempt"] == 2
    assert shown["task_records"]["load"]["output"] == 7


async def test_a_job_that_is_delivered_to_us_twice_is_run_once(world: World) -> None:
    run_id = await world.submit()
    told = await world.told(run_id)
    async with working(world, slots=2) as at_work:
        runner = await at_work.executor.begun()
        job = Job(run_id=run_id, flow_name="hello", tag="default", submitted_at=1.0)
        await world.truth.queue.publish(job, created_sequence=told.version, nth=2)
        await world.faults.done("tag.receive", times=2)
        runner.end()
        await world.until(run_id, "COMPLETED")
        assert at_work.executor.runs == 1


# --- given up, adopted, poison ----------------------------------------------------------------------------------------


async def test_a_run_that_lost_its_worker_too_often_is_given_up(world: World) -> None:
    run_id = await world.submit()
    for attempt in range(1, world.config.consumer_max_deliver + 1):
        await world.start(run_id, THEIRS, attempt=attempt)
    async with working(world) as at_work:
        await world.faults.done("delivery.term")
        assert at_work.executor.runs == 0

    shown = await world.shown(run_id)
    assert shown is not None
    assert shown.plain["status"] == "FAILED"
    assert "20 attempts" in shown.plain["error"]
    assert await letters(world) == [("execution_error", run_id)]


async def test_a_cancelled_run_that_lost_its_worker_too_often_is_cancelled_and_no_failure(world: World) -> None:
    run_id = await world.submit()
    for attempt in range(1, world.config.consumer_max_deliver + 1):
        await world.start(run_id, THEIRS, attempt=attempt)
    await world.handle(run_id, CancelExecution(at=world.now()))
    async with working(world):
        await world.until(run_id, "CANCELLED")

    assert await letters(world) == []


async def test_a_job_of_a_foreign_producer_is_adopted(world: World) -> None:
    run_id = new_run_id()
    plain = {
        "run_id": run_id,
        "flow_name": "etl",
        "tag": "default",
        "submitted_at": 5.5,
        "tags": ["x"],
        "params": {"n": 1},
    }
    await put_into_queue(world, orjson.dumps(plain))
    async with working(world) as at_work:
        runner = await at_work.executor.begun()
        assert runner.job is not None
        assert (runner.job.flow_name, runner.job.params) == ("etl", {"n": 1})
        runner.end()
        shown = await world.until(run_id, "COMPLETED")

    assert (shown["flow_name"], shown["tags"], shown["submitted_at"]) == ("etl", ["x"], 5.5)
    assert await world.status(run_id) == "COMPLETED"


async def test_a_job_of_ours_whose_run_is_gone_is_dropped_and_not_revived(world: World) -> None:
    run_id = await world.submit()
    await world.truth.log.purge(run_id)
    await world.truth.snapshots.remove(run_id)
    async with working(world) as at_work:
        await world.faults.done("delivery.ack")
        assert at_work.executor.runs == 0

    assert await world.truth.log.read(run_id) == []


@pytest.mark.parametrize("payload", [b"\xff", b"[]", b'{"flow_name": "etl"}'])
async def test_what_is_no_job_is_terminated_with_a_letter(world: World, payload: bytes) -> None:
    await put_into_queue(world, payload)
    async with working(world):
        await world.faults.done("delivery.term")

    (letter,) = await world.truth.dead_letters.recent()
    assert (letter.reason, letter.run_id, letter.tag) == ("invalid_job", None, "default")
    assert letter.error


async def test_a_job_that_is_no_job_but_names_its_run_fails_that_run(world: World) -> None:
    run_id = await world.submit()
    queue = await world.truth.queue.open("default")
    (delivery,) = await queue.receive(1)
    await delivery.ack()
    await put_into_queue(world, orjson.dumps({"run_id": run_id, "flow_name": 7}), created_sequence=1)
    async with working(world):
        await world.faults.done("delivery.term")

    shown = await world.shown(run_id)
    assert shown is not None
    assert shown.plain["status"] == "FAILED"
    assert "flow_name" in shown.plain["error"]
    assert await letters(world) == [("invalid_job", run_id)]


async def test_a_job_that_is_no_job_and_names_a_run_of_its_own_leaves_a_failed_run_to_look_at(world: World) -> None:
    run_id = new_run_id()
    await put_into_queue(world, orjson.dumps({"run_id": run_id, "flow_name": "etl", "tag": "default"}))
    async with working(world):
        await world.faults.done("delivery.term")

    shown = await world.shown(run_id)
    assert shown is not None
    assert (shown.plain["status"], shown.plain["flow_name"]) == ("FAILED", "etl")


async def test_a_poisoned_job_does_not_harm_a_run_that_somebody_works_on(world: World) -> None:
    run_id = await world.submit()
    async with working(world, slots=2) as at_work:
        runner = await at_work.executor.begun()
        await put_into_queue(world, orjson.dumps({"run_id": run_id}), created_sequence=1)
        await world.faults.done("delivery.term")
        runner.end()
        await world.until(run_id, "COMPLETED", "FAILED")

    assert await world.status(run_id) == "COMPLETED"
