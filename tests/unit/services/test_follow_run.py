"""Followers of a run get every change in order and once, without a queue behind a slow reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_server.domain.execution.commands import AddTag, CompleteExecution
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, RunNotFound, TooManyWatchers
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.command_handler import commit
from pyoco_server.services.streaming import topics as module
from pyoco_server.stores import CommitHeard, EventLog
from support.samples import new_run_id
from support.topics import Followers, Updates, following, has_ended
from support.world import HELLO, OURS, USER, World


class LosingEventLog(EventLog):
    """An event log whose notifications are lost until the reconnect."""

    def __init__(self, world: World) -> None:
        self.read = world.stores.events.read  # type: ignore[method-assign]
        self._listeners: list[Callable[[CommitHeard], None]] = []

    async def listen(self, run_id: RunId, notify: Callable[[CommitHeard], None]) -> Callable[[], None]:
        self._listeners.append(notify)
        return lambda: self._listeners.remove(notify)

    def reconnect(self) -> None:
        for notify in self._listeners:
            notify(CommitHeard())


def losing_stores(world: World) -> Stores:
    return replace(world.stores, events=LosingEventLog(world))


async def status(updates: Updates) -> str:
    return str((await following(updates)).view.plain["status"])


async def label(world: World, run_id: RunId, tag: str) -> None:
    (await world.handle(run_id, AddTag(at=world.now(), tag=tag))).accepted()


async def label_before_the_snapshot(world: World, run_id: RunId, tag: str) -> int:
    """The version of a commit whose writer has not advanced the snapshot."""
    stored = await commit(world.truth, await world.execution(run_id), AddTag(at=world.now(), tag=tag), USER)
    return stored.execution.version


async def finished(world: World) -> RunId:
    run_id = await world.submit()
    await world.start(run_id)
    await world.complete(run_id)
    return run_id


# --- views ------------------------------------------------------------------------------------------------------------


async def test_a_follower_gets_the_present_view_then_every_change_then_the_end(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)

        assert await status(updates) == "PENDING"
        await world.start(run_id)
        view = (await following(updates)).view
        snapshot = await world.snapshot(run_id)
        assert snapshot is not None
        assert view.plain == snapshot.plain
        await world.complete(run_id)
        assert await status(updates) == "COMPLETED"
        assert await has_ended(updates)


async def test_a_finished_run_has_one_view_and_no_subscription(world: World) -> None:
    run_id = await finished(world)
    async with Followers(world) as followers:
        updates = await followers.run(run_id)

        assert world.live.listened_to == set()
        assert await status(updates) == "COMPLETED"
        assert await has_ended(updates)


async def test_a_commit_is_shown_before_its_writer_has_advanced_the_snapshot(world: World) -> None:
    run_id = await world.submit()
    before_it_joined = await label_before_the_snapshot(world, run_id, "one")
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        assert (await following(updates)).view.version == before_it_joined

        later = await label_before_the_snapshot(world, run_id, "two")

        assert (await following(updates)).view.version == later
        snapshot = await world.snapshot(run_id)
        assert snapshot is not None
        assert snapshot.execution.version < before_it_joined


async def test_a_read_after_the_terminal_view_is_as_new_even_before_the_writer_advances_the_snapshot(
    world: World,
) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        assert await status(updates) == "RUNNING"

        command = CompleteExecution(at=world.now(), instance_id=OURS)
        await commit(world.truth, await world.execution(run_id), command, USER)

        assert await status(updates) == "COMPLETED"
        assert await world.status(run_id) == "COMPLETED"


# --- bursts and slow readers ------------------------------------------------------------------------------------------


async def test_a_burst_is_read_and_shown_as_one_view(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SEC", 0.25)
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        await following(updates)
        reads = world.faults.calls.count("events.read")

        for number in range(50):
            await label(world, run_id, f"label-{number}")

        assert len((await following(updates)).view.plain["tags"]) == 51
        assert world.faults.calls.count("events.read") == reads + 1


async def test_the_end_is_sent_without_a_batching_delay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SEC", 1000.0)
    monkeypatch.setattr(module, "LONGEST_GATHER_SEC", 1000.0)
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        await following(updates)
        await world.start(run_id)

        await world.complete(run_id)

        assert await status(updates) == "COMPLETED"


async def test_a_slow_reader_gets_only_the_newest_view(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        slow, quick = await followers.run(run_id), await followers.run(run_id)
        await following(slow)
        for number in range(3):
            await label(world, run_id, f"label-{number}")
            while len((await following(quick)).view.plain["tags"]) < number + 2:
                pass
        await followers.beat()

        newest = await following(slow)

        assert not newest.beat
        assert len(newest.view.plain["tags"]) == 4
        # Nor the heartbeat from before the view.
        waiting = asyncio.create_task(has_ended(slow))
        await asyncio.sleep(0)
        assert not waiting.done()
        followers.topics.close()
        assert await waiting


# --- sharing ----------------------------------------------------------------------------------------------------------


async def test_all_followers_of_a_run_share_one_subscription_one_read_and_one_encoding(world: World) -> None:
    run_id = await world.submit()
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"bytes")
        return b"bytes"

    async with Followers(world) as followers:
        streams = await asyncio.gather(*(followers.run(run_id) for _ in range(10)))
        for updates in streams:
            await following(updates)
        assert world.faults.calls.count("snapshots.load") == 1
        reads = world.faults.calls.count("events.read")
        await world.start(run_id)

        encoded = [(await following(updates)).view.encoded("form", make) for updates in streams]

        assert (encoded, made) == ([b"bytes"] * 10, [b"bytes"])
        assert world.faults.calls.count("events.read") == reads + 1
        assert world.live.listened_to == {run_id}


async def test_the_last_follower_closes_the_topic(world: World) -> None:
    run_id = await world.submit()
    topics = Followers(world).topics
    async with topics.join(run_id, tenant_filter=None):
        async with topics.join(run_id, tenant_filter=None):
            pass
        assert (topics.open_count, world.live.listened_to) == (1, {run_id})

    assert (topics.open_count, topics._topics, world.live.listened_to) == (0, {}, set())


async def test_many_concurrent_followers_share_a_few_reads_of_the_log(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        await followers.join(run_id)
        before = world.faults.calls.count("events.read")
        all_joined = asyncio.Event()
        world.faults.before("events.read", all_joined.wait)
        joining = [asyncio.create_task(followers.join(run_id)) for _ in range(100)]
        for _ in range(5):  # iterations of the loop: each follower then waits for a read
            await asyncio.sleep(0)
        all_joined.set()
        await asyncio.gather(*joining)

        # One read for the first follower, one for those that joined during it.
        assert world.faults.calls.count("events.read") - before == 2


async def test_a_follower_that_joins_during_a_read_gets_what_was_stored_in_between(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world, losing_stores(world)) as followers:
        await followers.join(run_id)
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> None:
            begun.set()
            await go_on.wait()

        world.faults.after("events.read", slowly)
        first = asyncio.create_task(followers.run(run_id))
        await begun.wait()
        version = await label_before_the_snapshot(world, run_id, "new")
        second = asyncio.create_task(followers.run(run_id))
        await asyncio.sleep(0)
        go_on.set()

        await first
        assert (await following(await second)).view.version == version


# --- rejections -------------------------------------------------------------------------------------------------------


async def test_an_unknown_or_foreign_run_is_not_found_and_leaves_no_topic(world: World) -> None:
    theirs = await world.submit(Request(flow_name="hello", tag="default", tenant_id="theirs"))
    async with Followers(world) as followers:
        for run_id, tenant_filter in ((new_run_id(), None), (theirs, "ours")):
            with pytest.raises(RunNotFound):
                await followers.join(run_id, tenant_filter)

        assert (followers.topics.open_count, followers.topics._topics, world.live.listened_to) == (0, {}, set())
        await followers.join(theirs, "theirs")
        with pytest.raises(RunNotFound):
            await followers.join(theirs, "ours")


@pytest.mark.parametrize("call", ["snapshots.load", "events.listen", "events.read"])
@pytest.mark.parametrize("hangs", [True, False])
async def test_during_an_outage_a_new_follower_is_rejected_in_time_and_leaves_no_topic(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str, hangs: bool
) -> None:
    monkeypatch.setattr(module, "OPEN_TIMEOUT_SEC", 0.01)
    run_id = await world.submit()
    async with Followers(world) as followers:
        if hangs:
            world.faults.before(call, asyncio.Event().wait)
        else:
            world.faults.fail(call)

        with pytest.raises(BrokerUnavailable):
            await followers.join(run_id)

        assert (followers.topics.open_count, followers.topics._topics, world.live.listened_to) == (0, {}, set())


async def test_more_followers_than_the_limit_are_rejected_until_one_leaves() -> None:
    world = World(http_max_watchers=1)
    run_id = await world.submit()
    topics = Followers(world).topics
    async with topics.join(run_id, tenant_filter=None):
        with pytest.raises(TooManyWatchers):
            await topics.join(run_id, tenant_filter=None).__aenter__()

    async with topics.join(run_id, tenant_filter=None):
        assert topics.open_count == 1


# --- start and end positions ------------------------------------------------------------------------------------------


async def test_since_skips_older_views_but_never_the_end(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id, since=world.now() + 10)
        early = await followers.run(run_id, since=world.now() + 1000)
        await world.start(run_id)
        world.clock.pass_time(11)

        await label(world, run_id, "later")
        assert (await following(updates)).view.updated_at == world.now()

        await world.complete(run_id)
        assert await status(early) == "COMPLETED"


async def test_a_client_that_has_the_end_gets_no_second_one(world: World) -> None:
    run_id = await finished(world)
    version = (await world.execution(run_id)).version
    async with Followers(world) as followers:
        topic = await followers.join(run_id)
        running = await followers.join(await world.submit())

        assert topic.is_end_known(version, None)
        assert topic.is_end_known(0, world.now())
        assert not topic.is_end_known(version - 1, world.now() - 1)
        assert not running.is_end_known(running.view.version, world.now())


async def test_an_unknown_version_counts_as_none(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        assert await status(await followers.run(run_id, after=10_000)) == "PENDING"


async def test_a_client_ahead_of_this_gateway_gets_nothing_twice(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world, losing_stores(world)) as followers:
        await followers.run(run_id)
        await label(world, run_id, "seen elsewhere")

        updates = await followers.run(run_id, after=(await world.execution(run_id)).version)
        followers.topics.close()

        assert await has_ended(updates)


async def test_a_stream_ends_after_its_time_with_the_pending_view(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id, timeout_sec=0.001)

        assert await status(updates) == "PENDING"
        assert await has_ended(updates)


async def test_at_shutdown_every_stream_ends_after_its_pending_view_and_none_is_opened(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates, slow = await followers.run(run_id), await followers.run(run_id)
        await following(updates)

        followers.topics.close()

        assert await has_ended(updates)
        assert await status(slow) == "PENDING"
        assert await has_ended(slow)
        with pytest.raises(BrokerUnavailable, match="shutting down"):
            await followers.join(run_id)


# --- heartbeats and missed notifications ------------------------------------------------------------------------------


async def test_a_silent_run_has_heartbeats_with_the_heartbeat_of_its_worker(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        before = await following(updates)
        await world.truth.snapshots.touch(run_id, world.now() + 7)

        await followers.beat()

        beat = await following(updates)
        assert (beat.beat, beat.away, beat.view.version) == (True, False, before.view.version)
        assert beat.view.plain["heartbeat_at"] == before.view.plain["heartbeat_at"] + 7


async def test_heartbeats_come_at_their_interval() -> None:
    world = World(http_watch_heartbeat_sec=0.01)
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)

        assert [(await following(updates)).beat for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize("found_by", ["heartbeat", "reconnect"])
async def test_a_lost_notification_is_compensated(world: World, found_by: str) -> None:
    run_id, live = await world.submit(), LosingEventLog(world)
    async with Followers(world, replace(world.stores, events=live)) as followers:
        updates = await followers.run(run_id)
        await following(updates)
        await world.start(run_id)

        if found_by == "heartbeat":
            await followers.beat()
        else:
            live.reconnect()

        found = await following(updates)
        assert (found.beat, found.view.plain["status"]) == (False, "RUNNING")


async def test_during_an_outage_the_stream_stays_open_and_reports_it(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        await following(updates)
        world.faults.is_offline = True

        await followers.beat()
        assert (await following(updates)).away

        world.faults.is_offline = False
        await followers.beat()
        assert not (await following(updates)).away


async def test_a_failed_read_is_repeated_without_waiting_for_a_heartbeat(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SEC", 0.001)
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        await following(updates)
        world.faults.fail("events.read", times=3)

        await label(world, run_id, "new")

        assert "new" in (await following(updates)).view.plain["tags"]


async def test_an_unexpected_failure_ends_neither_the_stream_nor_its_heartbeats(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_SEC", 0.001)
    world = World(http_watch_heartbeat_sec=0.01)
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        await following(updates)
        world.faults.fail("snapshots.load", TypeError("odd"))

        assert (await following(updates)).beat

    assert "watch failed" in caplog.text


async def test_a_run_that_is_removed_ends_its_streams(world: World) -> None:
    run_id = await world.submit()
    async with Followers(world) as followers:
        updates = await followers.run(run_id)
        await following(updates)
        await world.truth.snapshots.remove(run_id)

        await followers.beat()

        assert await has_ended(updates)
        with pytest.raises(RunNotFound):
            await followers.join(run_id)
    assert world.live.listened_to == set()


# --- resuming ---------------------------------------------------------------------------------------------------------

ACTS = st.lists(st.sampled_from(["commit", "commit", "read", "cut", "beat"]), max_size=30)


async def _cut_and_resumed(acts: list[str]) -> tuple[list[int], int]:
    """The versions received by a reader with interrupted connections, and the last version."""
    world, seen = World(), [0]
    run_id = await world.submit(HELLO)
    await world.start(run_id)
    async with Followers(world) as followers:
        updates = await followers.run(run_id)

        async def read() -> None:
            if (update := await anext(updates, None)) is not None and not update.beat:
                seen.append(update.view.version)

        for number, act in enumerate(acts):
            if act == "commit":
                await label(world, run_id, f"label-{number}")
            elif act == "beat":
                await followers.beat()
            elif act == "cut":
                updates = await followers.run(run_id, after=seen[-1])
            elif seen[-1] < (await world.execution(run_id)).version:
                await read()
        await world.complete(run_id)
        last = (await world.execution(run_id)).version
        while seen[-1] < last:
            await read()
        assert (await followers.join(run_id)).is_end_known(seen[-1], None)
    return seen[1:], last


@given(acts=ACTS)
@settings(max_examples=50, deadline=None)
def test_an_interrupted_reader_gets_nothing_twice_and_the_end(acts: list[str]) -> None:
    versions, last = asyncio.run(_cut_and_resumed(acts))

    assert versions == sorted(set(versions))
    assert versions[-1] == last
