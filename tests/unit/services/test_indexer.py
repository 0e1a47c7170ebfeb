"""The indexer with a feed in memory and both kinds of index: resume, rebuild, failure and recovery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import HistogramDelta
from pyoco_server.domain.queries.query import IndexPosition, RunQuery, SnapshotSeen
from pyoco_server.domain.queries.rows import Change
from pyoco_server.errors import BrokerUnavailable, IndexUnavailable
from pyoco_server.ports import RunIndex
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.stores import Feed, LogSeen
from pyoco_server.testing.index import MemoryRunIndex
from support.indexes import plain, row, run_ids, summaries

A, B, C, D = (RunId(f"run-{name}") for name in "abcd")
SOON_SEC = 10.0


class BucketFeed(Feed):
    """A bucket with history 1 in memory, as a feed."""

    def __init__(self) -> None:
        self.created = "first"
        self.last = 0
        self.is_offline = False
        self.asked_after: list[int] = []
        self._kept: dict[RunId, SnapshotSeen] = {}
        self._changed = asyncio.Event()
        self._asked = asyncio.Event()

    async def requested(self, times: int) -> None:
        """Waits until the follower has requested snapshots this many times."""
        while len(self.asked_after) < times:
            await self._asked.wait()

    def put(self, run_id: RunId, status: str | None = "PENDING") -> int:
        self.last += 1
        fields = {"status": status, "updated_at": float(self.last), "version": self.last}
        self._kept[run_id] = SnapshotSeen(sequence=self.last, run_id=run_id, plain=plain(**fields))
        self._wake()
        return self.last

    def remove(self, run_id: RunId) -> int:
        self.last += 1
        self._kept[run_id] = SnapshotSeen(sequence=self.last, run_id=run_id, plain=None)
        self._wake()
        return self.last

    def expire(self, run_id: RunId) -> None:
        """The marker of a removal expires; its sequence disappears."""
        del self._kept[run_id]

    def recreate(self, created: str = "second") -> None:
        self.created, self.last = created, 0
        self._kept.clear()
        self._wake()

    async def snapshot_stream(self) -> tuple[str, int]:
        if self.is_offline:
            raise BrokerUnavailable("the broker is offline")
        return self.created, self.last

    async def snapshot_key_at(self, sequence: int) -> str | None:
        return next((seen.run_id for seen in self._kept.values() if seen.sequence == sequence), None)

    async def snapshots(self, *, after: int) -> AsyncGenerator[Sequence[SnapshotSeen], None]:
        self.asked_after.append(after)
        self._asked.set()
        self._asked = asyncio.Event()
        while True:
            if self.is_offline:
                raise BrokerUnavailable("the broker is offline")
            changed = self._changed
            batch = sorted((s for s in self._kept.values() if s.sequence > after), key=lambda seen: seen.sequence)
            after = batch[-1].sequence if batch else after
            yield batch
            if not batch:
                await changed.wait()

    async def commit_stream(self) -> tuple[str, int]:
        raise NotImplementedError

    async def commits(self, *, after: int) -> AsyncGenerator[Sequence[LogSeen], None]:
        raise NotImplementedError
        yield ()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class StoppedClock:
    """A stopped clock that signals its reads: the indexer reads it when a failure begins."""

    def __init__(self) -> None:
        self.looked_at = asyncio.Event()

    def now(self) -> float:
        self.looked_at.set()
        return 1000.0

    def monotonic(self) -> float:
        return 1000.0


def indexer_of(feed: BucketFeed, index: RunIndex, clock: StoppedClock | None = None) -> Indexer:
    return Indexer(feed, index, clock or StoppedClock(), verify_every_sec=0.01, first_pause_sec=0.001)


@asynccontextmanager
async def running(follower: Indexer) -> AsyncIterator[Indexer]:
    async with asyncio.timeout(SOON_SEC), asyncio.TaskGroup() as tasks:
        life = tasks.create_task(follower.run())
        yield follower
        life.cancel()


def listed(index: RunIndex) -> list[RunId]:
    return sorted(run_ids(index, RunQuery(limit=200)))


async def test_stored_and_later_snapshots_are_in_the_index() -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    feed.put(A)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()
        assert listed(index) == [A]

        assert await follower.reached(feed.put(B), SOON_SEC)

        assert listed(index) == [A, B]
        assert await follower.reached(feed.remove(A), SOON_SEC)
        assert listed(index) == [B]
        assert follower.failing_since is None


async def test_a_wait_ends_with_its_timeout() -> None:
    feed = BucketFeed()
    async with running(indexer_of(feed, MemoryRunIndex())) as follower:
        assert await follower.wait_caught_up(SOON_SEC)  # an empty bucket is caught up at once
        assert not await follower.reached(1, 0.01)
        assert not await follower.wait_for_change(0, 0.01)

        assert await follower.reached(feed.put(A), SOON_SEC)
        assert await follower.wait_for_change(0, 0.0)

    feed.is_offline = True
    async with running(indexer_of(feed, MemoryRunIndex())) as follower:
        assert not await follower.wait_caught_up(0.01)


async def test_a_waiter_is_woken_by_any_next_change() -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    async with running(indexer_of(feed, index)) as follower, asyncio.TaskGroup() as tasks:
        await follower.wait_caught_up()
        waiting = [tasks.create_task(follower.wait_for_change(0, SOON_SEC)) for _ in range(2)]

        feed.put(C)

        assert await waiting[0]
        assert await waiting[1]
        assert listed(index) == [C]
        assert not await follower.wait_for_change(follower.sequence, 0.01)


async def test_changes_are_not_batched_while_a_request_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.projections.indexer.GATHER_SEC", 3600.0)
    feed, index = BucketFeed(), MemoryRunIndex()
    feed.put(A)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()
        feed.put(B)

        follower.look_now()

        assert await follower.wait_for_change(1, SOON_SEC)
        assert listed(index) == [A, B]


async def test_changes_are_batched_while_a_waiter_waits_for_any_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.projections.indexer.GATHER_SEC", 3600.0)
    feed, index = BucketFeed(), MemoryRunIndex()
    feed.put(A)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()
        feed.put(B)

        assert not await follower.wait_for_change(1, 0.01)


async def test_a_reset_index_wakes_waiters_for_a_change() -> None:
    feed = BucketFeed()
    feed.put(A)
    feed.put(B)
    async with running(indexer_of(feed, MemoryRunIndex())) as follower, asyncio.TaskGroup() as tasks:
        await follower.wait_caught_up()
        waiting = tasks.create_task(follower.wait_for_change(follower.sequence, SOON_SEC))
        await asyncio.sleep(0)  # it has begun to wait

        feed.recreate()

        assert await waiting
        assert follower.sequence == 0


async def test_the_follower_resumes_after_its_position() -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    feed.put(A)
    feed.put(B)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()
    feed.put(C)

    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()

    assert feed.asked_after == [0, 2]
    assert listed(index) == [A, B, C]


async def test_older_runs_are_listed_and_changes_missed_later_are_counted() -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    feed.put(A, "COMPLETED")
    feed.put(B)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()
        assert index.tallies() == {}
    feed.put(B, "COMPLETED")

    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()

    assert index.counts() == {"COMPLETED": 2}
    assert {key: found.total for key, found in index.tallies().items()} == {(HistogramDelta.FINISHED, "COMPLETED"): 1}


@pytest.mark.parametrize(
    ("created", "position"), [("another", 1), ("first", 9), ("first", 1)], ids=["recreated", "shorter", "other key"]
)
async def test_a_bucket_that_does_not_match_the_position_is_read_from_its_start(created: str, position: int) -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    index.apply([row(position, A)], IndexPosition(stream_created=created, sequence=position, last_key=A))
    feed.put(B)
    feed.put(C)

    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()

    assert listed(index) == [B, C]


async def test_the_lag_of_the_index_excludes_expired_snapshots() -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    follower = indexer_of(feed, index)
    feed.put(A)
    feed.put(B)
    feed.remove(B)
    assert await follower.behind() == 3
    feed.expire(B)

    async with running(follower):
        await follower.wait_caught_up()

        assert (follower.sequence, await follower.behind(), listed(index)) == (1, 0, [A])


async def test_a_bucket_recreated_under_a_running_follower_is_noticed() -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    feed.put(A)
    feed.put(B)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()

        feed.recreate()
        feed.put(C)

        await feed.requested(times=2)
        await follower.wait_caught_up()
        assert listed(index) == [C]
        assert follower.failures == 0


async def test_a_failure_is_reported_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    feed, index, clock = BucketFeed(), MemoryRunIndex(), StoppedClock()
    feed.put(A)
    async with running(indexer_of(feed, index, clock)) as follower:
        await follower.wait_caught_up()

        feed.is_offline = True
        await clock.looked_at.wait()
        assert follower.failing_since == 1000.0
        assert not follower.is_caught_up

        feed.is_offline = False
        feed.put(B)
        await follower.wait_caught_up()
        assert listed(index) == [A, B]
        assert follower.failing_since is None
        assert follower.failures > 0
    assert all(record.exc_info is None for record in caplog.records)


class FailingOnceIndex(MemoryRunIndex):
    """Fails with an unforeseen error the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.has_failed = False

    def apply(self, changes: Sequence[Change], position: IndexPosition) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise ZeroDivisionError("unforeseen")
        super().apply(changes, position)


async def test_a_long_backoff_ends_when_the_broker_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.projections.indexer.LONGEST_PAUSE_SEC", 3600.0)
    feed, clock = BucketFeed(), StoppedClock()
    feed.is_offline = True
    async with running(Indexer(feed, MemoryRunIndex(), clock, first_pause_sec=1800.0)) as follower:
        await clock.looked_at.wait()
        feed.is_offline = False

        follower.hurry()

        assert await follower.wait_caught_up(SOON_SEC)


async def test_an_unexpected_error_is_logged_with_its_traceback_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    feed, index = BucketFeed(), FailingOnceIndex()
    feed.put(A)

    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()

    assert listed(index) == [A]
    assert follower.failures == 1
    assert "unforeseen" in caplog.text


@pytest.mark.parametrize("status", [None, "NOT_A_STATUS"])
async def test_a_snapshot_that_cannot_be_read_is_not_listed(
    status: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    feed, index = BucketFeed(), MemoryRunIndex()
    feed.put(A)
    feed.put(B)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()

        assert await follower.reached(feed.put(A, status), SOON_SEC)

        assert listed(index) == [B]
        assert index.counts() == {"PENDING": 1}
    assert "snapshot cannot be read" in caplog.text


async def test_a_deleted_index_file_is_rebuilt(tmp_path: Path) -> None:
    feed, path = BucketFeed(), tmp_path / "runs.db"
    feed.put(A)
    feed.put(B)
    await filled(feed, path)
    path.unlink()

    rows = await filled(feed, path)

    assert [row["run_id"] for row in rows] == [B, A]
    assert feed.asked_after == [0, 0]


async def test_a_kept_index_file_is_not_rebuilt(tmp_path: Path) -> None:
    feed, path = BucketFeed(), tmp_path / "runs.db"
    feed.put(A)
    first = await filled(feed, path)

    assert await filled(feed, path) == first
    assert feed.asked_after == [0, 1]


async def test_an_index_that_breaks_under_a_running_follower_is_rebuilt(tmp_path: Path) -> None:
    feed, index = BucketFeed(), SqliteRunIndex.open(tmp_path / "runs.db")
    feed.put(A)
    async with running(indexer_of(feed, index)) as follower:
        await follower.wait_caught_up()

        index._file._writer.executescript("DROP TABLE runs")  # any damage: the next query fails
        with pytest.raises(IndexUnavailable, match="run index") as damaged:
            run_ids(index)
        assert "NATS" not in damaged.value.hint

        await feed.requested(times=2)
        await follower.wait_caught_up()
        assert listed(index) == [A]
    index.close()


async def filled(feed: BucketFeed, path: Path) -> list[Any]:
    index = SqliteRunIndex.open(path)
    try:
        async with running(indexer_of(feed, index)) as follower:
            await follower.wait_caught_up()
        return summaries(index)
    finally:
        index.close()
