"""Commands in turn, on what is at hand; and what becomes of the snapshot meanwhile."""

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
async def writing(desk: ExecutionCache) -> AsyncIterator[ExecutionCache]:
    """The desk, while it writes what was left."""
    task = asyncio.create_task(desk.run())
    try:
        yield desk
    finally:
        task.cancel()
        await asyncio.wait([task])


def take(world: World, node_id: NodeId = A) -> StartNode:
    return StartNode(at=world.now(), node_id=node_id, worker_id=WorkerId("ann"), from_outside=True)


def progress(world: World, percent: float) -> ReportNodeProgress:
    return ReportNodeProgress(at=world.now(), node_id=A, progress=percent, from_outside=True)


async def version_shown(world: World, run_id: RunId) -> int:
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    return snapshot.execution.version


async def test_a_second_command_needs_no_look_at_the_snapshot(world: World) -> None:
    run_id, desk = await begun(world), ExecutionCache(world.stores)
    await desk.handle(run_id, take(world), USER)

    await desk.handle(run_id, progress(world, 10), USER)

    assert world.faults.calls.count("snapshots.load") == 1
    assert (await world.execution(run_id)).nodes[A].progress == 10


async def test_a_crowd_at_one_execution_loses_no_race_against_itself(world: World) -> None:
    names = [NodeId(f"n{number}") for number in range(50)]
    graph = Graph(nodes=tuple(GraphNode(node_id=name) for name in names), edges=())
    run_id, desk = await begun(world, graph), ExecutionCache(world.stores)

    handled = await asyncio.gather(*(desk.handle(run_id, take(world, name), USER) for name in names))

    assert all(one.refused is None for one in handled)
    assert world.stores.counters.append_conflicts == 0
    assert {node.status for node in (await world.execution(run_id)).nodes.values()} == {NodeStatus.RUNNING}


async def test_what_another_gateway_wrote_meanwhile_is_found_out(world: World) -> None:
    run_id, ours, theirs = await begun(world), ExecutionCache(world.stores), ExecutionCache(world.stores)
    await ours.handle(run_id, take(world), USER)

    await theirs.handle(run_id, take(world, B), USER)
    handled = await ours.handle(run_id, SucceedNode(at=world.now(), node_id=B, from_outside=True), USER)

    assert handled.refused is None
    assert handled.execution.nodes[B].status is NodeStatus.SUCCEEDED


async def test_a_change_of_status_is_in_the_snapshot_when_it_is_answered(world: World) -> None:
    run_id, desk = await begun(world, Graph(nodes=(GraphNode(node_id=A),), edges=())), ExecutionCache(world.stores)
    await desk.handle(run_id, take(world), USER)

    handled = await desk.handle(run_id, SucceedNode(at=world.now(), node_id=A, from_outside=True), USER)

    assert handled.execution.status is Status.COMPLETED
    assert await world.status(run_id) == "COMPLETED"


async def test_other_changes_are_written_soon_and_together(world: World) -> None:
    run_id = await begun(world)
    async with writing(ExecutionCache(world.stores)) as desk:
        await asyncio.gather(desk.handle(run_id, take(world), USER), desk.handle(run_id, progress(world, 7), USER))
        await world.faults.done("snapshots.advance")

        assert world.faults.calls.count("snapshots.advance") == 1
        assert await world.status(run_id) == "RUNNING"


async def test_whoever_looks_at_lists_finds_what_was_left_to_gather(world: World) -> None:
    run_id, desk = await begun(world), ExecutionCache(world.stores)
    handled = await desk.handle(run_id, take(world), USER)
    assert await version_shown(world, run_id) < handled.execution.version

    await desk.flush(progress=True)

    assert await version_shown(world, run_id) == handled.execution.version


async def test_whoever_looks_at_one_execution_finds_what_was_left_to_gather(world: World) -> None:
    run_id, other, desk = await begun(world), await begun(world), ExecutionCache(world.stores)
    for one in (run_id, other):
        handled = await desk.handle(one, take(world), USER)

    await desk.flush_one(run_id)

    assert await version_shown(world, run_id) == (await world.execution(run_id)).version
    assert await version_shown(world, other) < handled.execution.version


@pytest.mark.parametrize("whole", [False, True])
async def test_whoever_looks_while_a_snapshot_is_being_written_waits_for_it(world: World, whole: bool) -> None:
    run_id, desk = await begun(world), ExecutionCache(world.stores)
    await desk.handle(run_id, take(world), USER)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        reached.set()
        await go_on.wait()

    world.faults.before("snapshots.advance", slowly)
    async with writing(desk):
        await reached.wait()
        looking = asyncio.create_task(desk.flush(progress=True) if whole else desk.flush_one(run_id))
        await asyncio.sleep(0)
        waits = not looking.done()
        go_on.set()
        await looking

    assert waits
    assert await version_shown(world, run_id) == (await world.execution(run_id)).version


async def test_a_snapshot_that_could_not_be_written_is_written_when_the_broker_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SEC", 0.001)
    run_id = await begun(world)
    world.faults.fail("snapshots.advance", times=3)
    async with writing(ExecutionCache(world.stores)) as desk:
        await desk.handle(run_id, take(world), USER)
        await world.faults.done("snapshots.advance")

    assert await world.status(run_id) == "RUNNING"


async def test_a_command_that_broke_leaves_nothing_at_hand(world: World) -> None:
    run_id, desk = await begun(world), ExecutionCache(world.stores)
    await desk.handle(run_id, take(world), USER)
    world.faults.fail("events.append")

    with pytest.raises(BrokerUnavailable):
        await desk.handle(run_id, progress(world, 1), USER)
    await desk.handle(run_id, progress(world, 2), USER)

    assert world.faults.calls.count("snapshots.load") == 2
    assert (await world.execution(run_id)).nodes[A].progress == 2


async def test_what_a_snapshot_had_to_give_up_is_not_kept_at_hand_either(world: World) -> None:
    large = "x" * world.config.max_run_snapshot_bytes
    run_id, desk = await begun(world), ExecutionCache(world.stores)
    await desk.handle(run_id, take(world), USER)
    await desk.handle(run_id, SucceedNode(at=world.now(), node_id=A, output=large, from_outside=True), USER)

    await desk.flush(progress=True)
    execution = (await desk.handle(run_id, take(world, B), USER)).execution

    assert execution.records_truncated
    assert execution.nodes[A].output is None
    assert (await world.execution(run_id)).nodes[A].output == large


async def test_only_the_executions_asked_about_last_are_at_hand(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    desk = ExecutionCache(world.stores)
    first, *others = [await begun(world) for _ in range(3)]
    for run_id in (first, *others):
        await desk.handle(run_id, AddTag(at=world.now(), tag="x"), USER)
        await desk.flush(progress=True)
    before = world.faults.calls.count("snapshots.load")

    await desk.handle(others[1], AddTag(at=world.now(), tag="y"), USER)
    await desk.handle(first, AddTag(at=world.now(), tag="y"), USER)

    assert world.faults.calls.count("snapshots.load") == before + 1


async def test_an_execution_is_looked_at_as_its_log_tells_it(world: World) -> None:
    run_id, desk = await begun(world, FORK), ExecutionCache(world.stores)
    await ExecutionCache(world.stores).handle(run_id, take(world), USER)

    assert (await desk.look(run_id)).nodes[A].status is NodeStatus.RUNNING
    assert not (await desk.look(world.truth.ids.run_id())).exists


async def test_it_is_told_when_nodes_can_be_taken(world: World) -> None:
    notified: list[str] = []
    run_id, desk = await begun(world), ExecutionCache(world.stores, on_ready=lambda: notified.append("ready"))

    await desk.handle(run_id, take(world), USER)
    await desk.flush(progress=True)
    await desk.handle(run_id, take(world, B), USER)
    await desk.flush(progress=True)

    assert notified == ["ready"]


@dataclass
class Holding:
    """Hold."""

    is_overtaken: bool = False
    asked: int = 0

    async def overtaken(self) -> bool:
        self.asked += 1
        return self.is_overtaken

    def emitted(self, commit_id: CommitId, events: int) -> None:
        """Nobody wants to know."""


def keyed(world: World, hold: Holding, *, resumed: bool = False) -> CommandContext:
    """A request with a key that begins now, or that somebody carries on with."""
    begun_at = world.stores.clock.monotonic()
    return replace(USER, commit_id=CommitId("theirs"), resumed=resumed, begun_at=begun_at, hold=hold)


async def begun_earlier(world: World, desk: ExecutionCache) -> RunId:
    """An execution that is at hand since a while."""
    run_id = await begun(world)
    await desk.handle(run_id, take(world), USER)
    world.clock.pass_time(1.0)
    return run_id


async def times_stored(world: World, run_id: RunId) -> int:
    return [stored.commit.commit_id for stored in await world.truth.events.read(run_id)].count(CommitId("theirs"))


async def test_nobody_is_asked_whether_a_request_was_done_before_what_is_at_hand_was_read(world: World) -> None:
    desk, hold = ExecutionCache(world.stores), Holding()
    run_id = await begun_earlier(world, desk)

    await desk.handle(run_id, progress(world, 1), keyed(world, hold))

    assert hold.asked == 0
    assert await times_stored(world, run_id) == 1


async def test_what_another_gateway_did_for_a_request_is_not_done_again_when_it_was_read_meanwhile(
    world: World,
) -> None:
    ours, hold = ExecutionCache(world.stores), Holding(is_overtaken=True)
    run_id = await begun_earlier(world, ours)
    origin = keyed(world, hold)
    await ExecutionCache(world.stores).handle(run_id, progress(world, 1), keyed(world, Holding(), resumed=True))
    await ours.handle(run_id, AddTag(at=world.now(), tag="x"), USER)

    handled = await ours.handle(run_id, progress(world, 2), origin)

    assert handled.execution.nodes[A].progress == 1
    assert await times_stored(world, run_id) == 1


async def test_what_was_done_here_for_the_same_request_is_not_done_again(world: World) -> None:
    desk, hold = ExecutionCache(world.stores), Holding(is_overtaken=True)
    run_id = await begun_earlier(world, desk)
    origin = keyed(world, hold)
    world.clock.pass_time(1.0)
    await desk.handle(run_id, progress(world, 1), replace(origin, hold=Holding()))

    handled = await desk.handle(run_id, progress(world, 2), origin)

    assert handled.execution.nodes[A].progress == 1
    assert await times_stored(world, run_id) == 1


async def test_only_so_many_requests_are_remembered_and_then_all_are_asked_about(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_OWN_COMMITS", 1)
    desk, hold = ExecutionCache(world.stores), Holding()
    run_id = await begun_earlier(world, desk)
    origin = keyed(world, hold)
    for number in range(2):
        other = replace(origin, commit_id=CommitId(f"another {number}"))
        await desk.handle(run_id, progress(world, number), other)

    await desk.handle(run_id, progress(world, 9), origin)

    assert hold.asked == 1


async def test_what_others_may_wait_for_is_written_before_what_gathers(world: World) -> None:
    gathering, waited_for = await begun(world), await begun(world)
    async with writing(ExecutionCache(world.stores)) as desk:
        await desk.handle(gathering, take(world), USER)
        await world.faults.done("snapshots.advance")
        handled = await desk.handle(gathering, progress(world, 7), USER)

        await desk.handle(waited_for, take(world), USER)
        await world.faults.done("snapshots.advance", times=2)

        assert await version_shown(world, gathering) < handled.execution.version


async def test_what_gathers_is_written_at_once_with_something_that_others_may_wait_for(world: World) -> None:
    run_id = await begun(world)
    async with writing(ExecutionCache(world.stores)) as desk:
        await desk.handle(run_id, take(world), USER)
        await world.faults.done("snapshots.advance")
        await desk.handle(run_id, progress(world, 7), USER)

        handled = await desk.handle(run_id, take(world, B), USER)
        await world.faults.done("snapshots.advance", times=2)

        assert await version_shown(world, run_id) == handled.execution.version


async def test_what_another_wrote_and_put_away_meanwhile_needs_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    runs, desk = [await begun(world) for _ in range(4)], ExecutionCache(world.stores)
    for run_id in runs[:2]:
        await desk.handle(run_id, take(world), USER)

    async def meanwhile() -> None:
        async with writing(desk):
            await world.faults.done("snapshots.advance")
            for run_id in runs[2:]:
                await desk.handle(run_id, take(world), USER)

    world.faults.before("snapshots.advance", meanwhile)
    await desk.flush(progress=True)

    for run_id in runs[:2]:
        assert await version_shown(world, run_id) == (await world.execution(run_id)).version


async def test_a_list_does_not_write_snapshots_that_lack_nothing_but_progress(world: World) -> None:
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

    assert [await version_shown(world, run_id) for run_id in runs] == [
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

    async with writing(cache):
        await world.faults.done("snapshots.advance", times=3)
    assert await version_shown(world, run_id) == handled.execution.version


async def test_a_command_does_not_reach_another_tenants_execution(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    before = (await world.execution(run_id)).version

    with pytest.raises(RunNotFound):
        await cache.handle(run_id, take(world), replace(USER, tenant_filter="other"))

    assert (await world.execution(run_id)).version == before
