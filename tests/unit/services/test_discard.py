"""Discarding executions: in every state, twice, and during their end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.services.context import CommandContext
from support.executions_in_memory import begun, executions_of
from support.world import USER, World

KEYED = replace(USER, idempotency_key="k-1", commit_id=CommitId("ours"))


async def finished(world: World) -> RunId:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)
    return run_id


async def is_archived(world: World, run_id: RunId) -> bool:
    return (await world.execution(run_id)).archived_at is not None


async def test_a_pending_execution_is_cancelled_and_archived_by_the_second_discard(world: World) -> None:
    run_id = await world.submit()

    await executions_of(world).discard(run_id, USER)

    assert (await world.status(run_id), await is_archived(world, run_id)) == ("CANCELLED", False)
    await executions_of(world).discard(run_id, USER)
    assert (await world.status(run_id), await is_archived(world, run_id)) == ("CANCELLED", True)


async def test_a_running_execution_gets_a_cancel_request_however_often_it_is_discarded(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)

    for _ in range(2):
        await executions_of(world).discard(run_id, USER)

    assert (await world.status(run_id), await is_archived(world, run_id)) == ("CANCELLING", False)


async def test_an_execution_with_claimable_nodes_is_cancelled(world: World) -> None:
    run_id = await begun(world)

    await executions_of(world).discard(run_id, USER)

    assert await world.status(run_id) == "CANCELLED"


async def test_a_finished_execution_is_archived_once(world: World) -> None:
    run_id = await finished(world)

    for _ in range(3):
        await executions_of(world).discard(run_id, USER)

    types = [type(event).__name__ for stored in await world.truth.events.read(run_id) for event in stored.commit.events]
    assert types.count("ExecutionArchived") == 1
    assert "ExecutionCancelRequested" not in types


async def test_an_execution_that_ends_before_its_cancel_is_archived(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    world.faults.before("events.append", lambda: world.complete(run_id))

    await executions_of(world).discard(run_id, USER)

    assert (await world.status(run_id), await is_archived(world, run_id)) == ("COMPLETED", True)


@pytest.mark.parametrize("state", ["waiting", "finished"])
async def test_a_resumed_discard_does_not_perform_the_next_step(world: World, state: str) -> None:
    run_id = await world.submit() if state == "waiting" else await finished(world)
    await executions_of(world).discard(run_id, KEYED)
    once = await world.execution(run_id)

    again: CommandContext = replace(KEYED, resumed=True)
    await executions_of(world).discard(run_id, again)

    assert await world.execution(run_id) == once
    assert await is_archived(world, run_id) == (state == "finished")
