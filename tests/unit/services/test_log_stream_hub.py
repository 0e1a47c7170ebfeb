"""Followers get every line once and in order; chunks are read and encoded once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LineFilter
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.errors import BrokerUnavailable, RunNotFound
from pyoco_server.services.streaming import log_parts, log_stream_hub
from pyoco_server.services.streaming.log_channel import ChunkCache
from pyoco_server.services.streaming.log_parts import LineBatch
from pyoco_server.services.streaming.log_stream_hub import LogFollower, LogStreamHub, Sign
from pyoco_server.services.streaming.watch_hub import WatchHub
from support.samples import new_run_id
from support.world import World
from support.written import Writer, numbered

PATIENCE_SEC = 10.0
MANY = 1000


@asynccontextmanager
async def feeding(world: World) -> AsyncIterator[tuple[LogStreamHub, WatchHub]]:
    """A hub at work; time moves by hand, so that nothing beats by itself."""
    watches = WatchHub(world.stores, world.live, world.config)
    task = asyncio.create_task(watches.run())
    await asyncio.sleep(0)  # one turn of the loop: it has begun
    try:
        yield LogStreamHub(world.stores, watches, world.config), watches
    finally:
        task.cancel()
        await asyncio.wait([task])


async def begun(world: World) -> tuple[RunId, Writer]:
    run_id = await world.submit()
    await world.start(run_id)
    return run_id, Writer(world.truth.run_logs, run_id)


async def next_of(follower: LogFollower) -> LineBatch | Sign:
    async with asyncio.timeout(PATIENCE_SEC):
        return await follower.next()


async def texts(follower: LogFollower) -> list[str]:
    """The next lines."""
    batch = await next_of(follower)
    assert isinstance(batch, LineBatch), batch
    return [line.line.text for line in batch.lines]


async def to_the_end(follower: LogFollower) -> list[str]:
    """All lines until the follower hears that the run is over."""
    found: list[str] = []
    while isinstance(batch := await next_of(follower), LineBatch):
        found += [line.line.text for line in batch.lines]
    assert batch is Sign.OVER
    return found


# --- lines ------------------------------------------------------------------------------------------------------------


async def test_a_follower_gets_stored_lines_then_new_ones_then_the_end(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one", "two")
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None)

        assert await texts(follower) == ["one", "two"]
        waiting = asyncio.create_task(texts(follower))
        await asyncio.sleep(0)
        await writer.write("three")
        assert await waiting == ["three"]
        await writer.write("four")
        await world.complete(run_id)
        assert await texts(follower) == ["four"]
        assert await next_of(follower) is Sign.OVER
        assert follower.view.plain["status"] == "COMPLETED"


async def test_a_follower_of_cached_chunks_lets_other_tasks_run_between_two_chunks(world: World) -> None:
    run_id, writer = await begun(world)
    for number in range(50):
        await writer.write(str(number))
    await world.complete(run_id)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with feeding(world) as (feed, _):
        first = await feed.follow(run_id, tenant_filter=None)
        await to_the_end(first)
        second = await feed.follow(run_id, tenant_filter=None, only=LineFilter(task="another"))
        running = asyncio.create_task(others())

        assert await next_of(second) is Sign.OVER
        running.cancel()

    assert turns >= 50


async def test_a_finished_run_is_read_to_its_end_without_a_subscription(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    await world.complete(run_id)
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None)

        assert world.live.listened_to == set()
        assert await to_the_end(follower) == ["one"]


async def test_an_end_before_the_last_chunk_notification_waits_for_its_lines(world: World) -> None:
    run_id, writer = await begun(world)
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None)
        waiting = asyncio.create_task(to_the_end(follower))
        await world.faults.tried("run_logs.next")
        world.truth.run_logs._log._listeners.clear()  # type: ignore[attr-defined]  # word of chunks is lost from here on

        await writer.write("the last words")
        await world.complete(run_id)

        assert await waiting == ["the last words"]


async def test_a_tail_starts_with_the_last_lines(world: World) -> None:
    run_id, writer = await begun(world)
    for first in range(1, 30, 3):
        await writer.write(*numbered(first, first + 2))
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None, tail=5)
        await world.complete(run_id)

        assert await to_the_end(follower) == ["26", "27", "28", "29", "30"]


async def test_a_tail_longer_than_the_log_is_the_whole_log(world: World) -> None:
    run_id, writer = await begun(world)
    async with feeding(world) as (feed, _):
        of_nothing = await feed.follow(run_id, tenant_filter=None, tail=5)
        await writer.write("1")
        await writer.write("2")
        of_two = await feed.follow(run_id, tenant_filter=None, tail=5)
        await world.complete(run_id)

        assert await to_the_end(of_nothing) == await to_the_end(of_two) == ["1", "2"]


async def test_a_follower_with_a_filter_gets_only_matching_lines(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("a", task="load")
    await writer.write("b", task="fit", level="ERROR")
    await writer.write("c", task="fit", level="DEBUG")
    await writer.write("d", task="load", level="CRITICAL")
    await world.complete(run_id)
    async with feeding(world) as (feed, _):
        fit = await feed.follow(run_id, tenant_filter=None, only=LineFilter(task="fit"))
        severe = await feed.follow(run_id, tenant_filter=None, only=LineFilter(level="WARNING"))
        neither = await feed.follow(run_id, tenant_filter=None, only=LineFilter(task="load", level="ERROR"))

        assert await to_the_end(fit) == ["b", "c"]
        assert await to_the_end(severe) == ["b", "d"]
        assert await to_the_end(neither) == ["d"]


@given(
    sizes=st.lists(st.integers(0, 9), max_size=8),
    cut=st.integers(0, 60),
    live=st.integers(0, 8),
    part=st.integers(1, 4),
)
@settings(deadline=None)
def test_whoever_goes_on_from_any_line_is_told_the_rest_once_and_in_order(
    sizes: list[int], cut: int, live: int, part: int
) -> None:
    async def follow() -> tuple[list[str], list[str]]:
        world = World()
        run_id, writer = await begun(world)
        first = 1
        async with feeding(world) as (feed, _):
            follower = await feed.follow(run_id, tenant_filter=None)
            had: list[tuple[str, LogPosition]] = []
            for number, size in enumerate(sizes):
                await writer.write(*numbered(first, first + size - 1))
                first += size
                if number < live and size:
                    batch = await next_of(follower)
                    assert isinstance(batch, LineBatch)
                    had += [(line.line.text, batch.part.behind(line.number)) for line in batch.lines]
            await world.complete(run_id)
            while isinstance(batch := await next_of(follower), LineBatch):
                had += [(line.line.text, batch.part.behind(line.number)) for line in batch.lines]
            assert [text for text, _ in had] == numbered(1, first - 1)
            kept = had[: min(cut, len(had))]
            again = await feed.follow(run_id, tenant_filter=None, place=kept[-1][1] if kept else START)
            return [text for text, _ in kept] + await to_the_end(again), list(numbered(1, first - 1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_parts, "PART_LINES", part)
        found, truth = asyncio.run(follow())
    assert found == truth


@pytest.mark.parametrize("place", [LogPosition(3, 999), LogPosition(3, 1), LogPosition(5, 999)])
async def test_a_place_whose_sequence_means_nothing_here_is_found_by_its_line(world: World, place: LogPosition) -> None:
    run_id, writer = await begun(world)
    for number in range(1, 5):
        await writer.write(str(number))
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None, place=place)
        await writer.write("5")
        await world.complete(run_id)

        assert await to_the_end(follower) == numbered(place.line, 5)


# --- once for all -----------------------------------------------------------------------------------------------------


async def test_for_a_thousand_followers_a_chunk_is_read_once_and_made_once_per_form(world: World) -> None:
    run_id, writer = await begun(world)
    made: list[str] = []

    def make(batch: LineBatch) -> bytes:
        made.append(batch.lines[0].line.text)
        return b"bytes"

    async def read(follower: LogFollower, form: str) -> list[bytes]:
        found = []
        while isinstance(batch := await next_of(follower), LineBatch):
            found.append(batch.once(form, make))
        return found

    async with feeding(world) as (feed, _):
        followers = [await feed.follow(run_id, tenant_filter=None) for _ in range(MANY)]
        readers = [asyncio.create_task(read(one, "ab"[n % 2])) for n, one in enumerate(followers)]
        await world.faults.tried("run_logs.next")
        for number in range(5):
            await writer.write(str(number))
            await asyncio.sleep(0)
        await world.complete(run_id)
        found = await asyncio.gather(*readers)

    assert all(one == [b"bytes"] * 5 for one in found)
    assert sorted(made) == sorted([str(number) for number in range(5)] * 2)
    # Each chunk, and looks that found nothing: at the beginning, behind each chunk, after the end.
    assert world.faults.calls.count("run_logs.next") <= 5 + 1 + 5 + 1
    assert world.faults.calls.count("snapshots.load") == 1


async def test_a_follower_that_is_behind_gets_cached_lines_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream_hub, "PART_LINES", 4)
    run_id, writer = await begun(world)
    for number in range(1, 8):
        await writer.write(str(number))
    async with feeding(world) as (feed, _):
        first, late = await feed.follow(run_id, tenant_filter=None), await feed.follow(run_id, tenant_filter=None)
        for number in range(1, 7):
            assert await texts(first) == [str(number)]

        pieces = []
        while late.place.line < 7:
            batch = await next_of(late)
            assert isinstance(batch, LineBatch)
            pieces.append([line.line.text for some in await late.with_more(batch) for line in some.lines])

        # As much as is sent at once, and no further than what is cached.
        assert pieces == [["1", "2", "3", "4"], ["5", "6"]]
        assert await texts(late) == ["7"]


async def test_one_of_many_followers_also_gets_uncached_lines_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream_hub, "REST_PER_FOLLOWER_SEC", 0.01)
    run_id, writer = await begun(world)
    for number in range(1, 4):
        await writer.write(str(number))
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None)
        batch = await next_of(follower)
        assert isinstance(batch, LineBatch)

        more = await follower.with_more(batch)

        assert [line.line.text for some in more for line in some.lines] == ["1", "2", "3"]


@pytest.mark.parametrize("are_many", [False, True])
async def test_many_followers_each_get_lines_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch, are_many: bool
) -> None:
    monkeypatch.setattr(log_stream_hub, "REST_PER_FOLLOWER_SEC", 1.0 if are_many else 0.0)
    run_id, writer = await begun(world)
    await writer.write("1")
    async with feeding(world) as (feed, _):
        follower, other = await feed.follow(run_id, tenant_filter=None), await feed.follow(run_id, tenant_filter=None)
        assert await texts(follower) == ["1"]
        await writer.write("2")
        assert await texts(other) == ["1"]

        hearing = asyncio.create_task(texts(follower))
        for _ in range(20):  # turns of the loop: the line is there, and nothing else is waited for
            await asyncio.sleep(0)

        assert hearing.done() is not are_many
        assert await hearing == ["2"]


async def test_a_slow_follower_gets_everything_and_costs_nothing_meanwhile(world: World) -> None:
    run_id, writer = await begun(world)
    async with feeding(world) as (feed, _):
        slow, quick = await feed.follow(run_id, tenant_filter=None), await feed.follow(run_id, tenant_filter=None)
        feed._cache = slow._channel._cache = ChunkCache(1)  # as when a gateway has much else to keep
        for number in range(1, 51):
            await writer.write(str(number))
            assert await texts(quick) == [str(number)]
        await world.complete(run_id)

        assert len(feed._cache._chunks) == 1
        assert await to_the_end(quick) == []
        assert await to_the_end(slow) == numbered(1, 50)


async def test_a_reader_that_goes_while_it_reads_for_others_costs_them_nothing(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    async with feeding(world) as (feed, _):
        followers = [await feed.follow(run_id, tenant_filter=None) for _ in range(3)]
        gone: list[asyncio.Task[Any]] = []

        async def go() -> None:
            gone[0].cancel()
            await asyncio.sleep(0)

        world.faults.before("run_logs.next", go)
        gone += [asyncio.create_task(texts(follower)) for follower in followers]

        assert await asyncio.gather(*gone[1:]) == [["one"], ["one"]]
        assert gone[0].cancelled()


async def test_a_large_chunk_is_sent_in_parts_that_are_shared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parts, "PART_BYTES", 10)
    run_id, writer = await begun(world)
    await writer.write("a" * 6, "b" * 4, "c" * 20, "d")
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None)

        assert [await texts(follower) for _ in range(3)] == [["a" * 6, "b" * 4], ["c" * 20], ["d"]]
        assert world.faults.calls.count("run_logs.next") == 1


async def test_rare_encodings_are_not_all_cached(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    async with feeding(world) as (feed, _):
        batch = await next_of(await feed.follow(run_id, tenant_filter=None))
        assert isinstance(batch, LineBatch)

        for number in range(50):
            assert batch.once(f"form-{number}", lambda batch: b"x") == b"x"

        assert len(batch.part._encodings) == log_parts.MAX_ENCODINGS


# --- who comes and goes -----------------------------------------------------------------------------------------------


async def test_nothing_is_left_when_the_last_follower_has_gone(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    async with feeding(world) as (feed, watches):
        followers = [await feed.follow(run_id, tenant_filter=None) for _ in range(2)]
        assert watches.open_count == 0
        for follower in followers:
            await texts(follower)
            follower.close()
            follower.close()

        assert (feed._channels, dict(feed._cache._chunks), feed._cache._weight) == ({}, {}, 0)
        assert watches._channels == {}
        assert world.live.listened_to == set()
        assert not world.truth.run_logs._log._listeners[run_id]  # type: ignore[attr-defined]


@pytest.mark.parametrize("tenant_filter", [None, "team-a"])
async def test_a_run_that_is_not_there_is_not_found(world: World, tenant_filter: str | None) -> None:
    async with feeding(world) as (feed, watches):
        with pytest.raises(RunNotFound):
            await feed.follow(new_run_id(), tenant_filter=tenant_filter)

        assert (feed._channels, watches._channels) == ({}, {})


async def test_the_log_of_another_tenant_is_not_there_while_its_own_follow_it(world: World) -> None:
    run_id = await world.submit(Request(flow_name="hello", tag="default", input={}, tenant_id="team-a"))
    async with feeding(world) as (feed, _):
        await feed.follow(run_id, tenant_filter="team-a")

        with pytest.raises(RunNotFound):
            await feed.follow(run_id, tenant_filter="team-b")

        assert feed._channels[run_id].users == 1


async def test_followers_stop_with_the_gateway_and_none_comes_after(world: World) -> None:
    run_id, _ = await begun(world)
    async with feeding(world) as (feed, watches):
        follower = await feed.follow(run_id, tenant_filter=None)
        waiting = asyncio.create_task(next_of(follower))
        await asyncio.sleep(0)

        watches.close()

        assert await waiting is Sign.STOPPED
        with pytest.raises(BrokerUnavailable):
            await feed.follow(run_id, tenant_filter=None)


async def test_a_follower_that_is_asked_to_end_ends_alone(world: World) -> None:
    run_id, writer = await begun(world)
    async with feeding(world) as (feed, _):
        one, other = await feed.follow(run_id, tenant_filter=None), await feed.follow(run_id, tenant_filter=None)

        one.end()

        assert await next_of(one) is Sign.STOPPED
        await writer.write("more")
        assert await texts(other) == ["more"]


# --- a broker that comes and goes -------------------------------------------------------------------------------------


async def test_a_follower_waits_while_the_broker_is_away_and_goes_on_when_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream_hub, "RETRY_SEC", 3600.0)
    run_id, writer = await begun(world)
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None)
        world.faults.away = True
        waiting = asyncio.create_task(texts(follower))
        await world.faults.tried("run_logs.next")
        await writer.write("meanwhile")
        world.faults.away = False

        feed._channels[run_id].notify()  # as the log store says when the connection is back

        assert await waiting == ["meanwhile"]


async def test_a_failed_read_is_repeated_once_for_all_followers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream_hub, "RETRY_SEC", 0.01)
    run_id, writer = await begun(world)
    await writer.write("one")
    async with feeding(world) as (feed, _):
        followers = [await feed.follow(run_id, tenant_filter=None) for _ in range(20)]
        world.faults.fail("run_logs.next")

        found = await asyncio.gather(*(texts(follower) for follower in followers))

        assert found == [["one"]] * 20
        assert world.faults.calls.count("run_logs.next") <= 3


async def test_a_lost_chunk_notification_is_made_up_for_by_the_heartbeat(world: World) -> None:
    run_id, writer = await begun(world)
    async with feeding(world) as (feed, watches):
        follower = await feed.follow(run_id, tenant_filter=None)
        waiting = asyncio.create_task(texts(follower))
        await world.faults.tried("run_logs.next")
        world.truth.run_logs._log._listeners.clear()  # type: ignore[attr-defined]
        await writer.write("unheard")

        world.clock.pass_time(world.config.http_watch_heartbeat_sec)
        await watches.tick()

        assert await waiting == ["unheard"]


async def test_a_follower_with_nothing_to_read_shows_life() -> None:
    world = World(http_watch_heartbeat_sec=0.01)
    run_id, _ = await begun(world)
    async with feeding(world) as (feed, _):
        follower = await feed.follow(run_id, tenant_filter=None)

        assert await next_of(follower) is Sign.ALIVE
        assert await next_of(follower) is Sign.ALIVE


async def test_a_follower_that_cannot_be_opened_leaves_nothing_behind(world: World) -> None:
    run_id, _ = await begun(world)
    async with feeding(world) as (feed, watches):
        world.faults.fail("run_logs.listen")
        with pytest.raises(BrokerUnavailable):
            await feed.follow(run_id, tenant_filter=None)

        assert (feed._channels, watches._channels) == ({}, {})
