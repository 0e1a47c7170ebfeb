"""Ownership of runs: held, lost, exhausted, adopted from a foreign producer, or invalid."""

from __future__ import annotations

import orjson
import pytest

from pyoco_server.domain.execution.commands import CancelExecution, Command, StartExecution
from pyoco_server.domain.execution.state import Status
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import Job
from pyoco_server.services.executions.command_handler import commit
from pyoco_server.testing.job_queue import MemoryJobQueue
from support.runners import began, declared, succeeded
from support.samples import new_run_id
from support.world import THEIRS, USER, WORKER, World
from unit.worker.conftest import letters, running_worker


async def put_into_queue(world: World, payload: bytes, created_sequence: int | None = None) -> None:
    """Publishes any bytes without our header, as a foreign producer does."""
    queue = world.truth.queue
    assert isinstance(queue, MemoryJobQueue)
    await queue.put(payload, tag="default", created_sequence=created_sequence)


# --- held by another worker -------------------------------------------------------------------------------------------


async def test_a_run_taken_over_by_another_worker_is_released_without_a_reply_to_the_queue(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await world.start(run_id, THEIRS, attempt=2)
        runner.say(declared("load"))
        await runner.killed.wait()
    replies = [call for call in world.faults.calls if call.startswith("delivery.") and call != "delivery.in_progress"]

    assert replies == []
    state = await world.execution(run_id)
    assert (state.attempt, dict(state.nodes)) == (2, {})


async def test_a_take_over_is_noticed_by_the_heartbeat_of_a_silent_flow(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await world.start(run_id, THEIRS, attempt=2)
        await runner.killed.wait()


async def test_a_run_of_a_live_worker_is_not_taken_over(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    await world.truth.signals.listen(THEIRS, lambda _: None, lambda queried: queried == run_id)
    async with running_worker(world) as handle:
        await world.faults.done("signals.holds")
        assert handle.executor.runs == 0

    assert "delivery.ack" not in world.faults.calls
    assert (await world.execution(run_id)).attempt == 1


@pytest.mark.parametrize("holder", ["gone", "on something else"])
async def test_a_run_whose_holder_is_lost_or_has_released_it_is_taken_over(world: World, holder: str) -> None:
    run_id = await world.submit()
    await world.start(run_id, THEIRS)
    if holder == "on something else":
        await world.truth.signals.listen(THEIRS, lambda _: None, lambda queried: queried != run_id)
    async with running_worker(world, name="w-9") as handle:
        runner = await handle.executor.begun()
        assert runner.job is not None
        assert runner.job.attempt == 2
        runner.end()
        run = await world.until(run_id, "COMPLETED")

    assert run["worker_id"] == "w-9"


async def run_without_snapshot(world: World, *commands: Command) -> RunId:
    """A run whose log is ahead of its snapshot: its writer was killed before it advanced the snapshot."""
    run_id = await world.submit()
    for command in commands:
        await commit(world.truth, await world.execution(run_id), command, USER)
    return run_id


THEIR_START = StartExecution(at=2.0, attempt=1, worker_id=WORKER, instance_id=THEIRS)


async def test_a_run_whose_holder_was_lost_before_its_snapshot_showed_it_is_taken_over_at_once(world: World) -> None:
    run_id = await run_without_snapshot(world, THEIR_START)
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.end()
        run = await world.until(run_id, "COMPLETED")

    assert run["attempt"] == 2


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_run_just_started_by_another_worker_is_not_taken_over(world: World, cancelled: bool) -> None:
    also = (CancelExecution(at=3.0),) if cancelled else ()
    run_id = await run_without_snapshot(world, THEIR_START, *also)
    await world.truth.signals.listen(THEIRS, lambda _: None, lambda queried: queried == run_id)
    async with running_worker(world) as handle:
        await world.faults.done("signals.holds")
        assert handle.executor.runs == 0

    state = await world.execution(run_id)
    assert (state.attempt, state.status) == (1, Status.ACTIVE)
    assert not {"delivery.ack", "delivery.term", "delivery.nak"} & set(world.faults.calls)


async def test_a_node_of_a_lost_worker_restarts_with_the_next_attempt(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load"), began("load"))
        await world.until(run_id, "RUNNING", tasks={"load": "RUNNING"})
    async with running_worker(world, name="w-2") as handle:
        runner = await handle.executor.begun()
        runner.end("completed", declared("load"), began("load"), succeeded("load", 7))
        run = await world.until(run_id, "COMPLETED")

    assert run["task_records"]["load"]["attempt"] == 2
    assert run["task_records"]["load"]["output"] == 7


async def test_a_job_delivered_twice_to_one_worker_runs_once(world: World) -> None:
    run_id = await world.submit()
    state = await world.execution(run_id)
    async with running_worker(world, slots=2) as handle:
        runner = await handle.executor.begun()
        job = Job(run_id=run_id, flow_name="hello", tag="default", tags=(), params={}, submitted_at=1.0)
        await world.truth.queue.publish(job, created_sequence=state.version, nth=2)
        await world.faults.done("tag.receive", times=2)
        runner.end()
        await world.until(run_id, "COMPLETED")
        assert handle.executor.runs == 1


# --- exhausted, adopted, invalid --------------------------------------------------------------------------------------


async def test_a_run_that_lost_its_worker_too_often_fails(world: World) -> None:
    run_id = await world.submit()
    for attempt in range(1, world.config.consumer_max_deliver + 1):
        await world.start(run_id, THEIRS, attempt=attempt)
    async with running_worker(world) as handle:
        await world.faults.done("delivery.term")
        assert handle.executor.runs == 0

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert snapshot.plain["status"] == "FAILED"
    assert "20 attempts" in snapshot.plain["error"]
    assert await letters(world) == [("max_deliver", run_id)]


async def test_a_cancelled_run_that_lost_its_worker_too_often_is_cancelled(world: World) -> None:
    run_id = await world.submit()
    for attempt in range(1, world.config.consumer_max_deliver + 1):
        await world.start(run_id, THEIRS, attempt=attempt)
    await world.handle(run_id, CancelExecution(at=world.now()))
    async with running_worker(world):
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
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        assert runner.job is not None
        assert (runner.job.flow_name, runner.job.params) == ("etl", {"n": 1})
        runner.end()
        run = await world.until(run_id, "COMPLETED")

    assert (run["flow_name"], run["tags"], run["submitted_at"]) == ("etl", ["x"], 5.5)
    assert await world.status(run_id) == "COMPLETED"


async def test_a_job_whose_run_was_removed_is_dropped_and_revives_nothing(world: World) -> None:
    run_id = await world.submit()
    await world.truth.events.purge(run_id)
    await world.truth.snapshots.remove(run_id)
    async with running_worker(world) as handle:
        await world.faults.done("delivery.ack")
        assert handle.executor.runs == 0

    assert await world.truth.events.read(run_id) == []


@pytest.mark.parametrize("payload", [b"\xff", b"[]", b'{"flow_name": "etl"}'])
async def test_an_invalid_job_is_terminated_with_a_dead_letter(world: World, payload: bytes) -> None:
    await put_into_queue(world, payload)
    async with running_worker(world):
        await world.faults.done("delivery.term")

    (letter,) = await world.truth.dead_letters.recent()
    assert (letter.reason, letter.run_id, letter.tag) == ("invalid_job", None, "default")
    assert letter.error


async def test_an_invalid_job_that_names_its_run_fails_that_run(world: World) -> None:
    run_id = await world.submit()
    queue = await world.truth.queue.open("default")
    (delivery,) = await queue.receive(1)
    await delivery.ack()
    await put_into_queue(world, orjson.dumps({"run_id": run_id, "flow_name": 7}), created_sequence=1)
    async with running_worker(world):
        await world.faults.done("delivery.term")

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert snapshot.plain["status"] == "FAILED"
    assert "flow_name" in snapshot.plain["error"]
    assert await letters(world) == [("invalid_job", run_id)]


async def test_an_invalid_job_with_an_unknown_run_id_creates_a_failed_run(world: World) -> None:
    run_id = new_run_id()
    await put_into_queue(world, orjson.dumps({"run_id": run_id, "flow_name": "etl", "tag": "default"}))
    async with running_worker(world):
        await world.faults.done("delivery.term")

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert (snapshot.plain["status"], snapshot.plain["flow_name"]) == ("FAILED", "etl")


async def test_an_invalid_job_does_not_fail_a_run_that_a_worker_holds(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world, slots=2) as handle:
        runner = await handle.executor.begun()
        await put_into_queue(world, orjson.dumps({"run_id": run_id}), created_sequence=1)
        await world.faults.done("delivery.term")
        runner.end()
        await world.until(run_id, "COMPLETED", "FAILED")

    assert await world.status(run_id) == "COMPLETED"
