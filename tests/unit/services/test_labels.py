"""Labels at any time of an execution's life, and beside a cache that has it at hand."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.domain.execution.commands import ReportNodeProgress, StartNode
from pyoco_server.domain.execution.state import MAX_LABELS
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import CommandRejected, RunNotFound
from pyoco_server.services.executions.execution_cache import ExecutionCache
from support.executions_in_memory import A, begun, executions_of
from support.samples import new_run_id
from support.world import USER, World


async def test_a_label_is_seen_in_log_and_snapshot_when_it_is_answered(world: World) -> None:
    run_id = await world.submit()

    handled = await executions_of(world).add_label(run_id, "urgent", USER)

    shown = await world.shown(run_id)
    assert shown is not None
    told = await world.told(run_id)
    assert handled.accepted().labels == told.labels == shown.execution.labels == ("default", "urgent")


async def test_adding_and_removing_twice_is_doing_it_once(world: World) -> None:
    run_id = await world.submit()
    for _ in range(2):
        await executions_of(world).add_label(run_id, "urgent", USER)
    added = (await world.told(run_id)).version
    for _ in range(2):
        await executions_of(world).remove_label(run_id, "urgent", USER)

    log = [event for stored in await world.truth.events.read(run_id) for event in stored.commit.events]
    assert (await world.told(run_id)).labels == ("default",)
    assert len(log) == 3
    assert added < (await world.told(run_id)).version


async def test_a_finished_run_can_be_labelled_too(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)

    (await executions_of(world).add_label(run_id, "seen", USER)).accepted()
    (await executions_of(world).remove_label(run_id, "default", USER)).accepted()

    assert (await world.told(run_id)).labels == ("seen",)
    assert await world.status(run_id) == "COMPLETED"


async def test_there_is_a_limit_and_one_that_is_there_is_not_counted_again(world: World) -> None:
    run_id = await world.submit()
    for number in range(MAX_LABELS - 1):
        (await executions_of(world).add_label(run_id, f"label {number}", USER)).accepted()

    refused = await executions_of(world).add_label(run_id, "one more", USER)

    with pytest.raises(CommandRejected, match="at most 64 tags"):
        refused.accepted()
    (await executions_of(world).add_label(run_id, "default", USER)).accepted()


async def test_what_is_not_there_gets_no_label(world: World) -> None:
    executions = executions_of(world)
    for change in (executions.add_label, executions.remove_label):
        with pytest.raises(RunNotFound):
            (await change(new_run_id(), "x", USER)).accepted()


async def test_neither_a_label_nor_what_a_cache_writes_meanwhile_is_lost(world: World) -> None:
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

    shown = await world.shown(run_id)
    told = await world.told(run_id)
    assert shown is not None
    assert sorted(told.labels) == labels
    assert told.nodes[A].progress == 8
    assert shown.execution == told


async def test_a_cache_goes_on_from_a_label_that_others_have_put(world: World) -> None:
    run_id, cache = await begun(world), ExecutionCache(world.stores)
    await cache.handle(run_id, StartNode(at=world.now(), node_id=A, from_outside=True), USER)

    await executions_of(world).add_label(run_id, "urgent", USER)
    handled = await cache.handle(
        run_id, ReportNodeProgress(at=world.now(), node_id=A, progress=5, from_outside=True), USER
    )

    assert handled.accepted().labels == ("urgent",)
