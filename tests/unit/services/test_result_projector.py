"""The projection of results: counted from logs, at the version that is asked for, and the same after any restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyoco_server.domain.execution.commands import (
    CompleteExecution,
    CreateExecution,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.state import Request, Work
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.listing import ListedStrategy, StrategyQuery
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, pack
from pyoco_server.domain.pdca.strategies import (
    BatchOutput,
    Health,
    Strategy,
    StrategyFilter,
    StrategyResult,
    output_to_plain,
)
from pyoco_server.errors import InvalidRequest, StrategyNotFound
from pyoco_server.ports import StrategyResults
from pyoco_server.services.context import GATEWAY
from pyoco_server.services.pdca.result_projector import ResultProjector
from pyoco_server.services.pdca.strategies import StrategyService
from pyoco_server.services.pdca.strategy_tables import StrategyTables
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.testing.strategy_results import MemoryStrategyResults
from support.world import World

A, B = StrategyId("a"), StrategyId("b")
DAY_SEC = 86_400.0


@asynccontextmanager
async def running(world: World, results: StrategyResults) -> AsyncIterator[StrategyService]:
    """The strategies of a gateway, whose index and projection follow within the block."""
    indexer = Indexer(world.live_feed, world.index, world.truth.clock)
    tables = StrategyTables(world.truth.strategies, results)
    projector = ResultProjector(
        world.truth, world.index, indexer, results, tables, retention_sec=DAY_SEC, verify_every_sec=0.01
    )
    indexer.on_indexed(projector.on_indexed)
    tasks = [asyncio.create_task(work) for work in (indexer.run(), tables.run(), projector.run())]
    try:
        yield StrategyService(stores=world.truth, results=results, tables=tables, projector=projector)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def begun(world: World, *batches: list[StrategyId]) -> RunId:
    run_id = world.truth.ids.run_id()
    request = Request(flow_name=REQUEST_FLOW, work=Work.NODES)
    nodes = tuple(node_of(number) for number in range(1, len(batches) + 1))
    create = CreateExecution(at=world.now(), request=request, node_ids=nodes, node_inputs=pack(batches))
    await world.handle(run_id, create)
    await world.handle(run_id, StartExecution(at=world.now(), from_outside=True))
    return run_id


async def succeeded(world: World, run_id: RunId, number: int, *results: StrategyResult) -> None:
    output: Any = output_to_plain(BatchOutput(results=results))
    await world.handle(run_id, StartNode(at=world.now(), node_id=node_of(number)))
    await world.handle(run_id, SucceedNode(at=world.now(), node_id=node_of(number), output=output))


def result(strategy: StrategyId, health: Health = Health.HEALTHY) -> StrategyResult:
    return StrategyResult(strategy=strategy, health=health)


async def put(service: StrategyService, *ids: StrategyId) -> None:
    for strategy_id in ids:
        await service.put(None, Strategy(id=strategy_id, title="T", instrument="X"), context=GATEWAY)


async def last(service: StrategyService, strategy_id: StrategyId = A) -> Health:
    return (await service.get(None, strategy_id)).last_health


async def seen(service: StrategyService, health: Health, strategy_id: StrategyId = A) -> ListedStrategy:
    """The strategy, as soon as it has this health."""
    async with asyncio.timeout(10):
        while True:
            found = await service.get(None, strategy_id)
            if found.last_health is health:
                return found
            await asyncio.sleep(0.001)


async def test_progress_is_at_the_version_that_is_asked_for_and_so_are_lists(world: World) -> None:
    async with running(world, MemoryStrategyResults()) as service:
        await put(service, A)
        run_id = await begun(world, [A, B], [B])
        await succeeded(world, run_id, 1, result(A), result(B, Health.DEGRADED))
        version = await world.truth.events.last_sequence(run_id)

        progress = await service.progress(run_id, version=version)

        assert progress is not None
        assert (progress.version, progress.completed_batches, progress.success) == (version, 1, 2)
        assert await last(service) is Health.HEALTHY


async def test_results_are_counted_without_being_asked_for(world: World) -> None:
    async with running(world, MemoryStrategyResults()) as service:
        await put(service, A)
        run_id = await begun(world, [A])
        await succeeded(world, run_id, 1, result(A, Health.DEGRADED))

        await seen(service, Health.DEGRADED)


async def test_an_execution_of_another_kind_has_no_progress(world: World) -> None:
    async with running(world, MemoryStrategyResults()) as service:
        run_id = world.truth.ids.run_id()
        request = Request(flow_name=REQUEST_FLOW, work=Work.NODES)
        await world.handle(run_id, CreateExecution(at=world.now(), request=request))

        assert await service.progress(run_id, version=1) is None


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_restart_counts_what_happened_meanwhile_with_the_old_results_or_none(
    world: World, is_kept: bool
) -> None:
    results = MemoryStrategyResults()
    async with running(world, results) as service:
        await put(service, A, B)
        run_id = await begun(world, [A], [B])
        await succeeded(world, run_id, 1, result(A))
        await seen(service, Health.HEALTHY)

    await succeeded(world, run_id, 2, result(B, Health.DEGRADED))

    async with running(world, results if is_kept else MemoryStrategyResults()) as service:
        assert [await last(service, strategy_id) for strategy_id in (A, B)] == [Health.HEALTHY, Health.DEGRADED]


async def test_results_of_another_stream_are_counted_again(world: World) -> None:
    results = MemoryStrategyResults()
    async with running(world, results) as service:
        await put(service, A)
        run_id = await begun(world, [A])
        await succeeded(world, run_id, 1, result(A))
        await seen(service, Health.HEALTHY)

        results.reset("another stream")
        world.clock.pass_time(1.0)

        async with asyncio.timeout(10):
            while True:
                if results.versions([run_id]):
                    break
                await asyncio.sleep(0.001)
        assert await last(service) is Health.HEALTHY
        assert results.stream() == (await world.truth.events.state()).created


async def test_results_leave_when_the_log_of_their_run_is_gone(world: World) -> None:
    async with running(world, MemoryStrategyResults()) as service:
        await put(service, A)
        run_id = await begun(world, [A])
        await succeeded(world, run_id, 1, result(A))
        await world.handle(run_id, CompleteExecution(at=world.now()))
        await seen(service, Health.HEALTHY)

        await world.truth.events.purge(run_id)
        world.clock.pass_time(2 * DAY_SEC)

        assert (await seen(service, Health.UNKNOWN)).last_checked_at is None


async def test_only_enabled_strategies_are_selected_and_disabled_ones_refused_by_name(world: World) -> None:
    async with running(world, MemoryStrategyResults()) as service:
        await put(service, B, A)
        disabled = Strategy(id=StrategyId("off"), title="T", instrument="X", enabled=False)
        await service.put(None, disabled, context=GATEWAY)

        assert await service.select(None, StrategyFilter(instrument_any=("X",))) == [A, B]
        await service.check(None, [A, B])
        with pytest.raises(InvalidRequest, match="off"):
            await service.check(None, [A, StrategyId("off")])
        with pytest.raises(StrategyNotFound, match="nobody"):
            await service.check(None, [A, StrategyId("nobody"), StrategyId("off")])
        assert (await service.page("other", StrategyQuery())).total == 0
