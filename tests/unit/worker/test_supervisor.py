"""The lifecycle of a worker: slots, heartbeats, outages, shutdown, and errors that must not stop it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import orjson
import pytest
from msgspec.structs import replace

from pyoco_server.adapters.system import SystemClock
from pyoco_server.domain.fleet.records import WorkerState
from pyoco_server.domain.ids import InstanceId, WorkerId
from pyoco_server.errors import BrokerUnavailable, InvalidUsage, RequestTooLarge
from pyoco_server.testing.job_queue import MemoryJobQueue
from pyoco_server.worker.supervisor.registration import WorkerRegistration
from support.runners import ScriptedRunner, began, declared, succeeded
from support.samples import new_run_id, worker
from support.workers import Working
from support.world import HELLO, WORKER, World
from unit.worker.conftest import QUICK, running_worker


async def begun(handle: Working, count: int) -> dict[str, ScriptedRunner]:
    runners = {}
    for _ in range(count):
        runner = await handle.executor.begun()
        assert runner.job is not None
        runners[runner.job.run_id] = runner
    return runners


# --- slots and heartbeats ---------------------------------------------------------------------------------------------


async def test_a_worker_runs_one_run_per_slot(world: World) -> None:
    run_ids = [await world.submit() for _ in range(3)]
    async with running_worker(world, slots=2) as handle:
        first = await begun(handle, 2)
        assert handle.executor.runs == 2
        first[run_ids[0]].end()
        await world.until(run_ids[0], "COMPLETED")
        (await begun(handle, 1))[run_ids[2]].end()
        first[run_ids[1]].end()
        for run_id in run_ids:
            await world.until(run_id, "COMPLETED")


class Keeper:
    """A WheelKeeper that only records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.begun, self.may_start = asyncio.Event(), asyncio.Event()
        self.wheel_sync = {"enabled": True, "last_result": "ok"}

    async def start(self) -> None:
        self.calls.append("start")
        self.begun.set()
        await self.may_start.wait()

    async def run(self) -> None:
        self.calls.append("run")
        try:
            await asyncio.Event().wait()
        finally:
            self.calls.append("stopped")


async def test_a_worker_takes_no_run_before_its_wheels_are_installed_and_publishes_their_state(world: World) -> None:
    keeper = Keeper()
    run_id = await world.submit()
    async with running_worker(world, sync=keeper) as handle:
        await keeper.begun.wait()
        assert "queue.open" not in world.faults.calls
        keeper.may_start.set()
        (await handle.executor.begun()).end()
        await world.until(run_id, "COMPLETED")
        record = await world.truth.registry.get(WorkerId("w-1"))

    assert record is not None
    assert record.wheel_sync == keeper.wheel_sync
    assert "queue.open" in world.faults.calls
    assert keeper.calls == ["start", "run", "stopped"]


async def test_runs_of_every_tag_of_the_worker_are_taken(world: World) -> None:
    ours = [await world.submit(replace(HELLO, tag=tag)) for tag in ("cpu", "gpu")]
    await world.submit(replace(HELLO, tag="other"))
    async with running_worker(world, slots=4, tags=("cpu", "gpu", "cpu")) as handle:
        for runner in (await begun(handle, 2)).values():
            runner.end()
        for run_id in ours:
            await world.until(run_id, "COMPLETED")

    assert len(await world.truth.queue.stored("other")) == 1


async def test_a_long_run_sends_heartbeats_and_is_not_delivered_again() -> None:
    world = World(clock=SystemClock(), ack_wait_sec=0.15, **QUICK)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        before = await world.until(run_id, "RUNNING")
        await world.faults.done("delivery.in_progress", times=6)
        after = await world.snapshot(run_id)
        assert after is not None
        assert handle.executor.runs == 1
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert after.plain["heartbeat_at"] > before["heartbeat_at"]
    assert after.plain["updated_at"] == before["updated_at"]


async def test_the_registry_shows_the_current_runs_of_the_worker(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world, slots=3) as handle:
        runner = await handle.executor.begun()
        while not (record := await world.truth.registry.get(WorkerId("w-1"))) or not record.current_run_ids:
            await world.faults.done("registry.put", times=world.faults.calls.count("registry.put") + 1)
        runner.end("failed")
        await world.until(run_id, "FAILED")

    assert (record.current_run_ids, record.slots, record.tags) == ((run_id,), 3, ("default",))
    assert record.reported_state() is WorkerState.RUNNING
    last = await world.truth.registry.get(WorkerId("w-1"))
    assert last is not None
    assert (last.reported_state(), last.current_run_ids) == (WorkerState.STOPPED_GRACEFUL, ())
    assert (last.last_run_id, last.last_run_status) == (run_id, "FAILED")


async def test_a_worker_id_in_use_is_refused_by_name(world: World) -> None:
    async with running_worker(world, name="twin") as _:
        await world.faults.done("registry.succeed")

        with pytest.raises(InvalidUsage, match="'twin' is running"):
            async with running_worker(world, name="twin"):
                pass


async def test_the_slower_of_two_workers_that_register_one_name_is_refused(world: World) -> None:
    other = worker("twin", "faster")

    async def register_concurrently() -> None:
        await world.truth.signals.listen(other.instance_id, lambda _: None, lambda _: False)
        await world.truth.registry.put(other)

    world.faults.before("registry.succeed", register_concurrently)

    with pytest.raises(InvalidUsage, match="'twin' is running"):
        async with running_worker(world, name="twin"):
            pass


async def test_a_worker_that_finds_its_own_record_is_registered(world: World) -> None:
    instance_id = InstanceId("i-1")
    registration = WorkerRegistration(world.stores, WORKER, instance_id, ("default",), 1)
    await world.truth.signals.listen(instance_id, lambda _: None, lambda _: False)

    async def store_with_a_lost_response() -> None:
        await world.truth.registry.succeed(None, registration._present())

    world.faults.before("registry.succeed", store_with_a_lost_response)
    await registration.register()

    record = await world.truth.registry.get(WORKER)
    assert record is not None
    assert record.instance_id == instance_id


async def test_a_killed_worker_can_restart_at_once_under_its_name(world: World) -> None:
    async with running_worker(world, name="twin"):
        await world.faults.done("registry.succeed")
    async with running_worker(world, name="twin"):
        await world.faults.done("registry.succeed", times=2)


# --- outages ----------------------------------------------------------------------------------------------------------


async def test_an_outage_during_a_run_loses_no_step(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load", "save"), began("load"))
        await world.until(run_id, "RUNNING", tasks={"load": "RUNNING", "save": "PENDING"})
        world.faults.is_offline = True
        runner.say(succeeded("load", 1))
        runner.say(began("save"))
        runner.end("completed", succeeded("save", 2))
        for _ in range(3):
            await world.faults.tried("events.append")
        world.faults.is_offline = False
        run = await world.until(run_id, "COMPLETED")
        await world.faults.done("delivery.ack")
        assert handle.executor.runs == 1

    assert {name: record["output"] for name, record in run["task_records"].items()} == {"load": 1, "save": 2}
    assert run["attempt"] == 1


async def test_an_append_with_a_lost_response_does_not_duplicate_a_step(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.lose_answer("events.append")
        runner.say(declared("load"), began("load"))
        runner.end("completed", succeeded("load", 1))
        run = await world.until(run_id, "COMPLETED")

    assert run["task_records"]["load"]["attempt"] == 1


async def test_the_ack_waits_for_the_snapshot_of_a_stored_end(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await world.until(run_id, "RUNNING")
        world.faults.fail("snapshots.advance", times=2)
        runner.end()
        await world.faults.done("delivery.ack")

    assert await world.status(run_id) == "COMPLETED"


async def test_the_ack_waits_for_the_snapshot_of_an_end_with_a_lost_response(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        await world.until(run_id, "RUNNING")
        world.faults.lose_answer("events.append")
        runner.end()
        await world.faults.done("delivery.ack")

    assert await world.status(run_id) == "COMPLETED"


async def test_an_outage_before_the_start_returns_the_job_with_a_delay_of_two_seconds(world: World) -> None:
    await world.submit()
    world.faults.fail("snapshots.load")
    async with running_worker(world) as handle:
        await world.faults.done("delivery.nak")
        assert handle.executor.runs == 0


async def test_a_lost_ack_is_repeated_when_the_job_is_redelivered() -> None:
    world = World(clock=SystemClock(), ack_wait_sec=0.1, **QUICK)
    run_id = await world.submit()
    world.faults.fail("delivery.ack")
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end()
        await world.faults.done("delivery.ack")
        assert handle.executor.runs == 1

    assert await world.status(run_id) == "COMPLETED"
    assert len(await world.truth.queue.stored("default")) == 0


async def test_a_worker_that_cannot_reach_the_broker_logs_that_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_worker(world):
        await world.faults.done("registry.succeed")
        world.faults.is_offline = True
        await world.faults.tried("registry.put")
        await world.faults.tried("registry.put")
        world.faults.is_offline = False

    found = [record for record in caplog.records if getattr(record, "err_id", "") == "ERR-PYOCO-0003"]
    assert {getattr(record, "worker_id", None) for record in found} == {WORKER}


async def test_a_worker_resumes_pulling_after_an_outage(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.worker.supervisor.supervisor.PULL_PAUSE_SEC", 0.01)
    world.faults.fail("queue.open", times=2)
    run_id = await world.submit()
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end()
        await world.until(run_id, "COMPLETED")


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_a_stopping_worker_lets_its_run_finish_within_the_grace_period(world: World) -> None:
    run_id = await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        handle.stop.set()
        runner.end()
        await world.until(run_id, "COMPLETED")

    assert not runner.killed.is_set()
    assert len(await world.truth.queue.stored("default")) == 0


async def test_a_run_that_exceeds_the_grace_period_continues_elsewhere_at_once() -> None:
    world = World(clock=SystemClock(), ack_wait_sec=60.0, **QUICK)
    run_id = await world.submit()
    async with running_worker(world, name="w-1") as first:
        runner = await first.executor.begun()
        await _is_listed(world, "w-1", run_id)
        async with running_worker(world, name="w-2") as second:
            await world.faults.done("signals.listen", times=2)
            first.stop.set()
            next_runner = await second.executor.begun()
            assert runner.killed.is_set()
            next_runner.end()
            run = await world.until(run_id, "COMPLETED")

    assert (run["attempt"], run["worker_id"]) == (2, "w-2")


async def _is_listed(world: World, worker_id: str, run_id: str) -> None:
    """Waits until the run is in the worker's record."""
    while True:
        record = await world.truth.registry.get(WorkerId(worker_id))
        if record is not None and run_id in record.current_run_ids:
            return
        await world.faults.tried("registry.put")


async def test_a_second_stop_request_skips_the_grace_period() -> None:
    world = World(clock=SystemClock(), **QUICK | {"worker_stop_grace_period_sec": 60.0})
    await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        handle.stop.set()
        handle.at_once.set()
        await runner.killed.wait()

    assert "delivery.nak" in world.faults.calls


async def test_a_job_not_started_is_released_when_the_worker_stops() -> None:
    world = World(clock=SystemClock(), **QUICK | {"worker_stop_grace_period_sec": 60.0})
    run_ids = [await world.submit() for _ in range(2)]
    async with running_worker(world) as handle:
        runners = await begun(handle, 1)
        await world.faults.done("tag.receive")
        handle.stop.set()
        await world.faults.done("delivery.nak")
        runners[run_ids[0]].end()
        await world.until(run_ids[0], "COMPLETED")

    assert (await world.execution(run_ids[1])).attempt == 0


async def test_a_worker_that_stops_during_the_write_of_an_end_completes_it(world: World) -> None:
    run_id = await world.submit()
    written = asyncio.Event()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        world.faults.before("events.append", written.wait)
        runner.end()
        await world.faults.tried("events.append")
        handle.stop.set()
        await asyncio.sleep(0)
        written.set()
        await world.until(run_id, "COMPLETED")

    assert "delivery.nak" not in world.faults.calls
    assert len(await world.truth.queue.stored("default")) == 0


async def test_a_worker_can_stop_before_it_is_ready(world: World) -> None:
    never = asyncio.Event()
    world.faults.before("registry.get", never.wait)
    async with running_worker(world) as handle:
        await world.faults.tried("registry.get")
        handle.stop.set()

    assert "queue.open" not in world.faults.calls


async def test_a_worker_can_stop_during_an_outage() -> None:
    world = World(clock=SystemClock(), **QUICK | {"worker_stop_grace_period_sec": 0.05})
    await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        runner.say(declared("load"), began("load"))
        world.faults.is_offline = True


# --- errors that do not stop it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [BrokerUnavailable(), RequestTooLarge("more than nats takes")], ids=repr)
async def test_an_unwritable_dead_letter_is_logged_and_the_job_acked(
    world: World, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await world.submit()
    world.faults.fail("dead_letters.publish", trouble)
    with caplog.at_level(logging.WARNING):
        async with running_worker(world) as handle:
            (await handle.executor.begun()).end("failed")
            await world.faults.done("delivery.ack")

    assert "ERR-PYOCO-0011" in [record.__dict__.get("err_id") for record in caplog.records]


async def test_a_foreign_job_refused_by_the_log_is_invalid_and_not_retried(world: World) -> None:
    run_id = new_run_id()
    plain = {"run_id": run_id, "flow_name": "etl", "tag": "default", "submitted_at": 1.0}
    queue = world.truth.queue
    assert isinstance(queue, MemoryJobQueue)
    await queue.put(orjson.dumps(plain), tag="default")
    world.faults.fail("events.append", RequestTooLarge("1100000 bytes are more than nats takes"))
    async with running_worker(world):
        await world.faults.done("delivery.term")

    (letter,) = await world.truth.dead_letters.recent()
    assert (letter.reason, letter.run_id) == ("invalid_job", run_id)


async def test_an_unexpected_error_in_an_attempt_releases_its_job_and_the_worker_continues() -> None:
    world = World(clock=SystemClock(), ack_wait_sec=0.1, **QUICK)
    run_id = await world.submit()
    world.faults.fail("snapshots.load", ZeroDivisionError())
    async with running_worker(world) as handle:
        (await handle.executor.begun()).end()
        await world.until(run_id, "COMPLETED")


async def test_an_unexpected_error_in_a_heartbeat_does_not_end_the_heartbeats(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await world.submit()
    with caplog.at_level(logging.ERROR):
        async with running_worker(world) as handle:
            runner = await handle.executor.begun()
            world.faults.fail("snapshots.touch", ZeroDivisionError())
            await world.faults.done("snapshots.touch", times=2)
            runner.end()
            await world.until(run_id, "COMPLETED")

    assert any(record.exc_info for record in caplog.records)


async def test_an_unwritable_snapshot_does_not_delay_the_workers_heartbeats(world: World) -> None:
    await world.submit()
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        tries = 4
        world.faults.fail("snapshots.advance", times=tries)
        runner.say(declared("load"), began("load"))
        await world.faults.tried("snapshots.advance")
        before = Counter(world.faults.calls)
        await world.faults.done("registry.put", times=before["registry.put"] + 3)
        meanwhile = Counter(world.faults.calls) - before
        runner.end()

    assert meanwhile["snapshots.advance"] < tries


async def test_a_full_worker_returns_prefetched_jobs_and_pulls_none_until_a_slot_is_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each delivery counts towards the broker's limit: a job returned too often would be exhausted."""
    monkeypatch.setattr("pyoco_server.worker.attempt.attempt.GIVE_BACK_AFTER_SEC", 0.02)
    run_ids = [await world.submit() for _ in range(2)]
    async with running_worker(world) as handle:
        runners = await begun(handle, 1)
        await world.faults.done("delivery.nak")
        for _ in range(5):
            await world.faults.tried("snapshots.touch")
        assert world.faults.calls.count("delivery.nak") == 1
        runners[run_ids[0]].end()
        (await begun(handle, 1))[run_ids[1]].end()
        await world.until(run_ids[1], "COMPLETED")
