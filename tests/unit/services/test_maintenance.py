"""Maintenance: repair of snapshots and jobs, overdue cancels, strays, retention."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from pyoco_server.domain.execution.commands import AddTag, CancelExecution, CreateExecution
from pyoco_server.domain.execution.state import StopHow, empty_execution
from pyoco_server.domain.fleet.records import WorkerRecord
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, InternalError
from pyoco_server.ports import TagQueue
from pyoco_server.services.context import GATEWAY
from pyoco_server.services.executions.command_handler import commit
from pyoco_server.worker.attempt.job_parser import parse_job
from support.samples import new_run_id, worker
from support.world import HELLO, OURS, World


async def half_written(world: World, run_id: RunId) -> None:
    """A writer appended to the log and was killed before it advanced the snapshot."""
    execution = await world.execution(run_id)
    await commit(world.truth, execution, AddTag(at=world.now(), tag="late"), GATEWAY)


async def only_created(world: World) -> RunId:
    """A run in the log alone: its gateway was killed after the first append."""
    run_id = new_run_id()
    create = CreateExecution(at=world.now(), request=HELLO, labels=("default",))
    await commit(world.truth, empty_execution(run_id), create, GATEWAY)
    return run_id


async def labels(world: World, run_id: RunId) -> list[str]:
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    return list(snapshot.plain["tags"])


async def repaired(world: World, after_sec: float = 1.5) -> None:
    await world.catch_up()
    world.clock.pass_time(after_sec)
    await world.maintenance.repair()


async def queued(world: World, tag: str = "default") -> int:
    return len(await world.truth.queue.stored(tag))


async def emptied(world: World) -> TagQueue:
    """The queue without its job, as after a loss in the broker."""
    queue = await world.truth.queue.open("default")
    for delivery in await queue.receive(100):
        await delivery.ack()
    return queue


# --- repair -----------------------------------------------------------------------------------------------------------


async def test_a_snapshot_behind_its_log_is_advanced_after_a_second(world: World) -> None:
    run_id = await world.submit()
    world.maintenance.queued.add(run_id)
    await half_written(world, run_id)

    await repaired(world, after_sec=0.5)
    assert await labels(world, run_id) == ["default"]

    await repaired(world, after_sec=1.0)
    assert await labels(world, run_id) == ["default", "late"]


async def test_a_run_that_was_only_created_gets_its_snapshot_and_its_job(world: World) -> None:
    run_id = await only_created(world)

    await repaired(world)

    assert await world.status(run_id) == "PENDING"
    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    assert parse_job(delivery.payload).run_id == run_id
    assert delivery.created_sequence is not None


async def test_a_run_with_a_snapshot_and_without_a_job_gets_its_job(world: World) -> None:
    run_id = await only_created(world)
    await world.truth.snapshots.advance(await world.execution(run_id), create=True)

    await repaired(world)

    assert await queued(world) == 1


async def test_a_published_job_is_not_duplicated_by_a_gateway_that_missed_it(world: World) -> None:
    run_id = await world.submit()

    await repaired(world)

    assert await queued(world) == 1
    assert await world.status(run_id) == "PENDING"


async def test_a_gateway_with_a_new_index_does_not_requeue_long_pending_runs(world: World) -> None:
    await world.submit()
    world.clock.pass_time(120.0)  # after the deduplication window of the broker

    world.maintenance = world.new_maintenance()
    world.faults.calls.clear()
    await repaired(world)

    assert "queue.publish" not in world.faults.calls


async def test_a_run_that_this_gateway_has_queued_is_not_checked_again(world: World) -> None:
    run_id = await world.submit()
    world.maintenance.queued.add(run_id)
    await world.catch_up()
    world.clock.pass_time(1.5)
    world.faults.calls.clear()

    await world.maintenance.repair()

    assert world.faults.calls == []


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_run_that_is_held_or_cancelled_is_not_queued(world: World, is_held: bool) -> None:
    run_id = await only_created(world)
    if is_held:
        await world.start(run_id)
    else:
        await world.handle(run_id, CancelExecution(at=world.now()))

    await repaired(world)

    assert await queued(world) == 0
    assert await world.status(run_id) == ("RUNNING" if is_held else "CANCELLING")


async def test_a_run_that_retention_has_removed_stays_removed(world: World) -> None:
    run_id = await world.submit()
    await world.catch_up()
    await world.truth.events.purge(run_id)
    await world.truth.snapshots.remove(run_id)

    await repaired(world)

    assert await world.snapshot(run_id) is None


async def test_an_outage_delays_the_repair_and_loses_nothing(world: World) -> None:
    run_ids = [await only_created(world) for _ in range(3)]
    await world.catch_up()
    world.clock.pass_time(1.5)
    world.faults.fail("events.read")
    with pytest.raises(BrokerUnavailable):
        await world.maintenance.repair()

    await world.maintenance.repair()

    for run_id in run_ids:
        assert await world.status(run_id) == "PENDING"


async def test_a_run_that_cannot_be_repaired_does_not_block_the_others(world: World) -> None:
    broken, sound = await only_created(world), await only_created(world)
    await world.catch_up()
    world.clock.pass_time(1.5)

    world.faults.fail("events.read", ValueError("not a commit"), times=1)
    with pytest.raises(ValueError, match="not a commit"):
        await world.maintenance.repair()
    await world.maintenance.repair()

    assert await world.snapshot(broken) is None
    assert await world.status(sound) == "PENDING"


async def test_a_commit_during_the_repair_of_its_run_is_checked(world: World) -> None:
    run_id = await only_created(world)
    await world.catch_up()
    world.clock.pass_time(1.5)

    async def crash_another_writer_after_its_append() -> None:
        await half_written(world, run_id)
        await world.catch_up()

    world.faults.after("queue.publish", crash_another_writer_after_its_append)
    await world.maintenance.repair()
    await repaired(world)

    assert await labels(world, run_id) == ["default", "late"]


async def test_a_restarted_gateway_continues_at_its_position(world: World) -> None:
    await world.submit()
    await repaired(world)
    run_id = await only_created(world)

    world.maintenance = world.new_maintenance()
    world.faults.calls.clear()
    await repaired(world)

    assert await world.status(run_id) == "PENDING"
    assert world.faults.calls.count("snapshots.load") == 1


async def test_a_restarted_gateway_repeats_an_interrupted_check(world: World) -> None:
    run_id = await only_created(world)
    await world.catch_up()

    world.maintenance = world.new_maintenance()
    await repaired(world)

    assert await world.status(run_id) == "PENDING"


async def test_an_event_stream_that_was_replaced_is_checked_from_its_start(world: World) -> None:
    await world.submit()
    await world.catch_up()
    await world.maintenance.repair()
    half = await only_created(world)
    await world.catch_up()
    world.index.set_mark("checked_commits", (await world.feed.commit_stream())[1])
    world.index.set_mark("checked_stream", 1)  # a mark of the previous stream
    world.maintenance = world.new_maintenance()

    await repaired(world)

    assert await world.snapshot(half) is not None


# --- cancels ----------------------------------------------------------------------------------------------------------


async def test_a_cancel_whose_gateway_died_before_it_was_confirmed_is_confirmed(world: World) -> None:
    run_id = await world.submit()
    await world.handle(run_id, CancelExecution(at=world.now()))
    await world.catch_up()

    await world.maintenance.confirm_cancels()

    assert await world.status(run_id) == "CANCELLED"


async def test_a_cancel_that_cannot_be_confirmed_does_not_block_the_others(world: World) -> None:
    run_ids = [await world.submit(), await world.submit()]
    for run_id in run_ids:
        await world.handle(run_id, CancelExecution(at=world.now()))
    await world.catch_up()

    world.faults.fail("events.append", InternalError("a commit cannot be read"))
    await world.maintenance.confirm_cancels()

    assert sorted([await world.status(run_id) for run_id in run_ids]) == ["CANCELLED", "CANCELLING"]


async def test_overdue_cancels_are_confirmed_oldest_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.maintenance.cancels.BATCH", 1)
    newest, oldest, middle = [await world.submit() for _ in range(3)]
    for run_id in (oldest, middle, newest):
        world.clock.pass_time(1.0)
        await world.handle(run_id, CancelExecution(at=world.now()))
    await world.catch_up()

    async def lose_the_broker() -> None:
        world.faults.is_offline = True

    world.faults.after("events.append", lose_the_broker)
    with pytest.raises(BrokerUnavailable):
        await world.maintenance.confirm_cancels()
    world.faults.is_offline = False

    ended = [run_id for run_id in (newest, oldest, middle) if (await world.execution(run_id)).status.is_terminal]
    assert ended == [oldest]
    await world.maintenance.confirm_cancels()
    assert [await world.status(run_id) for run_id in (newest, middle)] == ["CANCELLED"] * 2


async def test_a_holder_that_missed_the_signal_is_signalled_again(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.handle(run_id, CancelExecution(at=world.now()))
    await world.catch_up()
    signalled: list[RunId] = []
    execution = await world.execution(run_id)
    assert execution.holder is not None
    assert execution.holder.instance_id is not None
    await world.truth.signals.listen(execution.holder.instance_id, signalled.append, lambda _: True)

    await world.maintenance.confirm_cancels()

    assert signalled == [run_id]
    assert await world.status(run_id) == "CANCELLING"


async def test_a_cancel_that_its_holder_never_confirmed_ends_unconfirmed(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.handle(run_id, CancelExecution(at=world.now()))
    await world.catch_up()

    world.clock.pass_time(world.config.cancel_grace_period_sec + 10.0)
    await world.maintenance.confirm_cancels()
    assert await world.status(run_id) == "CANCELLING"

    world.clock.pass_time(0.1)
    await world.maintenance.confirm_cancels()

    receipt = (await world.execution(run_id)).cancel
    assert receipt is not None
    assert receipt.how is StopHow.UNCONFIRMED
    assert await world.status(run_id) == "CANCELLED"


# --- strays -----------------------------------------------------------------------------------------------------------


async def register_worker(world: World, **changed: object) -> None:
    record: WorkerRecord = replace(worker(last_seen_at=world.now()), **changed)  # type: ignore[arg-type]
    await world.truth.registry.put(record)


def silence(world: World) -> float:
    return 2 * world.config.consumer_ack_wait_sec + 30.0


async def stray(world: World, *, running: bool) -> RunId:
    run_id = await world.submit()
    await emptied(world)
    if running:
        await world.start(run_id)
    await world.catch_up()
    world.clock.pass_time(silence(world) + 1.0)
    return run_id


@pytest.mark.parametrize("running", [True, False], ids=["running", "pending"])
async def test_a_run_without_heartbeats_is_requeued_when_a_worker_is_free(world: World, running: bool) -> None:
    run_id = await stray(world, running=running)
    await register_worker(world)

    await world.maintenance.requeue_strays()

    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    assert parse_job(delivery.payload).run_id == run_id
    assert delivery.created_sequence is not None


async def test_a_stray_is_requeued_once_and_not_in_every_iteration(world: World) -> None:
    await stray(world, running=False)
    await register_worker(world)

    await world.maintenance.requeue_strays()
    world.clock.pass_time(10.0)
    await register_worker(world)
    await world.maintenance.requeue_strays()

    assert await queued(world) == 1


NOBODY_FREE: dict[str, Callable[[float], dict[str, object]]] = {
    "busy": lambda now: {"current_run_ids": (new_run_id(), new_run_id())},
    "of another tag": lambda now: {"tags": ("gpu",)},
    "stopped": lambda now: {"stopped_at": now},
    "silent": lambda now: {"last_seen_at": now - 21.0},
}


@pytest.mark.parametrize("why", NOBODY_FREE)
async def test_a_stray_waits_while_every_worker_is(world: World, why: str) -> None:
    await stray(world, running=False)
    await register_worker(world, **NOBODY_FREE[why](world.now()))

    await world.maintenance.requeue_strays()

    assert await queued(world) == 0


async def test_a_responsive_worker_counts_as_free_despite_a_slow_clock(world: World) -> None:
    await stray(world, running=False)
    await register_worker(world, instance_id=OURS, last_seen_at=world.now() - 3600.0)
    await world.truth.signals.listen(OURS, lambda _: None, lambda _: False)

    await world.maintenance.requeue_strays()

    assert await queued(world) == 1


async def heartbeat(world: World, run_id: RunId) -> None:
    await world.truth.snapshots.touch(run_id, world.now() - 1.0)


async def hold(world: World, run_id: RunId) -> None:
    await world.truth.signals.listen(OURS, lambda _: None, lambda queried: queried == run_id)


@pytest.mark.parametrize("sign_of_life", [heartbeat, hold, World.complete], ids=lambda sign: sign.__name__)
async def test_a_run_with_heartbeats_is_not_requeued(
    world: World, sign_of_life: Callable[[World, RunId], Awaitable[object]]
) -> None:
    run_id = await stray(world, running=True)
    await sign_of_life(world, run_id)
    await register_worker(world)

    await world.maintenance.requeue_strays()

    assert await queued(world) == 0


# --- retention --------------------------------------------------------------------------------------------------------


async def finished(world: World) -> RunId:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)
    await world.catch_up()
    return run_id


async def test_a_finished_run_is_removed_with_its_events_after_its_retention_time(world: World) -> None:
    run_id = await finished(world)

    world.clock.pass_time(world.config.run_retention_sec - 1.0)
    await world.maintenance.remove_old_runs()
    assert await world.status(run_id) == "COMPLETED"

    world.clock.pass_time(2.0)
    await world.maintenance.remove_old_runs()
    assert await world.snapshot(run_id) is None
    assert await world.truth.events.read(run_id) == []


async def test_a_retention_of_zero_keeps_all_runs() -> None:
    world = World(run_retention_sec=0.0)
    run_id = await finished(world)

    world.clock.pass_time(1e9)
    await world.maintenance.remove_old_runs()

    assert await world.status(run_id) == "COMPLETED"


async def test_an_unfinished_run_is_kept_at_any_age(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.catch_up()

    world.clock.pass_time(world.config.run_retention_sec * 2)
    await world.maintenance.remove_old_runs()

    assert await world.status(run_id) == "RUNNING"


async def test_a_removal_interrupted_by_a_crash_is_finished_by_the_next_gateway(world: World) -> None:
    run_id = await finished(world)
    world.clock.pass_time(world.config.run_retention_sec + 1.0)
    world.faults.fail("snapshots.remove")
    with pytest.raises(BrokerUnavailable):
        await world.maintenance.remove_old_runs()
    assert await world.truth.events.read(run_id) == []
    assert await world.snapshot(run_id) is not None

    await world.new_maintenance().remove_old_runs()

    assert await world.snapshot(run_id) is None


async def test_a_removed_run_stays_removed_when_its_commits_are_still_to_be_checked(world: World) -> None:
    run_id = await finished(world)
    world.clock.pass_time(world.config.run_retention_sec + 1.0)
    await world.maintenance.remove_old_runs()

    await repaired(world)

    assert await world.snapshot(run_id) is None
    assert await world.execution(run_id) == empty_execution(run_id)


async def test_more_than_one_batch_of_old_runs_is_removed_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.services.maintenance.retention.BATCH", 2)
    monkeypatch.setattr("pyoco_server.services.maintenance.retention.PAUSE_SEC", 0.0)
    run_ids = [await finished(world) for _ in range(5)]
    world.clock.pass_time(world.config.run_retention_sec + 1.0)

    for _ in run_ids:
        world.faults.after("snapshots.remove", world.catch_up)
    await world.maintenance.remove_old_runs()

    assert [await world.snapshot(run_id) for run_id in run_ids] == [None] * 5


@pytest.mark.parametrize("is_unreadable", [True, False])
async def test_runs_that_cannot_be_removed_do_not_stop_retention(
    world: World, is_unreadable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.services.maintenance.retention.BATCH", 2)
    monkeypatch.setattr("pyoco_server.services.maintenance.retention.PAUSE_SEC", 0.0)
    first = [await finished(world) for _ in range(2)]
    world.clock.pass_time(1.0)
    behind = await finished(world)
    world.clock.pass_time(world.config.run_retention_sec + 1.0)
    for run_id in first:  # the index still lists them
        if is_unreadable:
            known = await world.snapshot(run_id)
            assert known is not None
            await world.truth.snapshots._bucket.put(run_id, b'{"status": "COMPLETED"}', revision=known.revision)
        else:
            await world.truth.snapshots.remove(run_id)

    async with asyncio.timeout(5.0):
        await world.maintenance.remove_old_runs()

    assert await world.snapshot(behind) is None


# --- workers ----------------------------------------------------------------------------------------------------------


async def test_workers_that_were_not_seen_for_a_month_are_removed(world: World) -> None:
    await world.truth.registry.put(worker("old", last_seen_at=world.now() - 31 * 86400))
    await world.truth.registry.put(worker("fresh", last_seen_at=world.now() - 29 * 86400))

    await world.maintenance.forget_workers()

    assert [record.worker_id for record in await world.truth.registry.all()] == ["fresh"]


async def test_a_worker_that_reports_during_its_removal_stays(world: World) -> None:
    await world.truth.registry.put(worker("old", last_seen_at=world.now() - 31 * 86400))

    async def come_back() -> None:
        await world.truth.registry.put(worker("old", last_seen_at=world.now()))

    world.faults.before("registry.remove", come_back)
    await world.maintenance.forget_workers()

    assert [record.last_seen_at for record in await world.truth.registry.all()] == [world.now()]
