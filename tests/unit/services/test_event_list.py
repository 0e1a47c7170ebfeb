"""Events one by one: pages that follow each other, and a tail that ends with the execution."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.domain.execution.commands import AddTag, CancelExecution, ConfirmCanceled
from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.ids import RunId
from pyoco_server.services.projections import event_history as module
from pyoco_server.services.projections.event_history import START, EventEntry, EventPosition, EventTail, events_after
from support.executions_in_memory import begun
from support.world import World


async def cancelled(world: World, run_id: RunId) -> None:
    await world.handle(run_id, CancelExecution(at=world.now()))
    await world.handle(run_id, ConfirmCanceled(at=world.now(), how=StopHow.IDLE))


async def everything(world: World, run_id: RunId) -> list[EventPosition]:
    return [
        EventPosition(stored.sequence, number)
        for stored in await world.truth.events.read(run_id)
        for number in range(len(stored.commit.events))
    ]


async def read_to_its_end(tail: EventTail) -> list[EventEntry]:
    found: list[EventEntry] = []
    while (some := await tail.next()) is not None:
        found += some
    return found


@settings(deadline=None, max_examples=20)
@given(limit=st.integers(1, 9))
async def test_pages_of_any_size_give_every_event_once_in_order(limit: int) -> None:
    world = World()
    run_id = await begun(world)
    await cancelled(world, run_id)
    places: list[EventPosition] = []
    more = True
    while more:
        found, more = await events_after(world.truth.events, run_id, places[-1] if places else START, limit)
        places += [item.place for item in found]

    assert places == await everything(world, run_id)


@pytest.mark.parametrize("number", range(6))
async def test_a_tail_goes_on_behind_any_event_also_in_the_midst_of_a_commit(world: World, number: int) -> None:
    run_id = await begun(world)
    await cancelled(world, run_id)
    places = await everything(world, run_id)
    tail = EventTail(world.truth.events, run_id, places[number], heartbeat_sec=60.0)
    await tail.open(world.live, is_over=True)

    found = await read_to_its_end(tail)

    assert [item.place for item in found] == places[number + 1 :]


async def test_a_tail_tells_what_is_stored_as_it_is_stored_and_ends_with_the_execution(world: World) -> None:
    run_id = await begun(world)
    tail = EventTail(world.truth.events, run_id, START, heartbeat_sec=60.0)
    await tail.open(world.live, is_over=False)
    reading = asyncio.create_task(read_to_its_end(tail))

    await world.handle(run_id, AddTag(at=world.now(), tag="x"))
    await asyncio.sleep(0)
    await cancelled(world, run_id)

    assert [item.place for item in await reading] == await everything(world, run_id)
    tail.close()
    tail.close()


async def test_a_quiet_tail_shows_life(world: World) -> None:
    run_id = await begun(world)
    tail = EventTail(world.truth.events, run_id, (await everything(world, run_id))[-1], heartbeat_sec=0.001)
    await tail.open(world.live, is_over=False)

    assert await tail.next() == []

    tail.end()
    assert await tail.next() is None
    tail.close()


async def test_a_tail_outlives_the_absence_of_the_broker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SEC", 0.001)
    run_id = await begun(world)
    world.faults.fail("events.read", times=2)
    tail = EventTail(world.stores.events, run_id, START, heartbeat_sec=60.0)
    await tail.open(world.live, is_over=False)

    assert [item.place for item in await tail.next() or ()] == await everything(world, run_id)
    tail.close()
