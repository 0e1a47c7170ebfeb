"""Submitting a run: all three writes or none."""

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
    """The id of the only run."""
    (seen,) = [batch async for batch in world.feed.commits(after=0)]
    (run_id,) = {one.run_id for one in seen}
    return run_id


async def refused(world: World) -> PyocoError:
    with pytest.raises(PyocoError) as error:
        await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)
    return error.value


async def test_an_accepted_run_is_in_log_snapshot_and_queue(world: World) -> None:
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


async def test_a_requeued_job_equals_the_first_one(world: World) -> None:
    execution = await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)
    await world.handle(execution.execution_id, AddTag(at=world.now(), tag="x", from_outside=True))

    await queue_again(world.stores, await world.execution(execution.execution_id), nth=2)

    first, again = await (await world.truth.queue.open("default")).receive(2)
    assert [parse_job(one.payload).correlation_id for one in (first, again)] == [USER.correlation_id] * 2
    assert [one.created_sequence for one in (first, again)] == [execution.version] * 2


async def test_a_job_without_a_log_has_no_correlation_id(world: World) -> None:
    execution = await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)
    await world.truth.events.purge(execution.execution_id)

    await queue_again(world.stores, execution, nth=2)

    _, again = await (await world.truth.queue.open("default")).receive(2)
    assert parse_job(again.payload) == job_of(execution)


async def test_a_run_refused_by_the_log_leaves_nothing(world: World) -> None:
    world.faults.fail("events.append")

    error = await refused(world)

    assert isinstance(error, BrokerUnavailable)
    assert (await world.feed.commit_stream())[1] == 0
    assert len(await world.truth.queue.stored("default")) == 0


async def test_a_run_whose_first_append_has_a_lost_response_is_reported_by_id(world: World) -> None:
    world.faults.lose_answer("events.append")

    error = await refused(world)

    assert (type(error), error.err_id) == (OrphanRunPossible, "ERR-PYOCO-0004")
    assert await only_run(world) in error.detail


@pytest.mark.parametrize("call", ["snapshots.advance", "queue.publish"])
async def test_an_incomplete_submit_is_cancelled_in_log_and_snapshot(world: World, call: str) -> None:
    world.faults.fail(call)

    error = await refused(world)

    assert (type(error), error.err_id) == (BrokerUnavailable, "ERR-PYOCO-0003")
    run_id = await only_run(world)
    execution = await world.execution(run_id)
    assert execution.status is Status.CANCELED
    assert execution.cancel is not None
    assert execution.cancel.how is StopHow.SUBMIT_FAILED
    assert await world.status(run_id) == "CANCELLED"


async def test_maintenance_does_not_revive_an_undone_run(world: World) -> None:
    world.faults.fail("queue.publish")
    await refused(world)
    run_id = await only_run(world)

    await world.catch_up()
    world.clock.pass_time(2.0)
    await world.maintenance.repair()

    assert await world.status(run_id) == "CANCELLED"
    assert len(await world.truth.queue.stored("default")) == 0


async def test_retention_removes_the_events_of_an_undone_run(world: World) -> None:
    world.faults.fail("queue.publish")
    await refused(world)
    run_id = await only_run(world)

    await world.catch_up()
    world.clock.pass_time(world.config.run_retention_sec + 1.0)
    await world.maintenance.remove_old_runs()

    assert await world.truth.events.read(run_id) == []
    assert await world.snapshot(run_id) is None


@pytest.mark.parametrize("broken", ["events.append", "snapshots.load"])
async def test_a_run_that_cannot_be_undone_is_reported_by_id(
    world: World, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_the_undo() -> None:
        world.faults.fail(broken)

    world.faults.fail("queue.publish")
    world.faults.before("snapshots.advance", fail_the_undo)
    with caplog.at_level(logging.ERROR):
        error = await refused(world)

    assert (type(error), error.err_id) == (OrphanRunPossible, "ERR-PYOCO-0004")
    run_id = await only_run(world)
    assert run_id in error.detail
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.__dict__["run_id"] == run_id
    assert record.__dict__["err_id"] == "ERR-PYOCO-0004"


async def test_a_run_started_by_a_worker_is_accepted_despite_lost_responses(world: World) -> None:
    """The job was queued, its response was lost, and a worker starts the run before the undo."""

    async def start_by_a_worker() -> None:
        await world.start(await only_run(world))
        raise BrokerUnavailable

    world.faults.after("queue.publish", start_by_a_worker)
    execution = await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)

    assert await world.status(execution.execution_id) == "RUNNING"


@pytest.mark.parametrize("fault", [RequestTooLarge("70000 bytes"), ZeroDivisionError()], ids=repr)
async def test_an_error_that_is_no_outage_undoes_the_run_and_is_raised(world: World, fault: Exception) -> None:
    world.faults.fail("queue.publish", fault)

    with pytest.raises(type(fault)):
        await SubmitService(stores=world.stores).submit(HELLO, ("default",), USER)

    assert (await world.execution(await only_run(world))).status is Status.CANCELED
