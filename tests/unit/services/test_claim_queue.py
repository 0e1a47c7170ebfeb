"""The claim queue: which claims wake up, on which events, and with which nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyoco_server.domain.execution.commands import StartNode, SucceedNode
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.domain.queries.steps import ClaimableNode
from pyoco_server.services.claims import claim_queue as module
from pyoco_server.services.claims.claim_queue import ClaimFilter, ClaimQueue
from pyoco_server.services.projections.indexer import Indexer
from support.executions_in_memory import FORK, A, B, begun
from support.world import World

SOON_SEC = 10.0
WANTED = ClaimFilter(graph_ids=("g",), tenant_id=None)


@asynccontextmanager
async def claim_queue_of(world: World) -> AsyncIterator[ClaimQueue]:
    """The claim queue of a gateway whose index follows the stores."""
    follower = Indexer(world.live_feed, world.index, world.truth.clock)
    claims = ClaimQueue(world.index, follower, world.truth.clock)
    tasks = [asyncio.create_task(follower.run()), asyncio.create_task(claims.run())]
    try:
        await follower.wait_caught_up()
        yield claims
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def reserved(claims: ClaimQueue, wanted: ClaimFilter = WANTED) -> ClaimableNode:
    """The next node, awaited as a claim does."""
    async with asyncio.timeout(SOON_SEC):
        while (node := claims.reserve(wanted)) is None:
            await claims.changed(wanted, SOON_SEC)
    return node


async def take(world: World, run_id: RunId, node: ClaimableNode, *, lease_sec: float = 10.0) -> int:
    start = StartNode(
        at=world.now(),
        node_id=node.node_id,
        attempt=node.attempt + 1,
        worker_id=WorkerId("ann"),
        lease_until=world.now() + lease_sec,
        from_outside=True,
    )
    return (await world.handle(run_id, start)).accepted().version


async def test_a_ready_node_wakes_a_claim(world: World) -> None:
    async with claim_queue_of(world) as claims, asyncio.TaskGroup() as group:
        waiting = group.create_task(reserved(claims))
        await asyncio.sleep(0)
        assert claims.waiting == 1

        run_id = await begun(world)

        assert (await waiting).key == (run_id, A)
        assert claims.waiting == 0


async def test_each_waiting_claim_gets_another_node_and_the_others_keep_waiting(world: World) -> None:
    async with claim_queue_of(world) as claims:
        waiting = [asyncio.create_task(reserved(claims)) for _ in range(5)]

        run_id = await begun(world, FORK)
        done, pending = set[asyncio.Task[ClaimableNode]](), set(waiting)
        while len(done) < 2:
            some, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            done |= some

        assert {task.result().key for task in done} == {(run_id, A), (run_id, B)}
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)


async def test_a_claim_without_a_node_ends_at_its_timeout(world: World) -> None:
    async with claim_queue_of(world) as claims:
        await claims.changed(WANTED, 0.01)

        assert claims.reserve(WANTED) is None
        assert claims.waiting == 0


async def test_a_taken_node_is_not_proposed_before_the_index_catches_up(world: World) -> None:
    run_id = await begun(world)
    await world.catch_up()
    claims = ClaimQueue(world.index, Indexer(world.feed, world.index, world.truth.clock), world.truth.clock)
    first = claims.reserve(WANTED)
    assert first is not None

    claims.hide(first, await take(world, run_id, first))
    second, third = claims.reserve(WANTED), claims.reserve(WANTED)

    assert second is not None
    assert (first.key, second.key, third) == ((run_id, A), (run_id, B), None)


async def test_a_released_node_is_proposed_again(world: World) -> None:
    await begun(world)
    await world.catch_up()
    claims = ClaimQueue(world.index, Indexer(world.feed, world.index, world.truth.clock), world.truth.clock)
    first = claims.reserve(WANTED)
    assert first is not None

    claims.release(first)

    assert claims.reserve(WANTED) == first


async def test_a_refused_node_is_hidden_for_a_short_time(world: World) -> None:
    run_id = await begun(world)
    await world.catch_up()
    claims = ClaimQueue(world.index, Indexer(world.feed, world.index, world.truth.clock), world.truth.clock)
    first = claims.reserve(WANTED)
    assert first is not None

    claims.hide(first, (await world.execution(run_id)).version, for_sec=module.REFUSED_FOR_SEC)
    claims.release(first)
    second = claims.reserve(WANTED)
    world.clock.pass_time(module.REFUSED_FOR_SEC)

    assert second is not None
    assert second.key == (run_id, B)
    assert claims.reserve(WANTED) == first


async def test_an_expired_lease_wakes_a_claim(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_EVERY_SEC", 0.01)
    monkeypatch.setattr(module, "MIN_WAIT_SEC", 0.001)
    run_id = await begun(world)
    async with claim_queue_of(world) as claims:
        node = await reserved(claims)
        claims.hide(node, await take(world, run_id, node, lease_sec=30.0))
        other = await reserved(claims)
        claims.hide(other, await take(world, run_id, other, lease_sec=90.0))
        done = SucceedNode(at=world.now(), node_id=other.node_id, from_outside=True)
        (await world.handle(run_id, done)).accepted()
        waiting = asyncio.create_task(reserved(claims))
        await asyncio.sleep(0)

        world.clock.pass_time(30.0)

        again = await waiting
        assert (again.key, again.attempt) == (node.key, 1)


async def test_nodes_of_another_tenant_are_not_proposed(world: World) -> None:
    await begun(world)
    await world.catch_up()
    claims = ClaimQueue(world.index, Indexer(world.feed, world.index, world.truth.clock), world.truth.clock)

    assert claims.reserve(ClaimFilter(graph_ids=("g",), tenant_id="acme")) is None
    assert claims.reserve(ClaimFilter(graph_ids=("other",), tenant_id=None)) is None


async def test_closing_the_queue_ends_all_waits(world: World) -> None:
    async with claim_queue_of(world) as claims:
        waiting = asyncio.create_task(claims.changed(WANTED, 3600.0))
        await asyncio.sleep(0)

        claims.close()

        assert not await waiting
        assert not await claims.changed(WANTED, 3600.0)
