"""A gateway may be killed before or after each call that leaves it, and a cancel may come then: the request still ends.

The calls are those to the stores and to the engine. What is killed makes no further call; another gateway goes on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from pyoco_server.domain.execution.events import (
    ExecutionCanceled,
    ExecutionCompleted,
    ExecutionFailed,
    NodeCanceled,
    NodeFailed,
    NodeSucceeded,
)
from pyoco_server.domain.execution.state import Status
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.strategies import read_output
from pyoco_server.ports.pdca import BatchState
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.pdca.request_run import RequestRun
from pyoco_server.testing.batch_engine import MemoryBatchEngine
from support.executions_in_memory import executions_of
from support.faults import Faults, behind
from support.pdca import request_cancel, request_run, requested
from support.world import World

# More than the calls of one request of three batches, counted twice: before and after.
POINTS = 140
ENDS = (ExecutionCompleted, ExecutionFailed, ExecutionCanceled)


class Killed(BaseException):
    """The process is gone."""


class Mortal(Faults):
    """Calls of one gateway; at a point something happens, a kill for example."""

    def __init__(self, at_point: int = 0, happens: Callable[[], Awaitable[object]] | None = None) -> None:
        super().__init__()
        self.points = 0
        self._at_point, self._happens = at_point, happens
        self._is_dead = False

    async def happen_before(self, call: str) -> None:
        await self._point()

    async def happen_after(self, call: str) -> None:
        await self._point()

    async def _point(self) -> None:
        self.points += 1
        if self.points == self._at_point:
            if self._happens is None:
                self._is_dead = True
            else:
                await self._happens()
        if self._is_dead:
            raise Killed


class MortalEngine:
    """The engine as one gateway calls it."""

    def __init__(self, engine: MemoryBatchEngine, calls: Faults) -> None:
        self._engine, self._calls = engine, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if name not in ("start", "states", "outcome", "cancel"):
            return found

        async def called(*args: Any) -> Any:
            await self._calls.happen_before(name)
            result = await found(*args)
            await self._calls.happen_after(name)
            return result

        return called


def gateway(world: World, run_id: RunId, engine: MemoryBatchEngine, calls: Faults) -> RequestRun:
    """What a gateway of its own drives the request with."""
    world.stores = behind(calls, world.truth)
    executions = executions_of(world, cache=ExecutionCache(world.stores))
    return request_run(world, run_id, MortalEngine(engine, calls), executions=executions)


async def drive(request: RequestRun, engine: MemoryBatchEngine) -> None:
    """To its end, with batches that succeed between two looks."""
    for _ in range(20):
        if await request.advance():
            return
        engine.end_all()
    raise AssertionError("the request does not end")


async def check(world: World, run_id: RunId, engine: MemoryBatchEngine, expected: Status) -> None:
    execution = await world.execution(run_id)
    events = [event for stored in await world.truth.events.read(run_id) for event in stored.commit.events]
    ends = Counter(event.node_id for event in events if isinstance(event, NodeSucceeded | NodeFailed | NodeCanceled))
    assert execution.status is expected
    assert sum(isinstance(event, ENDS) for event in events) == 1
    assert all(node.status.is_terminal for node in execution.nodes.values())
    assert max(ends.values(), default=1) == 1
    assert max(engine.starts.values(), default=1) == 1
    for node in execution.nodes.values():
        if node.output is not None:
            output = read_output(node.output)
            assert output is not None
            assert [await world.truth.artifacts.get(artifact.id) is None for artifact in output.artifacts] == [False]
    if expected is Status.CANCELED:
        assert all(engine.state(run_id, number) is not BatchState.RUNNING for number in (1, 2, 3))
    else:
        assert ends == dict.fromkeys(execution.nodes, 1)


async def test_the_points_cover_a_whole_request(world: World) -> None:
    run_id, engine, calls = await requested(world), MemoryBatchEngine(), Mortal()

    await drive(gateway(world, run_id, engine, calls), engine)

    assert 20 < calls.points < POINTS


@pytest.mark.parametrize("point", range(1, POINTS))
async def test_another_gateway_completes_the_request_of_one_that_was_killed(world: World, point: int) -> None:
    run_id, engine = await requested(world), MemoryBatchEngine(concurrency=2)
    try:
        await drive(gateway(world, run_id, engine, Mortal(point)), engine)
    except Killed:
        await drive(gateway(world, run_id, engine, Mortal()), engine)

    await check(world, run_id, engine, Status.COMPLETED)


@pytest.mark.parametrize("point", range(1, POINTS))
async def test_a_cancel_after_a_kill_leaves_nothing_running(world: World, point: int) -> None:
    run_id, engine = await requested(world), MemoryBatchEngine(concurrency=2)
    try:
        await drive(gateway(world, run_id, engine, Mortal(point)), engine)
        expected = Status.COMPLETED
    except Killed:
        expected = Status.CANCELED
        if (await world.execution(run_id)).status.is_terminal:
            expected = Status.COMPLETED  # killed after the last commit
        else:
            await request_cancel(world, run_id)
        await drive(gateway(world, run_id, engine, Mortal()), engine)

    await check(world, run_id, engine, expected)


@pytest.mark.parametrize("point", range(1, POINTS))
async def test_a_cancel_at_any_moment_wins_unless_the_end_was_first(world: World, point: int) -> None:
    run_id, engine = await requested(world), MemoryBatchEngine(concurrency=2)
    accepted = []

    async def cancel() -> None:
        if not (await world.execution(run_id)).status.is_terminal:
            await request_cancel(world, run_id)
            accepted.append(True)

    await drive(gateway(world, run_id, engine, Mortal(point, cancel)), engine)

    await check(world, run_id, engine, Status.CANCELED if accepted else Status.COMPLETED)


@pytest.mark.parametrize("seed", range(60))
async def test_two_gateways_with_a_kill_and_a_cancel_end_the_request_once(world: World, seed: int) -> None:
    random = Random(seed)
    run_id, engine = await requested(world), MemoryBatchEngine(concurrency=random.choice([1, 2, 100]))
    accepted = []

    async def cancel() -> None:
        if not (await world.execution(run_id)).status.is_terminal:
            await request_cancel(world, run_id)
            accepted.append(True)

    class Jittery(Mortal):
        async def _point(self) -> None:
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            await super()._point()

    is_canceled = seed % 3 == 0
    some = [
        Jittery(random.randrange(1, 60)),
        Jittery(random.randrange(1, 60), cancel if is_canceled else lambda: asyncio.sleep(0)),
        Jittery(),
    ]
    outcomes = await asyncio.gather(
        *(drive(gateway(world, run_id, engine, calls), engine) for calls in some), return_exceptions=True
    )

    assert all(outcome is None or isinstance(outcome, Killed) for outcome in outcomes), outcomes
    await check(world, run_id, engine, Status.CANCELED if accepted else Status.COMPLETED)
