"""Rescue of runs of lost workers: the holder is queried, and one gateway returns the job."""

from __future__ import annotations

import orjson
import pytest

from pyoco_server.domain.execution.commands import CancelExecution, StartExecution
from pyoco_server.domain.ids import InstanceId, RunId
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.ports import Delivery, TagQueue
from pyoco_server.services.maintenance.lost_workers import LostWorkerRescuer
from support.world import OURS, THEIRS, WORKER, World


class Scene:
    """A run that a worker took from the queue, and a gateway that listens."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rescue = LostWorkerRescuer(world.stores, world.index, world.config)
        self.queue: TagQueue | None = None

    async def begun(self, instance_id: InstanceId = OURS) -> RunId:
        run_id = await self.world.submit()
        delivery = await self.delivered()
        command = StartExecution(
            at=self.world.now(),
            attempt=1,
            worker_id=WORKER,
            instance_id=instance_id,
            return_to=delivery.return_to,
        )
        (await self.world.handle(run_id, command)).accepted()
        await self.check_holders()
        return run_id

    async def delivered(self) -> Delivery:
        self.queue = self.queue or await self.world.truth.queue.open("default")
        (delivery,) = await self.queue.receive(1)
        return delivery

    async def check_holders(self, after_sec: float = 0.0) -> None:
        await self.world.catch_up()
        self.world.clock.pass_time(after_sec)
        await self.rescue.check()

    async def silence(self, seconds: int = 6) -> None:
        for _ in range(seconds):
            await self.check_holders(after_sec=1.0)


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


def returned_jobs(world: World) -> int:
    return world.faults.calls.count("queue.give_back")


async def test_the_job_of_a_lost_worker_is_delivered_again(scene: Scene, world: World) -> None:
    await scene.begun()

    await scene.silence()

    again = await scene.delivered()
    assert again.num_delivered == 2
    assert returned_jobs(world) == 1


async def test_jobs_that_a_lost_worker_had_prefetched_return_with_its_runs(scene: Scene, world: World) -> None:
    begun = await scene.begun()
    ahead = await world.submit()
    await scene.delivered()

    await scene.silence()

    again = [await scene.delivered(), await scene.delivered()]
    assert {orjson.loads(one.payload)["run_id"] for one in again} == {begun, ahead}
    assert [one.num_delivered for one in again] == [2, 2]


async def test_runs_of_another_worker_are_not_returned(scene: Scene, world: World) -> None:
    await scene.begun()
    kept = await scene.begun(THEIRS)
    await world.truth.signals.listen(THEIRS, lambda _: None, lambda queried: queried == kept)

    await scene.silence()

    assert returned_jobs(world) == 1
    assert "queue.take_back" not in world.faults.calls


async def test_prefetched_jobs_of_a_live_worker_are_not_returned(scene: Scene, world: World) -> None:
    await scene.begun()
    await world.submit()
    await scene.delivered()
    await world.truth.signals.listen(OURS, lambda _: None, lambda _: False)

    await scene.silence()

    assert "queue.take_back" not in world.faults.calls


async def test_a_run_with_heartbeats_is_not_returned(scene: Scene, world: World) -> None:
    run_id = await scene.begun()

    for _ in range(10):
        await scene.check_holders(after_sec=1.0)
        await world.truth.snapshots.touch(run_id, world.now())

    assert returned_jobs(world) == 0


@pytest.mark.parametrize(
    ("holds", "seconds", "returned"),
    [(None, 4, 0), (True, 30, 0), (False, 6, 1)],
    ids=["too few heartbeats missed", "the holder has the run", "the holder does not have the run"],
)
async def test_a_job_is_returned_after_five_missed_heartbeats_unless_its_holder_has_the_run(
    scene: Scene, world: World, holds: bool | None, seconds: int, returned: int
) -> None:
    await scene.begun()
    if holds is not None:
        await world.truth.signals.listen(OURS, lambda _: None, lambda _: holds)

    await scene.silence(seconds)

    assert returned_jobs(world) == returned


@pytest.mark.parametrize("was_stopped", [True, False])
async def test_a_gateway_restarts_its_measurement_of_silence_after_an_outage_or_pause(
    scene: Scene, world: World, was_stopped: bool
) -> None:
    await scene.begun()
    if was_stopped:
        await scene.check_holders(after_sec=60.0)
    else:
        await scene.silence(4)
        world.faults.is_offline = True
        world.clock.pass_time(1.0)
        await scene.rescue.check()
        world.faults.is_offline = False

    await scene.silence(4)

    assert returned_jobs(world) == 0


async def test_one_of_two_gateways_returns_the_job(scene: Scene, world: World) -> None:
    await scene.begun()
    other = LostWorkerRescuer(world.stores, world.index, world.config)
    await other.check()

    for _ in range(6):
        world.clock.pass_time(1.0)
        await scene.rescue.check()
        await other.check()

    assert returned_jobs(world) == 1


async def test_returns_of_a_job_back_off_and_end(scene: Scene, world: World) -> None:
    await scene.begun()
    await scene.silence(5)
    counts = [returned_jobs(world)]

    for _ in range(4):
        await scene.silence(3)
        counts.append(returned_jobs(world))

    assert counts == [1, 2, 3, 4, 4]

    await scene.silence(60)
    assert returned_jobs(world) == 5


async def test_a_failed_return_is_retried(scene: Scene, world: World) -> None:
    await scene.begun()
    world.faults.fail("queue.give_back")

    for _ in range(6):
        try:
            await scene.check_holders(after_sec=1.0)
        except BrokerUnavailable:
            break
    tried = returned_jobs(world)
    await scene.silence(3)

    assert (tried, returned_jobs(world)) == (1, 2)


async def test_a_run_is_not_returned_because_of_an_outdated_index(scene: Scene, world: World) -> None:
    run_id = await scene.begun()

    for _ in range(10):
        world.clock.pass_time(1.0)
        await world.truth.snapshots.touch(run_id, world.now())
        await scene.rescue.check()

    assert returned_jobs(world) == 0


async def test_a_run_taken_over_during_the_check_stays_with_its_new_holder(scene: Scene, world: World) -> None:
    run_id = await scene.begun()
    await scene.silence(4)
    world.faults.before("signals.answers", lambda: world.start(run_id, THEIRS, attempt=2))

    await scene.silence(2)

    assert returned_jobs(world) == 0


async def test_a_finished_run_is_not_returned(scene: Scene, world: World) -> None:
    run_id = await scene.begun()
    await world.complete(run_id)

    await scene.silence(10)

    assert returned_jobs(world) == 0


async def test_a_cancelled_run_of_a_dead_worker_is_returned_to_end_the_cancel(scene: Scene, world: World) -> None:
    run_id = await scene.begun()
    await world.handle(run_id, CancelExecution(at=world.now()))
    await scene.check_holders()

    await scene.silence()

    assert returned_jobs(world) == 1
