"""Accepting a run: all three writes or none, whichever of them fails."""

from __future__ import annotations

import logging

import pytest

from pyoco_server.domain.execution.commands import AddTag
from pyoco_server.domain.execution.state import Status, StopHow
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, OrphanRunPossible, PyocoError, RequestTooLarge
from pyoco_server.services.executions.submit import SubmitService, job_of, queue_again
from pyoco_server.worker.attempt.job_parser import parse_job
from support.world import HELLO, USER, World


async def only_run(world: World) -> RunId:
    """The id of the one run that has ever been begun."""
    (seen,) = [batch async for batch in world.feed.commits(after=0)]
    (run_id,) = {one.run_id for one in seen}
    return run_id


async def refused(world: World) -> PyocoError:
    with pytest.raises(PyocoError) as error:
        await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)
    return error.value


async def test_an_accepted_run_is_in_the_log_in_its_snapshot_and_in_the_queue(world: World) -> None:
    execution = await SubmitService(stores=world.stores).submit(HELLO, ("nightly", "夜間"), USER)

    run_id = execution.execution_id
    assert execution == await world.execution(run_id)
    assert await world.status(run_id) == "PENDING"
    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    job = parse_job(delivery.payload)
    assert (job.run_id, job.flow_name, job.tag, job.tags, job.params) == (
        run_id,
        "hello",
        "default",
        ("nightly", "夜間"),
        {"name": "world"},
    )
    assert job.submitted_at == world.now()
    assert delivery.created_sequence == execution.version


async def test_a_job_that_is_queued_again_says_what_the_first_one_said(world: World) -> None:
    execution = await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)
    await world.handle(execution.execution_id, AddTag(at=world.now(), tag="x", from_outside=True))

    await queue_again(world.stores, await world.execution(execution.execution_id), nth=2)

    first, again = await (await world.truth.queue.open("default")).receive(2)
    assert [parse_job(one.payload).correlation_id for one in (first, again)] == [USER.correlation_id] * 2
    assert [one.created_sequence for one in (first, again)] == [execution.version] * 2


async def test_a_job_without_a_log_has_nothing_to_be_recognised_by(world: World) -> None:
    execution = await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)
    await world.truth.events.purge(execution.execution_id)

    await queue_again(world.stores, execution, nth=2)

    _, again = await (await world.truth.queue.open("default")).receive(2)
    assert parse_job(again.payload) == job_of(execution)


async def test_a_run_that_the_log_does_not_take_leaves_nothing_behind(world: World) -> None:
    world.faults.fail("events.append")

    error = await refused(world)

    assert isinstance(error, BrokerUnavailable)
    assert (await world.feed.commit_stream())[1] == 0
    assert len(await world.truth.queue.stored("default")) == 0


async def test_a_run_whose_first_event_was_stored_without_an_answer_is_told_of_by_its_id(world: World) -> None:
    world.faults.lose_answer("events.append")

    error = await refused(world)

    assert (type(error), error.err_id) == (OrphanRunPossible, "ERR-PYOCO-0004")
    assert await only_run(world) in error.detail


@pytest.mark.parametrize("call", ["snapshots.advance", "queue.publish"])
async def test_a_run_that_only_got_half_way_is_cancelled_in_events_and_snapshot(world: World, call: str) -> None:
    world.faults.fail(call)

    error = await refused(world)

    assert (type(error), error.err_id) == (BrokerUnavailable, "ERR-PYOCO-0003")
    run_id = await only_run(world)
    execution = await world.execution(run_id)
    assert execution.status is Status.CANCELED
    assert execution.cancel is not None
    assert execution.cancel.how is StopHow.SUBMIT_FAILED
    assert await world.status(run_id) == "CANCELLED"


async def test_a_run_that_was_undone_does_not_come_back_by_the_care_of_a_gateway(world: World) -> None:
    world.faults.fail("queue.publish")
    await refused(world)
    run_id = await only_run(world)

    await world.catch_up()
    world.clock.pass_time(2.0)
    await world.maintenance.repair()

    assert await world.status(run_id) == "CANCELLED"
    assert len(await world.truth.queue.stored("default")) == 0


async def test_retention_removes_the_events_of_a_run_that_was_undone(world: World) -> None:
    world.faults.fail("queue.publish")
    await refused(world)
    run_id = await only_run(world)

    await world.catch_up()
    world.clock.pass_time(world.config.run_retention_sec + 1.0)
    await world.maintenance.remove_old_runs()

    assert await world.truth.events.read(run_id) == []
    assert await world.snapshot(run_id) is None


@pytest.mark.parametrize("broken", ["events.append", "snapshots.load"])
async def test_a_run_that_cannot_be_undone_is_told_of_by_its_id(
    world: World, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def then_the_undo_fails() -> None:
        world.faults.fail(broken)

    world.faults.fail("queue.publish")
    world.faults.before("snapshots.advance", then_the_undo_fails)
    with caplog.at_level(logging.ERROR):
        error = await refused(world)

    assert (type(error), error.err_id) == (OrphanRunPossible, "ERR-PYOCO-0004")
    run_id = await only_run(world)
    assert run_id in error.detail
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.__dict__["run_id"] == run_id
    assert record.__dict__["err_id"] == "ERR-PYOCO-0004"


async def test_a_run_that_a_worker_has_begun_was_accepted_whatever_became_of_the_answers(world: World) -> None:
    """The queue took the job although its answer was lost, and a worker was quicker than the undo."""

    async def a_worker_begins() -> None:
        await world.start(await only_run(world))
        raise BrokerUnavailable

    world.faults.after("queue.publish", a_worker_begins)
    execution = await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)

    assert await world.status(execution.execution_id) == "RUNNING"


@pytest.mark.parametrize("fault", [RequestTooLarge("70000 bytes"), ZeroDivisionError()], ids=repr)
async def test_a_fault_that_is_no_outage_undoes_the_run_and_is_raised_as_it_is(world: World, fault: Exception) -> None:
    world.faults.fail("queue.publish", fault)

    with pytest.raises(type(fault)):
        await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)

    assert (await world.execution(await only_run(world))).status is Status.CANCELED
