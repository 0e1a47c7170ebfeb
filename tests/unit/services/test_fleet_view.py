"""The fleet as one gateway sees it: silence is measured by the gateway, and not during its own outage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec import structs

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerState
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import BrokerUnavailable, WorkerNotFound
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.stores import WorkerRegistry, WorkerSeen
from pyoco_server.testing.broker import MemoryKeyValue
from support.clocks import ManualClock
from support.faults import Faults
from support.samples import worker

W1 = WorkerId("w1")
IDLE, DISCONNECTED, STOPPED = WorkerState.IDLE, WorkerState.DISCONNECTED, WorkerState.STOPPED_GRACEFUL


class Scene:
    """A registry, a clock, and their observers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.faults = Faults()
        self.registry = WorkerRegistry(MemoryKeyValue(self.clock.monotonic))

    def view(self) -> FleetView:
        return FleetView(self.registry, self.faults, self.clock, NatsBackendConfig())

    async def send_heartbeat(self, name: str = "w1", *, skew_sec: float = 0.0) -> None:
        await self.registry.put(worker(name, last_seen_at=self.clock.now() + skew_sec))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[FleetView]:
        view = self.view()
        task = asyncio.create_task(view.run())
        try:
            assert await view.wait_caught_up(5.0)
            yield view
        finally:
            task.cancel()
            await asyncio.wait([task])

    def pass_time_connected(self, view: FleetView, seconds: float) -> None:
        """Time during which the observer ticks every half second."""
        for _ in range(int(seconds * 2)):
            self.clock.pass_time(0.5)
            view.workers()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def state(view: FleetView, name: str = "w1") -> WorkerState | None:
    seen = view.worker(WorkerId(name))
    return seen.state if seen else None


def silent_sec(view: FleetView, name: str = "w1") -> float | None:
    seen = view.worker(WorkerId(name))
    return seen.silent_sec if seen else None


async def until(true: Callable[[], bool]) -> None:
    """Yields to the task of the follower until the condition is true."""
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 — the view has no event for single words, and needs none
            await asyncio.sleep(0)


async def test_a_silent_worker_is_disconnected_after_the_timeout(scene: Scene) -> None:
    await scene.send_heartbeat()
    async with scene.watching() as view:
        scene.pass_time_connected(view, 20.0)
        assert state(view) is IDLE

        scene.pass_time_connected(view, 0.5)

        assert state(view) is DISCONNECTED


async def test_a_heartbeat_ends_the_silence(scene: Scene) -> None:
    await scene.send_heartbeat()
    async with scene.watching() as view:
        scene.pass_time_connected(view, 60.0)

        await scene.send_heartbeat()
        await until(lambda: state(view) is IDLE)

        assert silent_sec(view) == 0.0


@pytest.mark.parametrize("skew_sec", [-3600.0, 3600.0])
async def test_a_worker_with_a_wrong_clock_is_judged_by_the_clock_of_the_gateway(scene: Scene, skew_sec: float) -> None:
    async with scene.watching() as view:
        await scene.send_heartbeat(skew_sec=skew_sec)
        await until(lambda: state(view) is IDLE)

        scene.pass_time_connected(view, 21.0)

        assert state(view) is DISCONNECTED


@pytest.mark.parametrize("skew_sec", [-3600.0, 0.0, 3600.0])
async def test_a_worker_that_died_before_the_gateway_started_is_not_alive(scene: Scene, skew_sec: float) -> None:
    await scene.send_heartbeat(skew_sec=skew_sec)
    scene.clock.pass_time(86400.0)

    async with scene.watching() as view:
        assert state(view) is DISCONNECTED


async def test_a_dead_hidden_worker_is_not_alive_after_a_restart(scene: Scene) -> None:
    await scene.send_heartbeat()
    scene.clock.pass_time(86400.0)
    async with scene.watching() as view:
        await view.set_hidden(W1, True)
        assert state(view) is DISCONNECTED

    async with scene.watching() as restarted:
        assert state(restarted) is DISCONNECTED


async def test_an_outage_of_the_gateway_is_no_silence_of_the_workers(scene: Scene) -> None:
    await scene.send_heartbeat("living")
    await scene.send_heartbeat("dead")
    async with scene.watching() as view:
        for _ in range(6):
            scene.pass_time_connected(view, 5.0)
            await scene.send_heartbeat("living")
            await until(lambda: silent_sec(view, "living") == 0.0)
        assert state(view, "dead") is DISCONNECTED

        scene.faults.is_offline = True
        scene.clock.pass_time(600.0)
        assert (state(view, "living"), state(view, "dead")) == (IDLE, DISCONNECTED)
        scene.faults.is_offline = False

        assert (state(view, "living"), state(view, "dead")) == (IDLE, DISCONNECTED)
        scene.pass_time_connected(view, 20.0)
        assert state(view, "living") is IDLE
        scene.pass_time_connected(view, 0.5)
        assert state(view, "living") is DISCONNECTED


async def test_a_worker_that_reported_its_stop_stays_stopped(scene: Scene) -> None:
    await scene.registry.put(replace(worker(), stopped_at=100.0, stop_reason="stopped"))
    async with scene.watching() as view:
        scene.pass_time_connected(view, 60.0)

        assert state(view) is STOPPED


async def test_an_operators_change_shows_at_once_and_is_no_heartbeat(scene: Scene) -> None:
    await scene.send_heartbeat()
    async with scene.watching() as view:
        scene.pass_time_connected(view, 25.0)

        at = await view.set_hidden(W1, True)

        seen = view.worker(W1)
        assert seen is not None
        assert (seen.record.hidden, seen.state, at) == (True, DISCONNECTED, scene.clock.now())


@pytest.mark.parametrize("skew_sec", [-3600.0, 3600.0])
async def test_an_operators_change_does_not_affect_the_silence_of_a_worker_with_a_wrong_clock(
    scene: Scene, skew_sec: float
) -> None:
    await scene.send_heartbeat(skew_sec=skew_sec)
    async with scene.watching() as view:
        scene.pass_time_connected(view, 10.0)

        await view.set_hidden(W1, True)

        assert (state(view), silent_sec(view)) == (IDLE, 10.0)


async def test_a_delayed_heartbeat_does_not_undo_an_operators_change(scene: Scene) -> None:
    class DelayedRegistry(WorkerRegistry):
        """A registry with delayed records."""

        def __init__(self) -> None:
            super().__init__(MemoryKeyValue(scene.clock.monotonic))
            self.arrives = asyncio.Event()

        async def follow(self) -> AsyncGenerator[Sequence[WorkerSeen], None]:
            word = WorkerSeen(sequence=1, worker_id=W1, record=worker("w1"))
            yield [word]
            yield []
            await self.arrives.wait()
            yield [structs.replace(word, sequence=2)]
            yield [WorkerSeen(sequence=9, worker_id=WorkerId("another"), record=worker("another"))]
            await asyncio.Event().wait()

    scene.registry = registry = DelayedRegistry()
    for _ in range(2):
        await scene.send_heartbeat()
    async with scene.watching() as view:
        await view.set_hidden(W1, True)

        registry.arrives.set()
        await until(lambda: state(view, "another") is not None)

        seen = view.worker(W1)
        assert seen is not None
        assert seen.record.hidden


async def test_a_change_of_an_unknown_worker_is_refused(scene: Scene) -> None:
    with pytest.raises(WorkerNotFound):
        await scene.view().set_hidden(W1, True)


async def test_a_removed_worker_is_not_listed(scene: Scene) -> None:
    await scene.registry.put(worker())
    async with scene.watching() as view:
        await scene.registry.remove(worker())

        await until(lambda: view.worker(W1) is None)

        assert view.workers() == []


async def test_a_recreated_registry_replaces_the_old_records(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.fleet_view.PAUSE_SEC", 0.0)
    await scene.send_heartbeat("old")
    replaced = asyncio.Event()
    follow = scene.registry.follow

    async def interrupted() -> AsyncIterator[object]:
        yield await anext(aiter(follow()))
        yield []
        await replaced.wait()
        scene.registry = WorkerRegistry(MemoryKeyValue(scene.clock.monotonic))
        await scene.send_heartbeat("new")
        monkeypatch.setattr(view, "_registry", scene.registry)
        raise BrokerUnavailable("the bucket is another one")

    monkeypatch.setattr(scene.registry, "follow", interrupted)
    view = scene.view()
    task = asyncio.create_task(view.run())
    assert await view.wait_caught_up(5.0)
    assert state(view, "old") is IDLE

    replaced.set()
    await until(lambda: state(view, "new") is IDLE)

    assert state(view, "old") is None
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("offline", [True, False])
async def test_the_fleet_is_unavailable_until_it_is_known_and_during_outages(
    scene: Scene, offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.services.fleet_view.FIRST_FILL_WAIT_SEC", 0.01)
    scene.faults.is_offline = offline

    with pytest.raises(BrokerUnavailable, match="is not reachable|unavailable|NATS" if offline else "being built"):
        await scene.view().all_workers()


async def test_live_workers_are_counted_by_the_threshold_of_the_runs(scene: Scene) -> None:
    await scene.send_heartbeat("silent")
    await scene.registry.put(replace(worker("stopped"), stopped_at=100.0))
    async with scene.watching() as view:
        assert view.alive() == 1
        scene.pass_time_connected(view, 15.5)
        await scene.send_heartbeat("speaking")
        await until(lambda: state(view, "speaking") is IDLE)

        assert (view.alive(), state(view, "silent")) == (1, IDLE)


async def test_flows_of_the_fleet_are_those_of_present_workers(scene: Scene) -> None:
    flow = AnnouncedFlow(name="etl", nodes=("load",))
    record = replace(worker("w1", last_seen_at=scene.clock.now()), flows=(flow,))
    await scene.registry.put(record)
    async with scene.watching() as view:
        announced = replace(flow, tags=("default",))
        assert view.announced_flows() == {"etl": announced}

        await scene.registry.put(replace(record, flows=(AnnouncedFlow(name="new"),)))
        await until(lambda: "new" in view.announced_flows())
        assert "etl" not in view.announced_flows()

        scene.pass_time_connected(view, 21.0)
        assert view.announced_flows() == {}


async def test_flows_are_merged_once_for_repeated_heartbeats(scene: Scene) -> None:
    record = replace(worker("w1", last_seen_at=scene.clock.now()), flows=(AnnouncedFlow(name="etl"),))
    await scene.registry.put(record)
    async with scene.watching() as view:
        before = view.announced_flows()["etl"]
        scene.pass_time_connected(view, 1.0)
        await scene.registry.put(replace(record, last_seen_at=scene.clock.now()))
        await until(lambda: silent_sec(view) == 0.0)

        assert view.announced_flows()["etl"] is before
