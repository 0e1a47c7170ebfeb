"""The command handler under conflicts, lost responses, and logs ahead of their snapshots."""

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


async def test_a_command_is_in_log_and_snapshot(world: World) -> None:
    run_id = await world.submit()

    handled = await handle(world.stores, run_id, start(), USER)

    assert handled.events
    assert handled.accepted() == await world.execution(run_id)
    assert await world.status(run_id) == "RUNNING"


async def test_a_commit_has_actor_and_correlation_id(world: World) -> None:
    run_id = await world.submit()

    (stored,) = await world.truth.events.read(run_id)

    assert stored.commit.actor.kind == "user"
    assert stored.commit.correlation_id == "request-1"
    assert stored.commit.command == "CreateExecution"


async def test_a_command_without_effect_gives_no_event_and_no_error(world: World) -> None:
    run_id = await world.submit()
    await handle(world.stores, run_id, CancelExecution(at=2.0), USER)
    before = await world.truth.events.read(run_id)

    handled = await handle(world.stores, run_id, CancelExecution(at=3.0), USER)

    assert (handled.events, handled.refused) == ((), None)
    assert await world.truth.events.read(run_id) == before


async def test_after_a_conflict_the_log_is_reloaded_and_the_command_decided_again(world: World) -> None:
    run_id = await world.submit()

    async def cancel_concurrently() -> None:
        await world.handle(run_id, CancelExecution(at=2.0))

    world.faults.before("events.append", cancel_concurrently)
    handled = await handle(world.stores, run_id, start(), USER)

    assert handled.refused is not None
    assert handled.refused.why is RejectionReason.CANCEL_REQUESTED
    assert await world.status(run_id) == "CANCELLING"


async def test_an_end_after_a_concurrent_cancel_becomes_canceled(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)

    async def cancel_concurrently() -> None:
        await world.handle(run_id, CancelExecution(at=2.0))

    world.faults.before("events.append", cancel_concurrently)
    handled = await handle(world.stores, run_id, CompleteExecution(at=3.0, instance_id=OURS), USER)

    assert [type(event) for event in handled.events] == [ExecutionCanceled]
    assert await world.status(run_id) == "CANCELLED"


async def test_a_rejection_is_decided_on_the_log_and_not_on_an_old_snapshot(world: World) -> None:
    run_id = await world.submit()
    world.faults.fail("snapshots.advance")
    with pytest.raises(BrokerUnavailable):
        await handle(world.stores, run_id, start(), USER)

    # The snapshot is PENDING and would reject; in the log this worker holds the run.
    handled = await handle(world.stores, run_id, CompleteExecution(at=3.0, attempt=1, instance_id=OURS), USER)

    assert handled.refused is None
    assert await world.status(run_id) == "COMPLETED"


async def test_a_command_without_effect_is_decided_on_the_log_and_advances_the_snapshot(world: World) -> None:
    run_id = await world.submit()
    world.faults.fail("snapshots.advance")
    with pytest.raises(BrokerUnavailable):
        await handle(world.stores, run_id, AddTag(at=2.0, tag="urgent"), USER)

    handled = await handle(world.stores, run_id, AddTag(at=3.0, tag="urgent"), USER)

    assert handled.events == ()
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert snapshot.plain["tags"] == ["default", "urgent"]


async def test_a_command_to_a_missing_run_is_rejected(world: World) -> None:
    handled = await handle(world.stores, new_run_id(), CancelExecution(at=2.0), USER)

    with pytest.raises(RunNotFound):
        handled.accepted()


async def test_a_rejection_is_raised_with_its_reason(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)

    handled = await handle(world.stores, run_id, CancelExecution(at=2.0), USER)

    with pytest.raises(CommandRejected, match="COMPLETED") as rejected:
        handled.accepted()
    assert rejected.value.facts["why"] == "FINISHED"


async def test_a_run_removed_during_a_command_is_not_revived(world: World) -> None:
    run_id = await world.submit()

    async def remove_by_retention() -> None:
        await world.truth.events.purge(run_id)
        await world.truth.snapshots.remove(run_id)

    world.faults.before("events.append", remove_by_retention)
    with pytest.raises(RunNotFound):
        await handle(world.stores, run_id, CancelExecution(at=2.0), USER)

    assert await world.truth.events.read(run_id) == []
    assert await world.snapshot(run_id) is None


async def test_a_retried_append_with_a_lost_response_is_stored_once(world: World) -> None:
    run_id = await world.submit()
    world.faults.lose_answer("events.append")
    with pytest.raises(BrokerUnavailable):
        await handle(world.stores, run_id, CancelExecution(at=2.0), USER)

    handled = await handle(world.stores, run_id, CancelExecution(at=3.0), USER)

    assert handled.events == ()
    events = [event for stored in await world.truth.events.read(run_id) for event in stored.commit.events]
    assert sum(isinstance(event, ExecutionCancelRequested) for event in events) == 1


async def test_concurrent_writers_all_succeed(world: World) -> None:
    run_id = await world.submit()

    labels = [f"label-{n}" for n in range(30)]
    await asyncio.gather(*(handle(world.stores, run_id, AddTag(at=2.0, tag=label), USER) for label in labels))

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert set(snapshot.plain["tags"]) == {"default", *labels}


async def test_endless_conflicts_are_a_named_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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
