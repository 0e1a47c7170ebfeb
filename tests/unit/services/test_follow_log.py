"""Followers of a log get every line once and in order; chunks are read and encoded once for all of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LineFilter
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.streaming import chunks, topics
from pyoco_server.services.streaming.chunks import ChunkCache, LineBatch
from pyoco_server.services.streaming.topics import LogUpdate
from support.topics import Followers, LogUpdates, following
from support.world import World
from support.written import Writer, numbered

MANY = 1000


async def begun(world: World) -> tuple[RunId, Writer]:
    run_id = await world.submit()
    await world.start(run_id)
    return run_id, Writer(world.truth.run_logs, run_id)


def lines_of(update: LogUpdate) -> list[str]:
    return [line.line.text for batch in update.batches for line in batch.lines]


async def texts(updates: LogUpdates) -> list[str]:
    """The next lines."""
    return lines_of(await following(updates))


async def to_the_end(updates: LogUpdates) -> list[str]:
    """All lines until the run is over."""
    found: list[str] = []
    async for update in updates:
        found += lines_of(update)
        if update.ended:
            return found
    raise AssertionError("the stream ended before the run")


def lose_chunk_notifications(world: World) -> None:
    world.truth.run_logs._log._listeners.clear()  # type: ignore[attr-defined]


# --- lines ------------------------------------------------------------------------------------------------------------


async def test_a_follower_gets_stored_lines_then_new_ones_then_the_end(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one", "two")
    async with Followers(world) as followers:
        updates = await followers.log(run_id)

        assert await texts(updates) == ["one", "two"]
        waiting = asyncio.create_task(texts(updates))
        await asyncio.sleep(0)
        await writer.write("three")
        assert await waiting == ["three"]
        await writer.write("four")
        await world.complete(run_id)
        assert await texts(updates) == ["four"]
        ended = (await following(updates)).ended
        assert ended is not None
        assert ended.plain["status"] == "COMPLETED"
        assert [update async for update in updates] == []


async def test_a_follower_of_cached_chunks_yields_between_two_chunks(world: World) -> None:
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

    async with Followers(world) as followers:
        await to_the_end(await followers.log(run_id))
        second = await followers.log(run_id, only=LineFilter(task="another"))
        running = asyncio.create_task(others())

        assert await to_the_end(second) == []
        running.cancel()

    assert turns >= 50


async def test_a_finished_run_is_read_to_its_end_without_a_subscription(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    await world.complete(run_id)
    async with Followers(world) as followers:
        updates = await followers.log(run_id)

        assert world.live.listened_to == set()
        assert not world.truth.run_logs._log._listeners[run_id]  # type: ignore[attr-defined]
        assert await to_the_end(updates) == ["one"]


async def test_an_end_before_the_last_chunk_notification_waits_for_its_lines(world: World) -> None:
    run_id, writer = await begun(world)
    async with Followers(world) as followers:
        waiting = asyncio.create_task(to_the_end(await followers.log(run_id)))
        await world.faults.tried("run_logs.next")
        lose_chunk_notifications(world)

        await writer.write("the last words")
        await world.complete(run_id)

        assert await waiting == ["the last words"]


@pytest.mark.parametrize(("tail", "begin"), [(5, 26), (30, 1), (99, 1)])
async def test_a_tail_starts_with_the_last_lines(world: World, tail: int, begin: int) -> None:
    run_id, writer = await begun(world)
    async with Followers(world) as followers:
        of_nothing = await followers.log(run_id, tail=tail)
        for first in range(1, 30, 3):
            await writer.write(*numbered(first, first + 2))
        updates = await followers.log(run_id, tail=tail)
        await world.complete(run_id)

        assert await to_the_end(updates) == numbered(begin, 30)
        assert await to_the_end(of_nothing) == numbered(1, 30)


async def test_a_follower_with_a_filter_gets_only_matching_lines(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("a", task="load")
    await writer.write("b", task="fit", level="ERROR")
    await writer.write("c", task="fit", level="DEBUG")
    await writer.write("d", task="load", level="CRITICAL")
    await world.complete(run_id)
    async with Followers(world) as followers:
        fit = await followers.log(run_id, only=LineFilter(task="fit"))
        severe = await followers.log(run_id, only=LineFilter(level="WARNING"))
        neither = await followers.log(run_id, only=LineFilter(task="load", level="ERROR"))

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
def test_a_reader_that_resumes_at_any_line_gets_the_rest_once_and_in_order(
    sizes: list[int], cut: int, live: int, part: int
) -> None:
    def places(update: LogUpdate) -> list[tuple[str, LogPosition]]:
        return [(line.line.text, batch.part.behind(line.number)) for batch in update.batches for line in batch.lines]

    async def follow() -> tuple[list[str], list[str]]:
        world = World()
        run_id, writer = await begun(world)
        first = 1
        async with Followers(world) as followers:
            updates = await followers.log(run_id)
            had: list[tuple[str, LogPosition]] = []
            for number, size in enumerate(sizes):
                await writer.write(*numbered(first, first + size - 1))
                first += size
                if number < live and size:
                    had += places(await following(updates))
            await world.complete(run_id)
            while not (update := await following(updates)).ended:
                had += places(update)
            assert [text for text, _ in had] == numbered(1, first - 1)
            kept = had[: min(cut, len(had))]
            again = await followers.log(run_id, kept[-1][1] if kept else START)
            return [text for text, _ in kept] + await to_the_end(again), list(numbered(1, first - 1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "PART_LINES", part)
        found, truth = asyncio.run(follow())
    assert found == truth


@pytest.mark.parametrize("place", [LogPosition(3, 999), LogPosition(3, 1), LogPosition(3, 0), LogPosition(5, 999)])
async def test_a_position_with_a_foreign_sequence_is_found_by_its_line(world: World, place: LogPosition) -> None:
    run_id, writer = await begun(world)
    for number in range(1, 5):
        await writer.write(str(number))
    async with Followers(world) as followers:
        updates = await followers.log(run_id, place)
        await writer.write("5")
        await world.complete(run_id)

        assert await to_the_end(updates) == numbered(place.line, 5)


# --- shared reads -----------------------------------------------------------------------------------------------------


async def test_a_thousand_followers_share_one_read_and_one_encoding_per_form(world: World) -> None:
    run_id, writer = await begun(world)
    made: list[str] = []

    def make(batch: LineBatch) -> bytes:
        made.append(batch.lines[0].line.text)
        return b"bytes"

    async def read(updates: LogUpdates, form: str) -> list[bytes]:
        return [batch.once(form, make) async for update in updates for batch in update.batches]

    async with Followers(world) as followers:
        streams = [await followers.log(run_id) for _ in range(MANY)]
        readers = [asyncio.create_task(read(one, "ab"[n % 2])) for n, one in enumerate(streams)]
        await world.faults.tried("run_logs.next")
        for number in range(5):
            await writer.write(str(number))
            await asyncio.sleep(0)
        await world.complete(run_id)
        found = await asyncio.gather(*readers)

    assert all(one == [b"bytes"] * 5 for one in found)
    assert sorted(made) == sorted([str(number) for number in range(5)] * 2)
    # Each chunk, and empty reads: at the beginning, after each chunk, after the end.
    assert world.faults.calls.count("run_logs.next") <= 5 + 1 + 5 + 1
    assert world.faults.calls.count("snapshots.load") == 1


async def test_a_follower_that_is_behind_gets_cached_lines_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "PART_LINES", 4)
    run_id, writer = await begun(world)
    for number in range(1, 8):
        await writer.write(str(number))
    async with Followers(world) as followers:
        first, late = await followers.log(run_id), await followers.log(run_id)
        for number in range(1, 7):
            assert await texts(first) == [str(number)]

        # One batch, bounded by the cached lines.
        assert [await texts(late) for _ in range(3)] == [["1", "2", "3", "4"], ["5", "6"], ["7"]]


async def test_a_single_follower_gets_uncached_lines_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "REST_PER_FOLLOWER_SEC", 0.01)
    run_id, writer = await begun(world)
    for number in range(1, 4):
        await writer.write(str(number))
    async with Followers(world) as followers:
        assert await texts(await followers.log(run_id)) == ["1", "2", "3"]


async def test_lines_that_were_read_are_not_lost_when_the_next_read_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "REST_PER_FOLLOWER_SEC", 0.01)
    run_id, writer = await begun(world)
    await writer.write("1")
    await writer.write("2")
    async with Followers(world) as followers:
        updates = await followers.log(run_id)

        async def break_next() -> None:
            world.faults.fail("run_logs.next")

        world.faults.after("run_logs.next", break_next)

        assert [await texts(updates) for _ in range(2)] == [["1"], ["2"]]


@pytest.mark.parametrize("are_many", [False, True])
async def test_many_followers_each_get_lines_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch, are_many: bool
) -> None:
    monkeypatch.setattr(topics, "REST_PER_FOLLOWER_SEC", 1.0 if are_many else 0.0)
    run_id, writer = await begun(world)
    await writer.write("1")
    async with Followers(world) as followers:
        updates, other = await followers.log(run_id), await followers.log(run_id)
        assert await texts(updates) == ["1"]
        await writer.write("2")
        await texts(other)

        waiting = asyncio.create_task(texts(updates))
        for _ in range(20):  # iterations of the loop: the line is stored, and no other event is awaited
            await asyncio.sleep(0)

        assert waiting.done() is not are_many
        assert await waiting == ["2"]


async def test_a_slow_follower_gets_all_lines_and_buffers_none(world: World) -> None:
    run_id, writer = await begun(world)
    async with Followers(world) as followers:
        cache = followers.topics._cache = ChunkCache(1)  # as when a gateway has many other logs
        slow, quick = await followers.log(run_id), await followers.log(run_id)
        for number in range(1, 51):
            await writer.write(str(number))
            assert await texts(quick) == [str(number)]
        await world.complete(run_id)

        assert len(cache._chunks) == 1
        assert await to_the_end(quick) == []
        assert await to_the_end(slow) == numbered(1, 50)


async def test_a_disconnect_during_a_shared_read_does_not_affect_other_followers(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    async with Followers(world) as followers:
        streams = [await followers.log(run_id) for _ in range(3)]
        reading: list[asyncio.Task[Any]] = []

        async def cancel_first() -> None:
            reading[0].cancel()
            await asyncio.sleep(0)

        world.faults.before("run_logs.next", cancel_first)
        reading += [asyncio.create_task(texts(updates)) for updates in streams]

        assert await asyncio.gather(*reading[1:]) == [["one"], ["one"]]
        assert reading[0].cancelled()


async def test_a_large_chunk_is_sent_in_parts_that_are_shared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PART_BYTES", 10)
    run_id, writer = await begun(world)
    await writer.write("a" * 6, "b" * 4, "c" * 20, "d")
    async with Followers(world) as followers:
        batches = (await following(await followers.log(run_id))).batches

        assert [[line.line.text for line in batch.lines] for batch in batches] == [
            ["a" * 6, "b" * 4],
            ["c" * 20],
            ["d"],
        ]
        assert world.faults.calls.count("run_logs.next") == 1


async def test_rare_encodings_are_not_all_cached(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    async with Followers(world) as followers:
        batch = (await following(await followers.log(run_id))).batches[0]

        for number in range(50):
            assert batch.once(f"form-{number}", lambda batch: b"x") == b"x"

        assert len(batch.part._encodings) == chunks.MAX_ENCODINGS


# --- the topic --------------------------------------------------------------------------------------------------------


async def test_the_topic_is_closed_after_its_last_follower(world: World) -> None:
    run_id, writer = await begun(world)
    await writer.write("one")
    async with Followers(world) as followers:
        for updates in [await followers.log(run_id) for _ in range(2)]:
            await texts(updates)
        assert followers.topics.open_count == 2
        cache = followers.topics._cache

    assert (followers.topics.open_count, followers.topics._topics) == (0, {})
    assert (dict(cache._chunks), cache._weight) == ({}, 0)
    assert world.live.listened_to == set()
    assert not world.truth.run_logs._log._listeners[run_id]  # type: ignore[attr-defined]


async def test_followers_stop_without_an_end_at_shutdown(world: World) -> None:
    run_id, _ = await begun(world)
    async with Followers(world) as followers:
        updates = await followers.log(run_id)

        async def rest() -> list[LogUpdate]:
            return [update async for update in updates]

        waiting = asyncio.create_task(rest())
        await asyncio.sleep(0)

        followers.topics.close()

        assert await waiting == []


async def test_a_follower_that_fails_to_open_leaves_no_topic(world: World) -> None:
    run_id, _ = await begun(world)
    async with Followers(world) as followers:
        world.faults.fail("run_logs.listen")
        with pytest.raises(BrokerUnavailable):
            await followers.log(run_id)

    assert followers.topics._topics == {}


# --- outages and heartbeats -------------------------------------------------------------------------------------------


async def test_a_follower_pauses_during_an_outage_and_continues_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "RETRY_SEC", 3600.0)
    run_id, writer = await begun(world)
    async with Followers(world) as followers:
        updates = await followers.log(run_id)
        world.faults.is_offline = True
        waiting = asyncio.create_task(texts(updates))
        await world.faults.tried("run_logs.next")
        await writer.write("meanwhile")
        await world.faults.tried("run_logs.next")
        world.faults.is_offline = False

        world.truth.run_logs._log.interrupt()  # type: ignore[attr-defined]

        assert await waiting == ["meanwhile"]


async def test_a_failed_read_is_repeated_once_for_all_followers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "RETRY_SEC", 0.01)
    run_id, writer = await begun(world)
    await writer.write("one")
    async with Followers(world) as followers:
        streams = [await followers.log(run_id) for _ in range(20)]
        world.faults.fail("run_logs.next")

        found = await asyncio.gather(*(texts(updates) for updates in streams))

        assert found == [["one"]] * 20
        assert world.faults.calls.count("run_logs.next") <= 3


async def test_a_heartbeat_compensates_a_lost_chunk_notification(world: World) -> None:
    run_id, writer = await begun(world)
    async with Followers(world) as followers:
        waiting = asyncio.create_task(texts(await followers.log(run_id)))
        await world.faults.tried("run_logs.next")
        lose_chunk_notifications(world)
        await writer.write("not announced")

        await followers.beat()

        assert await waiting == ["not announced"]


@pytest.mark.parametrize("only", [LineFilter(), LineFilter(task="another")])
async def test_a_follower_with_nothing_to_read_has_heartbeats(only: LineFilter) -> None:
    world = World(http_watch_heartbeat_sec=0.01)
    run_id, writer = await begun(world)
    async with Followers(world) as followers:
        updates = await followers.log(run_id, only=only)
        if not only.takes_all:
            await writer.write("filtered out")

        for _ in range(2):
            update = await following(updates)
            assert (update.batches, update.ended) == ([], None)
