"""What a gateway answers, and when it would rather not: a stale list would look true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from pyoco_server.application.gateway import Gateway
from pyoco_server.application.indexing import IndexFollower
from pyoco_server.application.ports import RunQuery
from pyoco_server.errors import NatsUnavailable, RunNotFound
from support.samples import new_run_id
from support.world import HELLO, USER, World

EVERYTHING = RunQuery(limit=50)


@pytest.fixture
def world() -> World:
    return World()


def gateway_of(world: World) -> Gateway:
    follower = IndexFollower(world.live_feed, world.index, world.truth.clock)
    return Gateway(
        stores=world.stores, index=world.index, follower=follower, caretaker=world.caretaker, config=world.config
    )


@asynccontextmanager
async def following(world: World) -> AsyncIterator[Gateway]:
    """A gateway whose index is kept in step within the block."""
    gateway = gateway_of(world)
    task = asyncio.create_task(gateway.follower.run())
    try:
        await gateway.follower.caught_up()
        yield gateway
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_list_is_refused_while_the_index_is_being_built(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.application.lists.FIRST_FILL_WAIT_SEC", 0.01)
    gateway = gateway_of(world)

    with pytest.raises(NatsUnavailable, match="being built"):
        await gateway.lists.summaries(EVERYTHING)


async def test_a_list_is_refused_while_the_broker_is_away_however_full_the_index(world: World) -> None:
    async with following(world) as gateway:
        world.faults.away = True

        with pytest.raises(NatsUnavailable):
            await gateway.lists.summaries(EVERYTHING)
        with pytest.raises(NatsUnavailable):
            await gateway.lists.snapshots(EVERYTHING)


async def test_a_list_waits_for_what_this_gateway_has_written(world: World) -> None:
    async with following(world) as gateway:
        for _ in range(5):
            run_id = (await gateway.submit(HELLO, ("default",), USER)).execution_id
            shown = [orjson.loads(item)["run_id"] for item in await gateway.lists.summaries(EVERYTHING)]
            assert run_id in shown


async def test_a_run_that_was_removed_between_index_and_store_is_left_out_of_a_whole_list(world: World) -> None:
    async with following(world) as gateway:
        kept, gone = await world.submit(), await world.submit()
        await gateway.lists.summaries(EVERYTHING)

        async def remove() -> None:
            await world.truth.snapshots.remove(gone)

        world.faults.before("snapshots.load", remove)
        shown = await gateway.lists.snapshots(EVERYTHING)

    assert [snapshot["run_id"] for snapshot in shown if not isinstance(snapshot, bytes)] == [kept]


async def test_a_run_that_does_not_exist_is_not_found(world: World) -> None:
    with pytest.raises(RunNotFound):
        await gateway_of(world).get_snapshot(new_run_id(), sees=None)


async def test_what_this_gateway_submitted_needs_no_care(world: World) -> None:
    await gateway_of(world).submit(HELLO, ("default",), USER)
    world.faults.calls.clear()

    await world.catch_up()
    world.clock.pass_time(2.0)
    await world.caretaker.repair()

    assert world.faults.calls == []
