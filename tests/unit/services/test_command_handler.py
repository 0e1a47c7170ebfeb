"""The one way in which an execution changes, under conflicts, lost answers, and logs that are ahead of snapshots."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.domain.execution.commands import AddTag, CancelExecution, CompleteExecution, StartExecution
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.events import ExecutionCanceled, ExecutionCancelRequested
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import AppendConflict, BrokerUnavailable, CommandRejected, RunNotFound
from pyoco_server.services.executions import command_handler as handling
from pyoco_server.services.executions.command_handler import handle
from support.faults import Action
from support.samples import new_run_id
from support.world import OURS, USER, WORKER, World


def start(attempt: int = 1) -> StartExecution:
    return StartExecution(at=2.0, attempt=attempt, worker_id=WORKER, instance_id=OURS)


async def test_log_and_snapshot_both_have_what_was_handled(world: World) -> None:
    run_id = await world.submit()

    handled = await handle(world.stores, run_id, start(), USER)

    assert handled.events
    assert handled.accepted() == await world.execution(run_id)
    assert await world.status(run_id) == "RUNNING"


async def test_a_commit_says_who_asked_and_by_which_request(world: World) -> None:
    run_id = await world.submit()

    (stored,) = await world.truth.events.read(run_id)

    assert stored.commit.actor.kind == "user"
    assert stored.commit.correlation_id == "request-1"
    assert stored.commit.command == "CreateExecution"


async def test_what_is_so_already_gives_no_event_and_is_no_error(world: World) -> None:
    run_id = await world.submit()
    await handle(world.stores, run_id, CancelExecution(at=2.0), USER)
    before = await world.truth.events.read(run_id)

    handled = await handle(world.stores, run_id, CancelExecution(at=3.0), USER)

    assert (handled.events, handled.refused) == ((), None)
    assert await world.truth.events.read(run_id) == before


async def test_whoever_was_faster_is_read_and_the_decision_made_again(world: World) -> None:
    run_id = await world.submit()

    async def somebody_cancels() -> None:
        await world.handle(run_id, CancelExecution(at=2.0))

    world.faults.before("events.append", somebody_cancels)
    handled = await handle(world.stores, run_id, start(), USER)

    assert handled.refused is not None
    assert handled.refused.why is RejectionReason.CANCEL_REQUESTED
    assert await world.status(run_id) == "CANCELLING"


async def test_a_verdict_overtaken_by_a_cancel_becomes_canceled(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)

    async def somebody_cancels() -> None:
        await world.handle(run_id, CancelExecution(at=2.0))

    world.faults.before("events.append", somebody_cancels)
    handled = await handle(world.stores, run_id, CompleteExecution(at=3.0, instance_id=OURS), USER)

    assert [type(event) for event in handled.events] == [ExecutionCanceled]
    assert await world.status(run_id) == "CANCELLED"


async def test_a_refusal_is_about_the_log_and_not_about_a_snapshot_that_is_behind(world: World) -> None:
    run_id = await world.submit()
    world.faults.fail("snapshots.advance")
    with pytest.raises(BrokerUnavailable):
        await handle(world.stores, run_id, start(), USER)

    # The snapshot says PENDING, so that it would refuse; the log says that we hold it.
    handled = await handle(world.stores, run_id, CompleteExecution(at=3.0, attempt=1, instance_id=OURS), USER)

    assert handled.refused is None
    assert await world.status(run_id) == "COMPLETED"


async def test_nothing_to_do_is_about_the_log_too_and_brings_the_snapshot_up_to_it(world: World) -> None:
    run_id = await world.submit()
    world.faults.fail("snapshots.advance")
    with pytest.raises(BrokerUnavailable):
        await handle(world.stores, run_id, AddTag(at=2.0, tag="urgent"), USER)

    handled = await handle(world.stores, run_id, AddTag(at=3.0, tag="urgent"), USER)

    assert handled.events == ()
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert snapshot.plain["tags"] == ["default", "urgent"]


async def test_there_is_nothing_to_be_said_about_a_run_that_does_not_exist(world: World) -> None:
    handled = await handle(world.stores, new_run_id(), CancelExecution(at=2.0), USER)

    with pytest.raises(RunNotFound):
        handled.accepted()


async def test_a_refusal_can_be_raised_with_its_reason(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)

    handled = await handle(world.stores, run_id, CancelExecution(at=2.0), USER)

    with pytest.raises(CommandRejected, match="COMPLETED") as rejected:
        handled.accepted()
    assert rejected.value.facts["why"] == "FINISHED"


async def test_a_run_that_retention_removed_under_us_is_not_revived(world: World) -> None:
    run_id = await world.submit()

    async def retention_comes() -> None:
        await world.truth.events.purge(run_id)
        await world.truth.snapshots.remove(run_id)

    world.faults.before("events.append", retention_comes)
    with pytest.raises(RunNotFound):
        await handle(world.stores, run_id, CancelExecution(at=2.0), USER)

    assert await world.truth.events.read(run_id) == []
    assert await world.snapshot(run_id) is None


async def test_an_append_whose_answer_was_lost_is_not_made_twice_when_it_is_tried_again(world: World) -> None:
    run_id = await world.submit()
    world.faults.lose_answer("events.append")
    with pytest.raises(BrokerUnavailable):
        await handle(world.stores, run_id, CancelExecution(at=2.0), USER)

    handled = await handle(world.stores, run_id, CancelExecution(at=3.0), USER)

    assert handled.events == ()
    events = [event for stored in await world.truth.events.read(run_id) for event in stored.commit.events]
    assert sum(isinstance(event, ExecutionCancelRequested) for event in events) == 1


async def test_of_many_writers_at_once_each_gets_its_word_in(world: World) -> None:
    run_id = await world.submit()

    labels = [f"label-{n}" for n in range(30)]
    await asyncio.gather(*(handle(world.stores, run_id, AddTag(at=2.0, tag=label), USER) for label in labels))

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert set(snapshot.plain["tags"]) == {"default", *labels}


async def test_a_crowd_that_never_lets_us_in_is_an_error_with_a_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await world.submit()
    monkeypatch.setattr(handling, "MAX_CONFLICTS", 3)

    for n in range(3):
        world.faults.before("events.append", _tagging(world, run_id, f"other-{n}"))

    with pytest.raises(AppendConflict):
        await handle(world.stores, run_id, AddTag(at=2.0, tag="ours"), USER)


def _tagging(world: World, run_id: RunId, tag: str) -> Action:
    async def tag_it() -> None:
        await world.handle(run_id, AddTag(at=2.0, tag=tag))

    return tag_it
