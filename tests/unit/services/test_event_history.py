"""Event history: consecutive pages, and a stream that ends with the execution."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.domain.execution.commands import AddTag, CancelExecution, ConfirmCanceled
from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.ids import RunId
from pyoco_server.services.projections import event_history as history
from pyoco_server.services.projections.event_history import START, EventPosition, events_after, listed, selected_events
from pyoco_server.services.streaming import topics as module
from pyoco_server.services.streaming.topics import RunTopic
from support.executions_in_memory import begun
from support.topics import Followers, following
from support.world import World


async def cancelled(world: World, run_id: RunId) -> None:
    await world.handle(run_id, CancelExecution(at=world.now()))
    await world.handle(run_id, ConfirmCanceled(at=world.now(), how=StopHow.IDLE))


async def all_events(world: World, run_id: RunId) -> list[EventPosition]:
    return [
        EventPosition(stored.sequence, number)
        for stored in await world.truth.events.read(run_id)
        for number in range(len(stored.commit.events))
    ]


async def read_to_the_end(topic: RunTopic, after: EventPosition = START) -> list[EventPosition]:
    async with aclosing(topic.follow_events(after)) as batches:
        return [item.place async for batch in batches for item in batch]


@settings(deadline=None, max_examples=20)
@given(limit=st.integers(1, 9))
async def test_pages_of_any_size_contain_every_event_once_in_order(limit: int) -> None:
    world = World()
    run_id = await begun(world)
    await cancelled(world, run_id)
    places: list[EventPosition] = []
    more = True
    while more:
        found, more = await events_after(world.truth.events, run_id, places[-1] if places else START, limit)
        places += [item.place for item in found]

    assert places == await all_events(world, run_id)


@settings(deadline=None, max_examples=20)
@given(limit=st.integers(1, 9), size=st.integers(1, 4), node_id=st.sampled_from([None, "a", "unknown"]))
async def test_pages_of_a_node_and_from_the_newest_contain_every_event_once(
    limit: int, size: int, node_id: str | None
) -> None:
    world = World()
    run_id = await begun(world)
    await cancelled(world, run_id)
    expected = [
        item.place
        for item in listed(await world.truth.events.read(run_id), START)
        if node_id is None or getattr(item.event, "node_id", None) == node_id
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "SLICE", size)
        for is_newest_first in (False, True):
            places: list[EventPosition] = []
            more = True
            while more:
                found, more = await selected_events(
                    world.truth.events,
                    run_id,
                    places[-1] if places else START,
                    limit,
                    node_id=node_id,
                    is_newest_first=is_newest_first,
                )
                places += [item.place for item in found]

            assert places == (expected[::-1] if is_newest_first else expected)


@pytest.mark.parametrize("number", range(6))
async def test_a_stream_resumes_after_any_event_even_within_a_commit(world: World, number: int) -> None:
    run_id = await begun(world)
    await cancelled(world, run_id)
    places = await all_events(world, run_id)
    async with Followers(world) as followers:
        found = await read_to_the_end(await followers.join(run_id), places[number])

    assert found == places[number + 1 :]


async def test_a_stream_gets_events_as_they_are_stored_and_ends_with_the_execution(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SEC", 0.001)
    run_id = await begun(world)
    async with Followers(world) as followers:
        topic = await followers.join(run_id)
        world.faults.fail("events.read", times=2)
        reading = asyncio.create_task(read_to_the_end(topic))

        await world.handle(run_id, AddTag(at=world.now(), tag="x"))
        await asyncio.sleep(0)
        await cancelled(world, run_id)

        assert await reading == await all_events(world, run_id)


async def test_a_quiet_stream_has_heartbeats_and_ends_at_shutdown(world: World) -> None:
    run_id = await begun(world)
    async with Followers(world) as followers:
        topic = await followers.join(run_id)
        batches = await followers.enter_async_context(
            aclosing(topic.follow_events((await all_events(world, run_id))[-1]))
        )
        waiting = asyncio.create_task(following(batches))
        await asyncio.sleep(0)

        await followers.beat()

        assert list(await waiting) == []
        followers.topics.close()
        assert [batch async for batch in batches] == []
