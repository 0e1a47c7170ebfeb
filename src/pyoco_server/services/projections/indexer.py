"""Keeps this gateway's index of runs in step with the snapshot bucket, for ever; it never answers a question itself.

    start ─▶ same stream as the index knows? ──no──▶ forget everything ─┐
      ▲            └──yes: go on behind its position ──────────────────┤
      │                                                                ▼
      │                     take in batch after batch, in one thread beside the event loop
      └─ after a pause ─── on trouble, on a recreated bucket, on a damaged index ◀── looked for every few seconds

A bucket that was deleted and made again has sequences that look like ours: going on behind our position would yield
half a list without an error. So the stream's time of creation, its length and the key at our position have to agree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pyoco_server.domain.queries.query import IndexPosition
from pyoco_server.errors import BrokerUnavailable, InternalError
from pyoco_server.ports import Clock, RunIndex
from pyoco_server.stores import Feed

VERIFY_EVERY_SEC = 5.0
FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 5.0
# How long changes may gather before they are taken in together; nobody sees it, because lists do not wait for it.
GATHER_SEC = 0.02
SMALL_BATCH = 100

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The follower is in trouble since then; until it has caught up again, lists may lack what is new."""

    since: float
    error: str


class Indexer:
    """Feeds the index. `run` is its whole life; everything else may be asked at any time, on the same event loop."""

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
        self._sequence = 0
        self._stream = ""
        self._target = 0
        self._nothing_before = 0
        self._moved = asyncio.Event()
        self._waiting = 0
        self._awaited = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._hurried = asyncio.Event()
        self.failing: Failing | None = None
        self.failures = 0
        """How often it had to start again, for the metrics."""

    @property
    def sequence(self) -> int:
        """The last sequence of the snapshot stream that is in the index."""
        return self._sequence

    @property
    def stream(self) -> str:
        """Which bucket is followed: when it was created."""
        return self._stream

    async def last_stored(self) -> int:
        """The last sequence of the snapshot stream, whether it is in the index or not."""
        return (await self._feed.snapshot_stream())[1]

    @property
    def is_caught_up(self) -> bool:
        """Whether the index has everything that was stored when the follower last started; not while it is failing."""
        return self._caught_up.is_set()

    async def caught_up(self) -> None:
        """Wait until it has."""
        await self._caught_up.wait()

    async def wait_caught_up(self, timeout_sec: float) -> bool:
        """Wait until it has; False when that took too long."""
        if self._caught_up.is_set():
            return True
        try:
            async with asyncio.timeout(timeout_sec):
                await self._caught_up.wait()
        except TimeoutError:
            return False
        return True

    async def reached(self, sequence: int, timeout_sec: float) -> bool:
        """Wait until the index has this sequence; False when that took too long."""
        return await self._until(lambda: self._sequence >= sequence, timeout_sec)

    async def wait_for_change(self, after_sequence: int, timeout_sec: float) -> bool:
        """Wait until something behind this sequence was taken in; False when that took too long.

        An index that begins anew meanwhile is a change too: what follows has sequences that say nothing to the asker.
        Nobody is hurried by it: somebody always waits so, and changes would never gather.
        """
        before = self._sequence
        return await self._moved_until(lambda: self._sequence > after_sequence or self._sequence < before, timeout_sec)

    def look_now(self) -> None:
        """Something is on its way that somebody waits for: let nothing more gather before it."""
        self._awaited.set()

    async def behind(self) -> int:
        """How many changes of the bucket are not in the index yet, at most: one that was replaced is counted too."""
        return max(0, await self.last_stored() - max(self._sequence, self._nothing_before))

    async def run(self) -> None:
        """Follow until cancelled. The thread is waited for at the end: the index may be closed when this returns."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="run-index") as writer:
            while True:
                try:
                    await self._follow(writer)
                except Exception as trouble:  # noqa: BLE001 — one of the three outer loops: log, count, go on
                    self._note(trouble)
                await self._pause()

    def hurry(self) -> None:
        """The broker is back: do not sit out a pause that has grown while it was away."""
        self._pause_sec = self._first_pause_sec
        self._hurried.set()

    async def _until(self, is_so: Callable[[], bool], timeout_sec: float) -> bool:
        """Wait for somebody who is in a hurry."""
        if is_so():
            return True
        self._waiting += 1
        self._awaited.set()
        try:
            return await self._moved_until(is_so, timeout_sec)
        finally:
            self._waiting -= 1

    async def _moved_until(self, is_so: Callable[[], bool], timeout_sec: float) -> bool:
        try:
            async with asyncio.timeout(timeout_sec):
                while not is_so():
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._pause_sec):
                await self._hurried.wait()
        except TimeoutError:
            return
        finally:
            self._hurried.clear()

    async def _follow(self, writer: Executor) -> None:
        self._caught_up.clear()
        created, last = await self._feed.snapshot_stream()
        known = await _in(writer, self._index.position)
        if known is None or not await self._is_of(known, created, last):
            if known is not None:
                logger.warning("the index is of another bucket and is built again", extra={"position": known.sequence})
            await _in(writer, partial(self._index.reset, lived_after=last))
            known = IndexPosition(stream_created=created, sequence=0, last_key="")
        self._stream = created
        self._target = last
        self._nothing_before = 0
        self._move_to(known.sequence)
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(self._take_in(writer, known))
            await self._until_it_is_another(writer, created)
            taking.cancel()

    async def _take_in(self, writer: Executor, known: IndexPosition) -> None:
        batches = self._feed.snapshots(after=known.sequence)
        try:
            async for batch in batches:
                if not batch:
                    self._nothing_before = self._target
                    self._catch_up()  # nothing is pending: what we waited for was replaced or expired meanwhile
                    continue
                last = max(batch, key=lambda seen: seen.sequence)
                position = IndexPosition(
                    stream_created=known.stream_created, sequence=last.sequence, last_key=last.run_id
                )
                await _in(writer, partial(self._index.apply, batch, position))
                self._move_to(last.sequence)
                if len(batch) < SMALL_BATCH:
                    await self._let_some_gather()
        finally:
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()
        raise InternalError("the feed of snapshots ended")

    async def _let_some_gather(self) -> None:
        """A row by itself costs five times what it costs among fifty: wait a moment, unless somebody waits for us."""
        if self._waiting:
            return
        try:
            async with asyncio.timeout(GATHER_SEC):
                await self._awaited.wait()
        except TimeoutError:
            return
        finally:
            self._awaited.clear()

    async def _until_it_is_another(self, writer: Executor, created: str) -> None:
        """Return when the bucket is not the one we follow any more, or the index has lost what it had."""
        while True:
            await asyncio.sleep(self._verify_every_sec)
            reached = self._sequence  # before the question: meanwhile more may come in than the answer knows of
            now_created, last = await self._feed.snapshot_stream()
            if now_created != created or last < reached:
                return
            if self._sequence > 0 and await _in(writer, self._index.position) is None:
                logger.warning("the index has lost its rows and is built again")
                return

    async def _is_of(self, known: IndexPosition, created: str, last: int) -> bool:
        if known.stream_created != created or known.sequence > last:
            return False
        key = await self._feed.snapshot_key_at(known.sequence)
        return key is None or key == known.last_key

    def _move_to(self, sequence: int) -> None:
        self._sequence = sequence
        self._moved.set()
        self._moved = asyncio.Event()
        if sequence >= self._target:
            self._catch_up()

    def _catch_up(self) -> None:
        if self.failing is not None:
            logger.info("the index follows again", extra={"seconds": self._clock.now() - self.failing.since})
        self.failing = None
        self._pause_sec = self._first_pause_sec
        self._caught_up.set()

    def _note(self, trouble: Exception) -> None:
        self._caught_up.clear()
        self.failures += 1
        self._pause_sec = min(self._pause_sec * 2, LONGEST_PAUSE_SEC)
        cause = _first(trouble)
        since = self.failing.since if self.failing else self._clock.now()
        self.failing = Failing(since=since, error=f"{type(cause).__name__}: {cause}")
        facts = {"failures": self.failures, "pause_sec": self._pause_sec}
        if isinstance(cause, BrokerUnavailable):
            logger.warning("the index cannot follow", extra=facts | {"reason": cause.detail})
        else:
            logger.error("the index cannot follow", extra=facts, exc_info=trouble)


async def _in(writer: Executor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(writer, work)


def _first(trouble: BaseException) -> BaseException:
    while isinstance(trouble, BaseExceptionGroup):
        trouble = trouble.exceptions[0]
    return trouble
