"""Watchers get every change in order and once, without a queue behind a slow reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.domain.execution.commands import AddTag, CompleteExecution
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, RunNotFound, TooManyWatchers
from pyoco_server.services.executions.command_handler import commit
from pyoco_server.services.streaming import watch_hub
from pyoco_server.services.streaming.watch_channel import View, Watcher, WatchUpdate
from pyoco_server.services.streaming.watch_hub import WatchHub
from pyoco_server.stores import CommitHeard, EventLog
from support.samples import new_run_id
from support.world import HELLO, OURS, USER, World

PATIENCE_SEC = 5.0
HEARTBEAT_SEC = 15.0


class DeafLive(EventLog):
    """Word of commits that never comes, until the connection is back."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[CommitHeard], None]] = []

    async def listen(self, run_id: RunId, heard: Callable[[CommitHeard], None]) -> Callable[[], None]:
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    def reconnect(self) -> None:
        for heard in self._listeners:
            heard(CommitHeard())


@asynccontextmanager
async def hub(world: World, live: EventLog | None = None) -> AsyncIterator[WatchHub]:
    """A hub at work; time moves by hand, so that nothing beats by itself."""
    watches = WatchHub(world.stores, live or world.live, world.config)
    task = asyncio.create_task(watches.run())
    await asyncio.sleep(0)  # one turn of the loop: it has begun
    try:
        yield watches
    finally:
        task.cancel()
        await asyncio.wait([task])


async def opened(watches: WatchHub, run_id: RunId, *, after: int = 0, since: float | None = None) -> Watcher:
    watcher = await watches.open(run_id, tenant_filter=None, after=after, since=since)
    assert watcher is not None
    return watcher


async def next_update(watcher: Watcher) -> WatchUpdate:
    async with asyncio.timeout(PATIENCE_SEC):
        next_told = await watcher.next()
    assert next_told is not None
    return next_told


async def status(watcher: Watcher) -> str:
    return str((await next_update(watcher)).view.plain["status"])


async def ended(watcher: Watcher) -> bool:
    async with asyncio.timeout(PATIENCE_SEC):
        return await watcher.next() is None


async def label(world: World, run_id: RunId, tag: str) -> None:
    (await world.handle(run_id, AddTag(at=world.now(), tag=tag))).accepted()


async def pass_heartbeat(world: World, watches: WatchHub) -> None:
    world.clock.pass_time(HEARTBEAT_SEC)
    await watches.tick()


# --- views ------------------------------------------------------------------------------------------------------------


async def test_a_watcher_gets_the_present_view_then_every_change_then_the_end(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)

        assert await status(watcher) == "PENDING"
        await world.start(run_id)
        assert await status(watcher) == "RUNNING"
        await world.complete(run_id)
        assert await status(watcher) == "COMPLETED"
        assert await ended(watcher)


async def test_a_finished_run_has_one_view_and_no_subscription(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)

        assert world.live.listened_to == set()
        assert await status(watcher) == "COMPLETED"
        assert await ended(watcher)


async def test_a_commit_is_shown_before_its_writer_has_advanced_the_snapshot(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)

        stored = await commit(world.truth, await world.told(run_id), AddTag(at=world.now(), tag="new"), USER)

        assert (await next_update(watcher)).view.version == stored.execution.version
        shown = await world.shown(run_id)
        assert shown is not None
        assert shown.execution.version < stored.execution.version


async def test_a_read_after_the_terminal_view_shows_no_less_although_the_writer_has_not_advanced_the_snapshot(
    world: World,
) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        assert await status(watcher) == "RUNNING"

        shown = await world.shown(run_id)
        assert shown is not None
        await commit(world.truth, shown.execution, CompleteExecution(at=world.now(), instance_id=OURS), USER)

        assert await status(watcher) == "COMPLETED"
        assert await world.status(run_id) == "COMPLETED"


async def test_a_watcher_opened_between_append_and_advance_gets_the_commit(world: World) -> None:
    run_id = await world.submit()
    stored = await commit(world.truth, await world.told(run_id), AddTag(at=world.now(), tag="new"), USER)
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)

        assert (await next_update(watcher)).view.version == stored.execution.version


async def test_a_view_equals_what_a_read_shows(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        await world.start(run_id)

        view = (await next_update(watcher)).view

        shown = await world.shown(run_id)
        assert shown is not None
        assert view.plain == shown.plain


# --- bursts and slow readers ------------------------------------------------------------------------------------------


async def test_a_burst_is_read_and_shown_as_one_view(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        reads = world.faults.calls.count("events.read")

        for number in range(50):
            await label(world, run_id, f"label-{number}")

        assert len((await next_update(watcher)).view.plain["tags"]) == 51
        assert world.faults.calls.count("events.read") == reads + 1


async def test_the_end_does_not_wait_for_a_burst_to_gather(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.streaming.watch_hub.GATHER_SEC", 1000.0)
    monkeypatch.setattr("pyoco_server.services.streaming.watch_hub.LONGEST_REST_SEC", 1000.0)
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        await world.start(run_id)

        await world.complete(run_id)

        assert await status(watcher) == "COMPLETED"
        assert await ended(watcher)


async def test_a_slow_reader_finds_the_newest_view_and_nothing_else(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        slow, quick = await opened(watches, run_id), await opened(watches, run_id)
        for number in range(3):
            await label(world, run_id, f"label-{number}")
            while len((await next_update(quick)).view.plain["tags"]) < number + 2:
                pass
        await pass_heartbeat(world, watches)

        newest = await next_update(slow)
        slow.end()

        assert not newest.beat
        assert len(newest.view.plain["tags"]) == 4
        assert await ended(slow)


# --- sharing ----------------------------------------------------------------------------------------------------------


async def test_all_watchers_of_a_run_share_one_subscription_one_read_and_one_encoding(world: World) -> None:
    run_id = await world.submit()
    made: list[View] = []

    def make(view: View) -> bytes:
        made.append(view)
        return b"bytes"

    async with hub(world) as watches:
        watchers = [await opened(watches, run_id) for _ in range(10)]
        for watcher in watchers:
            await next_update(watcher)
        reads = world.faults.calls.count("events.read")
        await world.start(run_id)

        encoded = [(await next_update(watcher)).view.once("form", make) for watcher in watchers]

        assert encoded == [b"bytes"] * 10
        assert len(made) == 1
        assert world.faults.calls.count("events.read") == reads + 1
        assert world.live.listened_to == {run_id}


async def test_the_last_to_leave_ends_the_listening(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        one, other = await opened(watches, run_id), await opened(watches, run_id)

        one.close()
        one.close()
        assert (watches.open_count, world.live.listened_to) == (1, {run_id})

        other.close()
        assert (watches.open_count, world.live.listened_to) == (0, set())


async def test_two_concurrent_watchers_open_one_channel(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watchers = await asyncio.gather(opened(watches, run_id), opened(watches, run_id))

        assert [await status(watcher) for watcher in watchers] == ["PENDING", "PENDING"]
        assert world.faults.calls.count("snapshots.load") == 1


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_many_concurrent_watchers_share_a_few_reads_of_the_log(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        await opened(watches, run_id)
        before = world.faults.calls.count("events.read")
        all_joined = asyncio.Event()
        world.faults.before("events.read", all_joined.wait)
        watchers = [asyncio.create_task(opened(watches, run_id)) for _ in range(100)]
        for _ in range(5):  # turns of the loop: each of them waits for a read by then
            await asyncio.sleep(0)
        all_joined.set()
        await asyncio.gather(*watchers)

        # For the first of them, and for those who came while that read was on its way.
        assert world.faults.calls.count("events.read") - before == 2


async def test_a_watcher_that_joins_during_a_read_gets_what_was_stored_in_between(world: World) -> None:
    run_id = await world.submit()
    async with hub(world, DeafLive()) as watches:
        await opened(watches, run_id)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> None:
            begun.set()
            await go_on.wait()

        world.faults.after("events.read", slowly)
        first = asyncio.create_task(opened(watches, run_id))
        await begun.wait()
        loaded = await world.truth.snapshots.load(run_id)
        assert loaded is not None
        await commit(world.truth, loaded.execution, AddTag(at=world.now(), tag="new"), USER)
        second = asyncio.create_task(opened(watches, run_id))
        await asyncio.sleep(0)
        go_on.set()

        await first
        assert "new" in (await next_update(await second)).view.plain["tags"]


async def test_a_run_that_is_not_there_or_another_tenants_is_not_found_and_leaves_nothing_behind(world: World) -> None:
    theirs = await world.submit(Request(flow_name="hello", tag="default", tenant_id="theirs"))
    async with hub(world) as watches:
        for run_id, tenant_filter in ((new_run_id(), None), (theirs, "ours")):
            with pytest.raises(RunNotFound):
                await watches.open(run_id, tenant_filter=tenant_filter)

        assert (watches.open_count, world.live.listened_to) == (0, set())
        assert await watches.open(theirs, tenant_filter="theirs") is not None


@pytest.mark.parametrize("call", ["snapshots.load", "events.read"])
async def test_without_a_broker_at_the_start_a_watch_is_refused_and_leaves_nothing_behind(
    world: World, call: str
) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        world.faults.fail(call)

        with pytest.raises(BrokerUnavailable):
            await watches.open(run_id, tenant_filter=None)

        assert (watches.open_count, world.live.listened_to) == (0, set())


async def test_a_broker_that_hangs_under_a_watch_is_not_waited_for_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(DeafLive):
        async def listen(self, run_id: RunId, heard: Callable[[CommitHeard], None]) -> Callable[[], None]:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(watch_hub, "OPEN_TIMEOUT_SEC", 0.01)
    run_id = await world.submit()
    async with hub(world, Hanging()) as watches, asyncio.timeout(PATIENCE_SEC):
        with pytest.raises(BrokerUnavailable, match="in time"):
            await watches.open(run_id, tenant_filter=None)

        assert watches.open_count == 0


async def test_more_watchers_than_the_limit_are_refused_until_one_leaves() -> None:
    world = World(http_max_watchers=1)
    run_id = await world.submit()
    async with hub(world) as watches:
        first = await opened(watches, run_id)

        with pytest.raises(TooManyWatchers):
            await watches.open(run_id, tenant_filter=None)
        first.close()
        await opened(watches, run_id)


# --- where to begin, when to end --------------------------------------------------------------------------------------


async def test_since_holds_back_what_is_not_newer_but_never_the_end(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id, since=world.now() + 10)
        await world.start(run_id)
        world.clock.pass_time(11)

        await label(world, run_id, "later")
        assert (await next_update(watcher)).view.updated_at == world.now()

        early = await opened(watches, run_id, since=world.now() + 1000)
        await world.complete(run_id)
        assert await status(early) == "COMPLETED"


async def test_a_finished_run_opens_no_watcher_for_a_client_that_has_seen_its_end(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)
    version = (await world.told(run_id)).version
    async with hub(world) as watches:
        assert await watches.open(run_id, tenant_filter=None, after=version) is None
        assert await watches.open(run_id, tenant_filter=None, since=world.now()) is None
        assert await watches.open(run_id, tenant_filter=None, after=version - 1) is not None


async def test_a_version_that_the_run_never_had_counts_as_none(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id, after=10_000)

        assert await status(watcher) == "PENDING"


async def test_a_client_that_saw_more_at_another_gateway_gets_nothing_twice(world: World) -> None:
    run_id = await world.submit()
    async with hub(world, DeafLive()) as watches:
        await opened(watches, run_id)
        await label(world, run_id, "seen elsewhere")
        seen = (await world.told(run_id)).version

        watcher = await opened(watches, run_id, after=seen)
        watcher.end()

        assert await ended(watcher)


async def test_a_stream_ends_after_its_time_with_what_was_waiting(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await watches.open(run_id, tenant_filter=None, timeout_sec=0.001)
        assert watcher is not None

        assert await status(watcher) == "PENDING"
        assert await ended(watcher)


async def test_a_hub_that_closes_ends_every_stream_and_opens_no_more(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)

        watches.close()

        assert await ended(watcher)
        with pytest.raises(BrokerUnavailable, match="shutting down"):
            await watches.open(run_id, tenant_filter=None)


# --- signs of life ----------------------------------------------------------------------------------------------------


async def test_a_silent_run_shows_life_with_the_heartbeat_of_its_worker(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        before = await next_update(watcher)
        await world.truth.snapshots.touch(run_id, world.now() + 7)

        await pass_heartbeat(world, watches)

        beat = await next_update(watcher)
        assert (beat.beat, beat.away, beat.view.version) == (True, False, before.view.version)
        assert beat.view.plain["heartbeat_at"] == before.view.plain["heartbeat_at"] + 7


async def test_a_heartbeat_from_before_a_view_is_not_sent_after_it(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        slow, quick = await opened(watches, run_id), await opened(watches, run_id)
        await next_update(slow)
        await next_update(quick)
        await pass_heartbeat(world, watches)
        await next_update(quick)
        await label(world, run_id, "newer")
        news = await next_update(quick)  # both have been offered them

        assert (await next_update(slow)).view is news.view

        waiting = asyncio.create_task(slow.next())
        await asyncio.sleep(0)  # one turn of the loop: what was left to tell would have been told
        assert not waiting.done()
        watches.close()
        assert await waiting is None


async def test_what_was_not_heard_is_found_at_the_next_heartbeat(world: World) -> None:
    run_id = await world.submit()
    async with hub(world, DeafLive()) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        await world.start(run_id)

        await pass_heartbeat(world, watches)

        found = await next_update(watcher)
        assert (found.beat, found.view.plain["status"]) == (False, "RUNNING")


async def test_what_was_missed_while_the_connection_was_lost_is_read_when_it_is_back(world: World) -> None:
    live = DeafLive()
    run_id = await world.submit()
    async with hub(world, live) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        await world.start(run_id)

        live.reconnect()

        assert await status(watcher) == "RUNNING"


async def test_while_the_broker_is_away_the_stream_stays_and_says_so(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        world.faults.away = True

        await pass_heartbeat(world, watches)
        assert (await next_update(watcher)).away

        world.faults.away = False
        await pass_heartbeat(world, watches)
        assert not (await next_update(watcher)).away


async def test_a_failed_read_is_repeated_at_the_next_tick_without_waiting_for_a_heartbeat(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        world.faults.fail("events.read")
        tried = asyncio.create_task(world.faults.tried("events.read"))
        await asyncio.sleep(0)  # one turn of the loop: it looks
        await commit(world.truth, await world.told(run_id), AddTag(at=world.now(), tag="new"), USER)
        await tried

        await watches.tick()

        while (now := await next_update(watcher)).beat:
            pass
        assert "new" in now.view.plain["tags"]


async def test_a_run_that_was_removed_ends_its_streams(world: World) -> None:
    run_id = await world.submit()
    async with hub(world) as watches:
        watcher = await opened(watches, run_id)
        await next_update(watcher)
        await world.truth.snapshots.remove(run_id)

        await pass_heartbeat(world, watches)

        assert await ended(watcher)
        assert world.live.listened_to == set()
        with pytest.raises(RunNotFound):
            await watches.open(run_id, tenant_filter=None)


# --- resuming ---------------------------------------------------------------------------------------------------------

ACTS = st.lists(st.sampled_from(["commit", "commit", "read", "cut", "hear"]), max_size=30)


async def _cut_and_resumed(acts: list[str]) -> tuple[list[int], int]:
    """The versions that a reader gets whose connection is cut now and then, and the last version."""
    world, seen = World(), [0]
    run_id = await world.submit(HELLO)
    await world.start(run_id)
    async with hub(world) as watches:
        watcher: Watcher | None = await opened(watches, run_id)

        async def read() -> None:
            if watcher is not None and (now := await watcher.next()) is not None and not now.beat:
                seen.append(now.view.version)

        for number, act in enumerate(acts):
            if act == "commit":
                await label(world, run_id, f"label-{number}")
            elif act == "hear":
                await pass_heartbeat(world, watches)
            elif act == "cut" and watcher is not None:
                watcher.close()
                watcher = await watches.open(run_id, tenant_filter=None, after=seen[-1])
            elif watcher is not None and seen[-1] < (await world.told(run_id)).version:
                await read()
        await world.complete(run_id)
        last = (await world.told(run_id)).version
        while seen[-1] < last:
            await read()
        assert await watches.open(run_id, tenant_filter=None, after=seen[-1]) is None
    return seen[1:], last


@given(acts=ACTS)
@settings(max_examples=50, deadline=None)
def test_a_reader_that_is_cut_and_resumes_is_told_of_nothing_twice_and_of_the_end(acts: list[str]) -> None:
    versions, last = asyncio.run(_cut_and_resumed(acts))

    assert versions == sorted(set(versions))
    assert versions[-1] == last
