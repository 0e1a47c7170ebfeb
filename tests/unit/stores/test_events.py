"""The event log, and the feed of all changes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from pyoco_server.domain.execution.events import Commit
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import Conflict, Stored
from pyoco_server.stores import CommitHeard, EventLog, LogSeen
from pyoco_server.testing.broker import MemorySubjectLog
from support.samples import completed, created, execution_at, new_run_id, tagged
from support.stores import Ports


async def append(log: EventLog, run_id: RunId, commit: Commit, *, after: int = 0) -> int:
    stored = await log.append(run_id, commit, after=after)
    assert isinstance(stored, Stored)
    return stored.version


async def test_commits_are_read_as_they_were_stored(ports: Ports) -> None:
    run_id, first, second = new_run_id(), created(), tagged("urgent")

    one = await append(ports.events, run_id, first)
    two = await append(ports.events, run_id, second, after=one)

    stored = await ports.events.read(run_id)
    assert [(item.sequence, item.commit) for item in stored] == [(one, first), (two, second)]
    assert [item.sequence for item in await ports.events.read(run_id, after=one)] == [two]
    assert [item.sequence for item in await ports.events.read(run_id, limit=1)] == [one]


async def test_a_repeated_commit_is_found_by_its_id(ports: Ports) -> None:
    run_id, commit = new_run_id(), created()
    version = await append(ports.events, run_id, commit)
    await append(ports.events, run_id, tagged("by another writer"), after=version)

    assert await ports.events.append(run_id, commit, after=0) == Stored(version=version, found=True)
    assert await ports.events.append(run_id, created(), after=0) == Conflict()
    assert len(await ports.events.read(run_id)) == 2


async def test_a_notice_shows_whether_the_commit_may_be_the_last() -> None:
    memory = MemorySubjectLog()
    log, run_id, notices = EventLog(memory), new_run_id(), list[CommitHeard]()
    stop = await log.listen(run_id, notices.append)

    first = await append(log, run_id, created())
    last = await append(log, run_id, completed(), after=first)
    memory.interrupt()
    stop()
    await append(log, run_id, tagged("unheard"), after=last)

    assert notices == [CommitHeard(sequence=first), CommitHeard(sequence=last, may_end=True), CommitHeard()]


async def test_the_feed_yields_snapshots_and_removals(ports: Ports) -> None:
    one, other = new_run_id(), new_run_id()
    await ports.snapshots.advance(execution_at(one, 1), create=True)
    created_at, last = await ports.feed.snapshot_stream()

    async with aclosing(ports.feed.snapshots(after=0)) as batches, asyncio.timeout(5):
        (present,) = await anext(batches)
        assert await anext(batches) == []
        await ports.snapshots.advance(execution_at(other, 2), create=True)
        (live,) = await anext(batches)
        await ports.snapshots.remove(one)
        (removed,) = await anext(batches)

    assert (present.run_id, present.sequence) == (one, last)
    assert live.plain is not None
    assert (live.run_id, live.plain["version"]) == (other, 2)
    assert (removed.run_id, removed.plain) == (one, None)
    assert await ports.feed.snapshot_stream() == (created_at, removed.sequence)
    assert await ports.feed.snapshot_key_at(live.sequence) == other
    assert await ports.feed.snapshot_key_at(present.sequence) is None


async def test_the_feed_yields_the_commits_of_all_runs(ports: Ports) -> None:
    one, other = new_run_id(), new_run_id()
    first = await append(ports.events, one, created())
    second = await append(ports.events, other, created())

    async with aclosing(ports.feed.commits(after=first)) as batches, asyncio.timeout(5):
        seen = await anext(batches)

    assert seen == [LogSeen(sequence=second, run_id=other)]
    assert (await ports.feed.commit_stream())[1] == second
