"""The execution cache: commands on cached executions, and delayed snapshot writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import AddTag, ReportNodeProgress, StartNode, SucceedNode
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import NodeStatus, Status
from pyoco_server.domain.ids import CommitId, NodeId, RunId, WorkerId
from pyoco_server.errors import BrokerUnavailable, RunNotFound
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions import execution_cache as module
from pyoco_server.services.executions.execution_cache import ExecutionCache
from support.executions_in_memory import FORK, A, B, begun
from support.world import USER, World


@asynccontextmanager
async def running(cache: ExecutionCache) -> AsyncIterator[ExecutionCache]:
    """Runs the background writer of the cache."""
    task = asyncio.create_task(cache.run())
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.wait([task])


def take(world: World, node_id: NodeId = A) -> StartNode:
    return StartNode(at=world.now(), node_id=node_id, worker_id=WorkerId("ann"), from_outside=True)


def progress(world: World, percent: float) -> ReportNodeProgress:
    return ReportNodeProgress(at=world.now(), node_id=A, progress=percent, from_outside=True)


async def snapshot_version(world: World, run_id: RunId) -> int:
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    return snapshot.execution.version


async def test_a_second_command_does_not_load_the_snapshot(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    await cache.handle(run_id, take(world), USER)

    await cache.handle(run_id, progress(world, 10), USER)

    assert world.faults.calls.count("snapshots.load") == 1
    assert (await world.execution(run_id)).nodes[A].progress == 10


async def test_concurrent_commands_to_one_execution_cause_no_conflict(world: World) -> None:
    names = [NodeId(f"n{number}") for number in range(50)]
    graph = Graph(nodes=tuple(GraphNode(node_id=name) for name in names), edges=())
    run_id, cache = await begun(world, graph), ExecutionCache(world.stores)

    handled = await asyncio.gather(*(cache.handle(run_id, take(world, name), USER) for name in names))

    assert all(one.refused is None for one in handled)
    assert world.stores.counters.append_conflicts == 0
    assert {node.status for node in (await world.execution(run_id)).nodes.values()} == {NodeStatus.RUNNING}


async def test_commits_of_another_gateway_are_detected(world: World) -> None:
    run_id, ours, theirs = await begun(world), ExecutionCache(world.stores), ExecutionCache(world.stores)
    await ours.handle(run_id, take(world), USER)

    await theirs.handle(run_id, take(world, B), USER)
    handled = await ours.handle(run_id, SucceedNode(at=world.now(), node_id=B, from_outside=True), USER)

    assert handled.refused is None
    assert handled.execution.nodes[B].status is NodeStatus.SUCCEEDED


async def test_a_status_change_is_in_the_snapshot_before_the_response(world: World) -> None:
    run_id, cache = await begun(world, Graph(nodes=(GraphNode(node_id=A),), edges=())), ExecutionCache(world.stores)
    await cache.handle(run_id, take(world), USER)

    handled = await cache.handle(run_id, SucceedNode(at=world.now(), node_id=A, from_outside=True), USER)

    assert handled.execution.status is Status.COMPLETED
    assert await world.status(run_id) == "COMPLETED"


async def test_other_changes_are_written_soon_in_one_batch(world: World) -> None:
    run_id = await begun(world)
    async with running(ExecutionCache(world.stores)) as cache:
        await asyncio.gather(cache.handle(run_id, take(world), USER), cache.handle(run_id, progress(world, 7), USER))
        await world.faults.done("snapshots.advance")

        assert world.faults.calls.count("snapshots.advance") == 1
        assert await world.status(run_id) == "RUNNING"


async def test_a_list_flushes_pending_changes(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    handled = await cache.handle(run_id, take(world), USER)
    assert await snapshot_version(world, run_id) < handled.execution.version

    await cache.flush(progress=True)

    assert await snapshot_version(world, run_id) == handled.execution.version


async def test_a_read_of_one_execution_flushes_its_pending_changes(world: World) -> None:
    run_id, other, cache = await begun(world), await begun(world), ExecutionCache(world.stores)
    for one in (run_id, other):
        handled = await cache.handle(one, take(world), USER)

    await cache.flush_one(run_id)

    assert await snapshot_version(world, run_id) == (await world.execution(run_id)).version
    assert await snapshot_version(world, other) < handled.execution.version


@pytest.mark.parametrize("whole", [False, True])
async def test_a_read_waits_for_a_snapshot_write_in_progress(world: World, whole: bool) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    await cache.handle(run_id, take(world), USER)
    reached, proceed = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        reached.set()
        await proceed.wait()

    world.faults.before("snapshots.advance", slowly)
    async with running(cache):
        await reached.wait()
        flushing = asyncio.create_task(cache.flush(progress=True) if whole else cache.flush_one(run_id))
        await asyncio.sleep(0)
        waits = not flushing.done()
        proceed.set()
        await flushing

    assert waits
    assert await snapshot_version(world, run_id) == (await world.execution(run_id)).version


async def test_a_snapshot_that_could_not_be_written_is_written_when_the_broker_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SEC", 0.001)
    run_id = await begun(world)
    world.faults.fail("snapshots.advance", times=3)
    async with running(ExecutionCache(world.stores)) as cache:
        await cache.handle(run_id, take(world), USER)
        await world.faults.done("snapshots.advance")

    assert await world.status(run_id) == "RUNNING"


async def test_a_failed_command_evicts_its_entry(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    await cache.handle(run_id, take(world), USER)
    world.faults.fail("events.append")

    with pytest.raises(BrokerUnavailable):
        await cache.handle(run_id, progress(world, 1), USER)
    await cache.handle(run_id, progress(world, 2), USER)

    assert world.faults.calls.count("snapshots.load") == 2
    assert (await world.execution(run_id)).nodes[A].progress == 2


async def test_records_dropped_from_the_snapshot_are_not_cached(world: World) -> None:
    large = "x" * world.config.max_run_snapshot_bytes
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    await cache.handle(run_id, take(world), USER)
    await cache.handle(run_id, SucceedNode(at=world.now(), node_id=A, output=large, from_outside=True), USER)

    await cache.flush(progress=True)
    execution = (await cache.handle(run_id, take(world, B), USER)).execution

    assert execution.records_truncated
    assert execution.nodes[A].output is None
    assert (await world.execution(run_id)).nodes[A].output == large


async def test_only_the_most_recently_used_executions_are_cached(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    cache = ExecutionCache(world.stores)
    first, *others = [await begun(world) for _ in range(3)]
    for run_id in (first, *others):
        await cache.handle(run_id, AddTag(at=world.now(), tag="x"), USER)
        await cache.flush(progress=True)
    before = world.faults.calls.count("snapshots.load")

    await cache.handle(others[1], AddTag(at=world.now(), tag="y"), USER)
    await cache.handle(first, AddTag(at=world.now(), tag="y"), USER)

    assert world.faults.calls.count("snapshots.load") == before + 1


async def test_a_read_returns_the_fold_of_the_log(world: World) -> None:
    run_id, cache = await begun(world, FORK), ExecutionCache(world.stores)
    await ExecutionCache(world.stores).handle(run_id, take(world), USER)

    assert (await cache.look(run_id)).nodes[A].status is NodeStatus.RUNNING
    assert not (await cache.look(world.truth.ids.run_id())).exists


async def test_claimable_nodes_are_notified(world: World) -> None:
    notified: list[str] = []
    run_id, cache = await begun(world), ExecutionCache(world.stores, on_ready=lambda: notified.append("ready"))

    await cache.handle(run_id, take(world), USER)
    await cache.flush(progress=True)
    await cache.handle(run_id, take(world, B), USER)
    await cache.flush(progress=True)

    assert notified == ["ready"]


@dataclass
class Holding:
    """Hold."""

    is_overtaken: bool = False
    checks: int = 0

    async def overtaken(self) -> bool:
        self.checks += 1
        return self.is_overtaken

    def emitted(self, commit_id: CommitId, events: int) -> None:
        """Ignored."""


def keyed(world: World, hold: Holding, *, resumed: bool = False) -> CommandContext:
    """A request with a key, new or resumed."""
    begun_at = world.stores.clock.monotonic()
    return replace(USER, commit_id=CommitId("theirs"), resumed=resumed, begun_at=begun_at, hold=hold)


async def cached_execution(world: World, cache: ExecutionCache) -> RunId:
    """An execution that is already cached."""
    run_id = await begun(world)
    await cache.handle(run_id, take(world), USER)
    world.clock.pass_time(1.0)
    return run_id


async def times_stored(world: World, run_id: RunId) -> int:
    return [stored.commit.commit_id for stored in await world.truth.events.read(run_id)].count(CommitId("theirs"))


async def test_a_request_newer_than_the_cached_read_needs_no_check_for_a_twin(world: World) -> None:
    cache, hold = ExecutionCache(world.stores), Holding()
    run_id = await cached_execution(world, cache)

    await cache.handle(run_id, progress(world, 1), keyed(world, hold))

    assert hold.checks == 0
    assert await times_stored(world, run_id) == 1


async def test_a_request_done_by_another_gateway_and_read_meanwhile_is_not_repeated(
    world: World,
) -> None:
    ours, hold = ExecutionCache(world.stores), Holding(is_overtaken=True)
    run_id = await cached_execution(world, ours)
    origin = keyed(world, hold)
    await ExecutionCache(world.stores).handle(run_id, progress(world, 1), keyed(world, Holding(), resumed=True))
    await ours.handle(run_id, AddTag(at=world.now(), tag="x"), USER)

    handled = await ours.handle(run_id, progress(world, 2), origin)

    assert handled.execution.nodes[A].progress == 1
    assert await times_stored(world, run_id) == 1


async def test_a_request_done_by_this_gateway_is_not_repeated(world: World) -> None:
    cache, hold = ExecutionCache(world.stores), Holding(is_overtaken=True)
    run_id = await cached_execution(world, cache)
    origin = keyed(world, hold)
    world.clock.pass_time(1.0)
    await cache.handle(run_id, progress(world, 1), replace(origin, hold=Holding()))

    handled = await cache.handle(run_id, progress(world, 2), origin)

    assert handled.execution.nodes[A].progress == 1
    assert await times_stored(world, run_id) == 1


async def test_the_number_of_remembered_requests_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OWN_COMMITS", 1)
    cache, hold = ExecutionCache(world.stores), Holding()
    run_id = await cached_execution(world, cache)
    origin = keyed(world, hold)
    for number in range(2):
        other = replace(origin, commit_id=CommitId(f"another {number}"))
        await cache.handle(run_id, progress(world, number), other)

    await cache.handle(run_id, progress(world, 9), origin)

    assert hold.checks == 1


async def test_status_changes_are_written_before_batched_changes(world: World) -> None:
    gathering, waited_for = await begun(world), await begun(world)
    async with running(ExecutionCache(world.stores)) as cache:
        await cache.handle(gathering, take(world), USER)
        await world.faults.done("snapshots.advance")
        handled = await cache.handle(gathering, progress(world, 7), USER)

        await cache.handle(waited_for, take(world), USER)
        await world.faults.done("snapshots.advance", times=2)

        assert await snapshot_version(world, gathering) < handled.execution.version


async def test_batched_changes_are_written_together_with_a_status_change(world: World) -> None:
    run_id = await begun(world)
    async with running(ExecutionCache(world.stores)) as cache:
        await cache.handle(run_id, take(world), USER)
        await world.faults.done("snapshots.advance")
        await cache.handle(run_id, progress(world, 7), USER)

        handled = await cache.handle(run_id, take(world, B), USER)
        await world.faults.done("snapshots.advance", times=2)

        assert await snapshot_version(world, run_id) == handled.execution.version


async def test_an_entry_written_and_evicted_meanwhile_is_not_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    runs, cache = [await begun(world) for _ in range(4)], ExecutionCache(world.stores)
    for run_id in runs[:2]:
        await cache.handle(run_id, take(world), USER)

    async def meanwhile() -> None:
        async with running(cache):
            await world.faults.done("snapshots.advance")
            for run_id in runs[2:]:
                await cache.handle(run_id, take(world), USER)

    world.faults.before("snapshots.advance", meanwhile)
    await cache.flush(progress=True)

    for run_id in runs[:2]:
        assert await snapshot_version(world, run_id) == (await world.execution(run_id)).version


async def test_a_list_does_not_write_snapshots_that_lack_only_progress(world: World) -> None:
    runs, cache = [await begun(world) for _ in range(3)], ExecutionCache(world.stores)
    for run_id in runs:
        await cache.handle(run_id, take(world), USER)
    await cache.flush()
    for run_id in runs:
        await cache.handle(run_id, progress(world, 50.0), USER)
    world.faults.calls.clear()

    await cache.flush()

    assert world.faults.calls == []


async def test_snapshots_are_written_concurrently_for_a_list(world: World) -> None:
    runs, cache = [await begun(world) for _ in range(3)], ExecutionCache(world.stores)
    for run_id in runs:
        await cache.handle(run_id, take(world), USER)
    writing_now, all_writing = 0, asyncio.Event()

    async def wait_for_the_others() -> None:
        nonlocal writing_now
        writing_now += 1
        if writing_now == len(runs):
            all_writing.set()
        await all_writing.wait()

    for _ in runs:
        world.faults.before("snapshots.advance", wait_for_the_others)

    async with asyncio.timeout(5.0):
        await cache.flush()

    assert [await snapshot_version(world, run_id) for run_id in runs] == [
        (await world.execution(run_id)).version for run_id in runs
    ]


async def test_a_flush_of_an_evicted_entry_leaves_the_pending_write_of_its_successor(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    run_id, other, cache = await begun(world), await begun(world), ExecutionCache(world.stores)
    await cache.handle(run_id, take(world), USER)
    evicted = cache._entries[run_id]
    await cache.flush()
    await cache.handle(other, take(world), USER)
    await cache.flush()
    assert run_id not in cache._entries
    handled = await cache.handle(run_id, take(world, B), USER)

    await cache._write_locked(evicted)

    async with running(cache):
        await world.faults.done("snapshots.advance", times=3)
    assert await snapshot_version(world, run_id) == handled.execution.version


async def test_a_command_does_not_reach_another_tenants_execution(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    before = (await world.execution(run_id)).version

    with pytest.raises(RunNotFound):
        await cache.handle(run_id, take(world), replace(USER, tenant_filter="other"))

    assert (await world.execution(run_id)).version == before
