"""Keeps this gateway's run index in step with the snapshot bucket. It answers no queries.

    start ─▶ does the index belong to this stream? ──no──▶ reset it ─────────┐
      ▲            └──yes: continue behind its position ─────────────────────┤
      │                                                                      ▼
      │                              apply batch after batch in a writer thread
      └─ after a pause ─── failure, recreated bucket or damaged index ◀── checked every few seconds

A bucket that was deleted and recreated reuses sequences: continuing behind the old position would yield half a list
without an error. So the creation time of the stream, its length and the key at the position have to agree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pyoco_server.domain.queries.query import IndexPosition, SnapshotSeen
from pyoco_server.domain.queries.rows import Change, Removed, change_of
from pyoco_server.errors import BrokerUnavailable, InternalError
from pyoco_server.ports import Clock, RunIndex
from pyoco_server.services.loops import wait_event
from pyoco_server.stores import Feed

VERIFY_EVERY_SEC = 5.0
FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 5.0
# How long changes may gather before they are applied together. Lists do not wait for it: they end the pause.
GATHER_SEC = 0.02
SMALL_BATCH = 100

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Indexer:
    """Feeds the index while `run` runs. Everything else may be called at any time on the same event loop."""

    def __init__(
        self,
        feed: Feed,
        index: RunIndex,
        clock: Clock,
        *,
        verify_every_sec: float = VERIFY_EVERY_SEC,
        first_pause_sec: float = FIRST_PAUSE_SEC,
    ) -> None:
        self._feed = feed
        self._index = index
        self._clock = clock
        self._verify_every_sec = verify_every_sec
        self._first_pause_sec = first_pause_sec
        self._pause_sec = first_pause_sec
        self.sequence = 0
        """The last sequence of the snapshot stream that is in the index."""
        self.stream = ""
        """The creation time of the bucket, which identifies it."""
        self._target = 0
        self._nothing_before = 0
        self._moved = asyncio.Event()
        self._waiting = 0
        self._awaited = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._hurried = asyncio.Event()
        self._listeners: list[Callable[[Sequence[SnapshotSeen]], None]] = []
        self.failing_since: float | None = None
        """Until the indexer has caught up again, lists may lack new changes."""
        self.failures = 0
        """The number of restarts after a failure, for the metrics."""

    def on_indexed(self, listener: Callable[[Sequence[SnapshotSeen]], None]) -> None:
        """Call the listener with every batch of changes once it is in the index, also while an index is filled."""
        self._listeners.append(listener)

    async def last_stored(self) -> int:
        """The last sequence of the snapshot stream, indexed or not."""
        return (await self._feed.snapshot_stream())[1]

    @property
    def is_caught_up(self) -> bool:
        """Whether the index has everything that was stored when the indexer last started; False while it fails."""
        return self._caught_up.is_set()

    async def wait_caught_up(self, timeout_sec: float | None = None) -> bool:
        """Wait until `is_caught_up`; False on a timeout."""
        return await wait_event(self._caught_up, timeout_sec)

    async def reached(self, sequence: int, timeout_sec: float) -> bool:
        """Wait until the index has this sequence, and end the pause for gathering; False on a timeout."""
        if self.sequence >= sequence:
            return True
        self._waiting += 1
        self._awaited.set()
        try:
            return await self._moved_until(lambda: self.sequence >= sequence, timeout_sec)
        finally:
            self._waiting -= 1

    async def wait_for_change(self, after_sequence: int, timeout_sec: float) -> bool:
        """Wait until something behind this sequence is indexed; False on a timeout.

        A reset of the index counts as a change, because the sequences after it are not comparable. Waiting here does
        not end the pause for gathering: there is always a waiter, and changes would never gather.
        """
        before = self.sequence
        return await self._moved_until(lambda: self.sequence > after_sequence or self.sequence < before, timeout_sec)

    def look_now(self) -> None:
        """End the pause for gathering: a request waits for a change that is on its way."""
        self._awaited.set()

    async def behind(self) -> int:
        """An upper bound of the changes that are not indexed yet; replaced ones are counted too."""
        return max(0, await self.last_stored() - max(self.sequence, self._nothing_before))

    async def run(self) -> None:
        """Follow until cancelled. Joins the writer thread, so that the index may be closed when this returns."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="run-index") as writer:
            while True:
                try:
                    await self._follow(writer)
                except Exception as failure:  # noqa: BLE001 — outer loop: log, count, retry
                    self._record_failure(failure)
                await wait_event(self._hurried, self._pause_sec)
                self._hurried.clear()

    def hurry(self) -> None:
        """Retry now: the broker is back, and the pause has grown meanwhile."""
        self._pause_sec = self._first_pause_sec
        self._hurried.set()

    async def _moved_until(self, is_so: Callable[[], bool], timeout_sec: float) -> bool:
        try:
            async with asyncio.timeout(timeout_sec):
                while not is_so():
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def _follow(self, writer: Executor) -> None:
        self._caught_up.clear()
        created, last = await self._feed.snapshot_stream()
        known = await _in(writer, self._index.position)
        if known is None or not await self._belongs_to(known, created, last):
            if known is not None:
                logger.warning("index belongs to another bucket, rebuilding it", extra={"position": known.sequence})
            await _in(writer, partial(self._index.reset, count_after=last))
            known = IndexPosition(stream_created=created, sequence=0, last_key="")
        self.stream = created
        self._target = last
        self._nothing_before = 0
        self._move_to(known.sequence)
        async with asyncio.TaskGroup() as tasks:
            applying = tasks.create_task(self._apply_batches(writer, known))
            await self._watch_for_replacement(writer, created)
            applying.cancel()

    async def _apply_batches(self, writer: Executor, known: IndexPosition) -> None:
        async with aclosing(self._feed.snapshots(after=known.sequence)) as batches:
            async for batch in batches:
                if not batch:
                    self._nothing_before = self._target
                    self._catch_up()  # nothing is pending: the target was replaced or has expired meanwhile
                    continue
                last = max(batch, key=lambda seen: seen.sequence)
                position = replace(known, sequence=last.sequence, last_key=last.run_id)
                await _in(writer, partial(self._apply, batch, position))
                self._move_to(last.sequence)
                for listener in self._listeners:
                    listener(batch)
                if len(batch) < SMALL_BATCH and not self._waiting:
                    # A row by itself costs five times what it costs in a batch of fifty.
                    await wait_event(self._awaited, GATHER_SEC)
                    self._awaited.clear()
        raise InternalError("the snapshot feed has ended")

    def _apply(self, batch: Sequence[SnapshotSeen], position: IndexPosition) -> None:
        self._index.apply([_readable(seen) for seen in batch], position)

    async def _watch_for_replacement(self, writer: Executor, created: str) -> None:
        """Return when the bucket was replaced or the index is damaged."""
        while True:
            await asyncio.sleep(self._verify_every_sec)
            reached = self.sequence  # read before the request: more may be indexed meanwhile than the reply covers
            now_created, last = await self._feed.snapshot_stream()
            if now_created != created or last < reached:
                return
            if self.sequence > 0 and await _in(writer, self._index.position) is None:
                logger.warning("index has lost its rows, rebuilding it")
                return

    async def _belongs_to(self, known: IndexPosition, created: str, last: int) -> bool:
        if known.stream_created != created or known.sequence > last:
            return False
        key = await self._feed.snapshot_key_at(known.sequence)
        return key is None or key == known.last_key

    def _move_to(self, sequence: int) -> None:
        self.sequence = sequence
        self._moved.set()
        self._moved = asyncio.Event()
        if sequence >= self._target:
            self._catch_up()

    def _catch_up(self) -> None:
        if self.failing_since is not None:
            logger.info("index caught up again", extra={"seconds": self._clock.now() - self.failing_since})
        self.failing_since = None
        self._pause_sec = self._first_pause_sec
        self._caught_up.set()

    def _record_failure(self, failure: Exception) -> None:
        self._caught_up.clear()
        self.failures += 1
        self._pause_sec = min(self._pause_sec * 2, LONGEST_PAUSE_SEC)
        cause: BaseException = failure
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if self.failing_since is None:
            self.failing_since = self._clock.now()
        facts = {"failures": self.failures, "pause_sec": self._pause_sec}
        if isinstance(cause, BrokerUnavailable):
            logger.warning("indexer failed, retrying", extra=facts | {"reason": cause.detail})
        else:
            logger.error("indexer failed, retrying", extra=facts, exc_info=failure)


async def _in(writer: Executor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(writer, work)


def _readable(seen: SnapshotSeen) -> Change:
    """The change; one that cannot be read counts as removed, because a lookup by id does not find it either."""
    try:
        return change_of(seen)
    except ValueError as error:
        facts = {"run_id": seen.run_id, "sequence": seen.sequence, "reason": str(error)}
        logger.warning("snapshot cannot be read, not listing it", extra=facts)
        return Removed(run_id=seen.run_id, revision=seen.sequence)
