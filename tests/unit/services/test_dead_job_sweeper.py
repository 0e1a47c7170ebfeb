"""Exhausted jobs end their runs; jobs of finished runs are removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec import structs

from pyoco_server.domain.execution.commands import CancelExecution
from pyoco_server.domain.fleet.records import WorkerRecord
from pyoco_server.domain.fleet.worker_status import QueueState
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.maintenance.dead_jobs import DeadJobSweeper
from pyoco_server.stores import DeadLetter
from pyoco_server.testing.job_queue import MemoryJobQueue
from support.samples import job_for, new_run_id, worker
from support.world import HELLO, OURS, World

MAX_DELIVER = 2


@pytest.fixture
def world() -> World:
    return World(consumer_max_deliver=MAX_DELIVER)


@pytest.fixture
def fleet(world: World) -> FleetView:
    return FleetView(world.stores.registry, world.stores.broker, world.stores.clock, world.config)


@pytest.fixture
def sweep(world: World, fleet: FleetView) -> DeadJobSweeper:
    return DeadJobSweeper(world.stores, world.index, fleet)


async def exhaust_job(world: World, tag: str = "default") -> None:
    """Exhausts the deliveries of the job."""
    queue = await world.truth.queue.open(tag)
    exhausted = asyncio.Event()
    await world.truth.queue.on_given_up(exhausted.set)
    for _ in range(MAX_DELIVER):
        (delivery,) = await queue.receive(1)
        await delivery.nak(0.0)
    await exhausted.wait()


async def sweep_twice(sweep: DeadJobSweeper, world: World) -> None:
    await world.catch_up()
    await sweep.sweep()
    world.clock.pass_time(2.0)
    await sweep.sweep()


async def letters(world: World) -> list[DeadLetter]:
    return list(await world.truth.dead_letters.recent())


async def depth(world: World, tag: str = "default") -> int:
    return len(await world.truth.queue.stored(tag))


# --- exhausted jobs ---------------------------------------------------------------------------------------------------


async def test_an_exhausted_job_fails_its_run_with_a_dead_letter(sweep: DeadJobSweeper, world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await exhaust_job(world)

    await sweep_twice(sweep, world)

    (letter,) = await letters(world)
    execution = await world.execution(run_id)
    assert await world.status(run_id) == "FAILED"
    assert execution.error is not None
    assert "given up after its job was delivered" in execution.error.message
    assert (letter.reason, letter.run_id, letter.flow_name, letter.tag) == ("max_deliver", run_id, "hello", "default")
    assert (letter.error, letter.tags, letter.worker_id) == (execution.error.message, ("default",), "w-1")
    assert await depth(world) == 0


async def test_a_run_is_ended_only_after_two_sweeps(sweep: DeadJobSweeper, world: World) -> None:
    run_id = await world.submit()
    await exhaust_job(world)

    await sweep.sweep()
    world.clock.pass_time(0.1)
    await sweep.sweep()

    assert await world.status(run_id) == "PENDING"


async def test_a_run_with_a_live_holder_is_not_ended(sweep: DeadJobSweeper, world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.truth.signals.listen(OURS, lambda _: None, lambda _: True)
    await exhaust_job(world)

    await sweep_twice(sweep, world)
    working = await world.status(run_id)
    await world.complete(run_id)
    await sweep_twice(sweep, world)

    assert (working, await world.status(run_id)) == ("RUNNING", "COMPLETED")
    assert (await letters(world), await depth(world)) == ([], 0)


async def test_pending_and_delivered_jobs_are_kept(sweep: DeadJobSweeper, world: World) -> None:
    in_hand, waiting = await world.submit(), await world.submit()
    queue = await world.truth.queue.open("default")
    await queue.receive(1)

    await sweep_twice(sweep, world)

    assert [await world.status(run_id) for run_id in (in_hand, waiting)] == ["PENDING", "PENDING"]
    assert await depth(world) == 2


async def test_jobs_behind_an_exhausted_job_stay_in_the_queue(sweep: DeadJobSweeper, world: World) -> None:
    lost = await world.submit()
    await exhaust_job(world)
    waits = await world.submit()

    await sweep_twice(sweep, world)

    assert [await world.status(run_id) for run_id in (lost, waits)] == ["FAILED", "PENDING"]
    assert await depth(world) == 1


async def test_an_exhausted_job_of_a_cancelled_run_waits_for_the_cancel(sweep: DeadJobSweeper, world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await exhaust_job(world)
    await world.handle(run_id, CancelExecution(at=world.now()))

    await sweep_twice(sweep, world)

    assert await world.status(run_id) == "CANCELLING"
    assert await letters(world) == []


async def test_an_exhausted_job_of_a_foreign_producer_has_a_dead_letter(sweep: DeadJobSweeper, world: World) -> None:
    queue = world.truth.queue
    assert isinstance(queue, MemoryJobQueue)
    run_id = new_run_id()
    await queue.put(b'{"run_id": "%b", "flow_name": "theirs"}' % run_id.encode(), tag="default")
    await exhaust_job(world)
    await queue.put(b"not a job", tag="other")
    await exhaust_job(world, "other")

    await sweep_twice(sweep, world)

    reasons = {(letter.reason, letter.run_id, letter.flow_name, letter.tag) for letter in await letters(world)}
    assert reasons == {("max_deliver", run_id, "theirs", "default"), ("invalid_job", None, None, "other")}
    assert await queue.tags() == []


async def test_a_run_is_ended_if_its_dead_letter_cannot_be_written(sweep: DeadJobSweeper, world: World) -> None:
    run_id = await world.submit()
    await exhaust_job(world)
    world.faults.fail("dead_letters.publish")

    await sweep_twice(sweep, world)

    assert await world.status(run_id) == "FAILED"


# --- leftover jobs ----------------------------------------------------------------------------------------------------


async def test_jobs_of_finished_runs_are_removed_from_unserved_tags(sweep: DeadJobSweeper, world: World) -> None:
    waits = await world.submit(structs.replace(HELLO, tag="gpu"))
    cancelled = await world.submit(structs.replace(HELLO, tag="gpu"))
    await world.handle(cancelled, CancelExecution(at=world.now()))
    await world.catch_up()
    await world.maintenance.confirm_cancels()

    await sweep_twice(sweep, world)

    (left,) = await world.truth.queue.stored("gpu")
    assert waits.encode() in left.payload
    assert await world.status(waits) == "PENDING"


async def test_jobs_of_a_served_tag_are_left_to_its_workers(
    sweep: DeadJobSweeper, world: World, fleet: FleetView
) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)

    async with following(fleet, world, worker(last_seen_at=world.now())):
        await sweep_twice(sweep, world)

    assert await depth(world) == 1


async def test_a_job_whose_run_was_removed_by_retention_is_removed(sweep: DeadJobSweeper, world: World) -> None:
    await world.truth.queue.publish(job_for(new_run_id()), created_sequence=7)

    await sweep.sweep()

    assert await depth(world) == 0


# --- the limit --------------------------------------------------------------------------------------------------------


async def test_a_fleet_near_the_delivery_limit_of_the_queue_is_warned_about_once(
    world: World, fleet: FleetView, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await world.submit()
    limit = QueueState(waiting=1, in_work=0, redelivered=0, most_in_work=10)

    async def state(_: str) -> QueueState:
        return limit

    monkeypatch.setattr(world.truth.queue, "state", state)
    sweep = DeadJobSweeper(world.truth, world.index, fleet)
    caplog.set_level(logging.WARNING)

    async with following(fleet, world, replace(worker(last_seen_at=world.now()), slots=8)):
        await sweep_twice(sweep, world)

    assert caplog.text.count("near the consumer's limit") == 1


@asynccontextmanager
async def following(fleet: FleetView, world: World, record: WorkerRecord) -> AsyncIterator[None]:
    """While the gateway sees this worker."""
    await world.truth.registry.put(record)
    task = asyncio.create_task(fleet.run())
    assert await fleet.wait_caught_up(10.0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
