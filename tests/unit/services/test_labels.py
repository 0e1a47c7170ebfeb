"""Labels at any time of an execution, also beside a cache."""

from __future__ import annotations

import asyncio

from pyoco_server.domain.execution.commands import ReportNodeProgress, StartNode
from pyoco_server.domain.ids import WorkerId
from pyoco_server.services.executions.execution_cache import ExecutionCache
from support.executions_in_memory import A, begun, executions_of
from support.world import USER, World


async def test_a_label_is_in_log_and_snapshot_before_the_response(world: World) -> None:
    run_id = await world.submit()

    handled = await executions_of(world).add_label(run_id, "urgent", USER)

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    execution = await world.execution(run_id)
    assert handled.accepted().labels == execution.labels == snapshot.execution.labels == ("default", "urgent")


async def test_adding_and_removing_are_idempotent(world: World) -> None:
    run_id = await world.submit()
    for _ in range(2):
        await executions_of(world).add_label(run_id, "urgent", USER)
    added = (await world.execution(run_id)).version
    for _ in range(2):
        await executions_of(world).remove_label(run_id, "urgent", USER)

    log = [event for stored in await world.truth.events.read(run_id) for event in stored.commit.events]
    assert (await world.execution(run_id)).labels == ("default",)
    assert len(log) == 3
    assert added < (await world.execution(run_id)).version


async def test_labels_and_concurrent_writes_of_a_cache_are_kept(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    take = StartNode(at=world.now(), node_id=A, worker_id=WorkerId("ann"), from_outside=True)
    await cache.handle(run_id, take, USER)
    labels = [f"label {number}" for number in range(8)]

    def progress(percent: float) -> ReportNodeProgress:
        return ReportNodeProgress(at=world.now(), node_id=A, progress=percent, from_outside=True)

    await asyncio.gather(
        *(executions_of(world).add_label(run_id, label, USER) for label in labels),
        *(cache.handle(run_id, progress(percent), USER) for percent in range(1, 9)),
    )
    await cache.flush(progress=True)

    snapshot = await world.snapshot(run_id)
    execution = await world.execution(run_id)
    assert snapshot is not None
    assert sorted(execution.labels) == labels
    assert execution.nodes[A].progress == 8
    assert snapshot.execution == execution


async def test_a_cache_continues_after_a_label_of_another_writer(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    await cache.handle(run_id, StartNode(at=world.now(), node_id=A, from_outside=True), USER)

    await executions_of(world).add_label(run_id, "urgent", USER)
    handled = await cache.handle(
        run_id, ReportNodeProgress(at=world.now(), node_id=A, progress=5, from_outside=True), USER
    )

    assert handled.accepted().labels == ("urgent",)
