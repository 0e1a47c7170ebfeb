"""Which runner serves which run: tenants never share one, and none waits for ever."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pyoco_server.domain.fleet.records import Isolation
from pyoco_server.worker.runner_pool.idle_runners import IdleRunners
from pyoco_server.worker.runner_pool.runner import ProcessRunner


class FakeRunner:
    """A runner without a process; `killed` is what its slot would replace."""

    def __init__(self) -> None:
        self.is_alive = True
        self.is_busy = False
        self.has_served = False
        self.served: list[str | None] = []
        self.group = ""  # of all tenants

    def kill(self) -> None:
        self.is_alive = False


class Slots:
    """`size` slots: a killed runner is replaced when the test says so."""

    def __init__(self, size: int, isolation: Isolation) -> None:
        self.groups: dict[str | None, str] = {}  # of tenants with an environment of their own
        self.runners = [FakeRunner() for _ in range(size)]
        self.idle = IdleRunners(size, isolation, self._is_current)
        for runner in self.runners:
            self.idle.add(cast(ProcessRunner, runner))

    def _is_current(self, runner: ProcessRunner, tenant_id: str | None) -> bool:
        return self.groups.get(tenant_id, "") == cast(FakeRunner, runner).group

    def restart(self) -> int:
        """Replaces the dead runners; returns their number."""
        dead = [runner for runner in self.runners if not runner.is_alive]
        for runner in dead:
            self.runners[self.runners.index(runner)] = fresh = FakeRunner()
            tenant = self.idle.begin_start()
            fresh.group = self.groups.get(tenant, "")
            self.idle.end_start(tenant)
            self.idle.add(cast(ProcessRunner, fresh), only_for=tenant if fresh.group else None)
        return len(dead)

    def wait(self, tenant: str | None) -> asyncio.Task[ProcessRunner]:
        return asyncio.create_task(self.idle.take(tenant))

    async def take(self, tenant: str | None) -> FakeRunner:
        async with asyncio.timeout(5):
            waiting = self.wait(tenant)
            await asyncio.sleep(0)
            while not waiting.done():
                self.restart()
                await asyncio.sleep(0)
            runner = cast(FakeRunner, waiting.result())
            runner.served.append(tenant)
            runner.has_served = True
            return runner

    def give_back(self, runner: FakeRunner) -> None:
        self.idle.give_back(cast(ProcessRunner, runner))

    async def serve(self, tenant: str | None) -> FakeRunner:
        runner = await self.take(tenant)
        self.give_back(runner)
        return runner


@pytest.mark.parametrize("size", [1, 3])
async def test_a_runner_serves_one_tenant_only(size: int) -> None:
    slots = Slots(size, "tenant")

    seen = [await slots.serve(tenant) for tenant in ("a", "b", None, "a", "c", "b", None, "a")]

    assert all(len(set(runner.served)) == 1 for runner in seen)


async def test_the_runner_of_a_tenant_stays_warm_for_it() -> None:
    slots = Slots(2, "tenant")

    runners = {id(await slots.serve(tenant)) for tenant in ("a", "b", "a", "b", "a")}

    assert len(runners) == 2


async def test_the_tenant_used_least_recently_loses_its_runner() -> None:
    slots = Slots(3, "tenant")
    of = {tenant: await slots.serve(tenant) for tenant in ("a", "b", "c")}
    await slots.serve("a")

    await slots.serve("d")

    assert [tenant for tenant, runner in of.items() if not runner.is_alive] == ["b"]


async def test_a_tenant_with_a_run_in_progress_loses_its_idle_runner_last() -> None:
    slots = Slots(3, "tenant")
    first, second = await slots.take("a"), await slots.take("a")
    slots.give_back(first)
    other = await slots.serve("b")

    await slots.serve("c")

    assert first.is_alive
    assert second.is_alive
    assert not other.is_alive


async def test_a_busy_tenant_cannot_keep_another_one_waiting() -> None:
    slots = Slots(1, "tenant")
    held = await slots.take("busy")
    tenants = ("busy", "other", "busy", "busy")
    waiting = [slots.wait(tenant) for tenant in tenants]
    await asyncio.sleep(0)

    slots.give_back(held)
    for position, task in enumerate(waiting):
        while not task.done():
            slots.restart()
            await asyncio.sleep(0)
        assert not any(later.done() for later in waiting[position + 1 :])
        slots.give_back(cast(FakeRunner, task.result()))


async def test_one_runner_is_replaced_per_waiting_run() -> None:
    slots = Slots(3, "tenant")
    for tenant in ("a", "b", "c"):
        await slots.serve(tenant)

    waiting = slots.wait("d")
    await asyncio.sleep(0)
    await slots.serve("c")

    assert slots.restart() == 1
    await waiting


@pytest.mark.parametrize("isolation", ["tenant", "run"])
async def test_a_tenant_with_an_environment_of_its_own_runs_there_only(isolation: Isolation) -> None:
    slots = Slots(2, isolation)
    before = await slots.serve("a")
    slots.groups["a"] = "wheels of a"
    slots.idle.refresh()

    seen = [(tenant, (await slots.serve(tenant)).group) for tenant in ("a", "b", "a", "c", "a")]

    assert not before.is_alive
    assert seen == [(tenant, "wheels of a" if tenant == "a" else "") for tenant in ("a", "b", "a", "c", "a")]


async def test_a_runner_is_started_for_each_waiting_run_of_such_a_tenant() -> None:
    slots = Slots(2, "tenant")
    slots.groups["a"] = "wheels of a"

    waiting = [slots.wait("a"), slots.wait("a")]
    await asyncio.sleep(0)
    started = [slots.idle.begin_start() for _ in range(3)]

    assert started == ["a", "a", None]
    for task in waiting:
        task.cancel()


async def test_in_shared_mode_a_runner_serves_every_tenant() -> None:
    slots = Slots(1, "shared")

    runners = {id(await slots.serve(tenant)) for tenant in ("a", "b", None)}

    assert len(runners) == 1


async def test_in_run_mode_a_runner_serves_one_run() -> None:
    slots = Slots(2, "run")

    seen = [await slots.serve(tenant) for tenant in ("a", "a", "a", "b")]

    assert all(len(runner.served) == 1 and not runner.is_alive for runner in seen)


async def test_a_run_that_stops_waiting_takes_no_runner() -> None:
    slots = Slots(1, "tenant")
    held = await slots.take("a")
    given_up, late = slots.wait("b"), slots.wait("a")
    await asyncio.sleep(0)

    given_up.cancel()
    await asyncio.wait([given_up])
    slots.give_back(held)

    assert cast(FakeRunner, await late) is held


async def test_a_runner_that_comes_at_the_moment_of_a_cancel_is_not_lost() -> None:
    slots = Slots(1, "tenant")
    held = await slots.take("a")
    cancelled = slots.wait("a")
    await asyncio.sleep(0)

    slots.give_back(held)
    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert await slots.take("a") is held
