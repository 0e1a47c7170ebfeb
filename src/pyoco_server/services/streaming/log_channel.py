"""One followed log: its followers, and a cache that reads each chunk once for all of them.

The cache has one size limit for all logs of the gateway.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, RunNotFound
from pyoco_server.services.streaming.log_parts import CutChunk
from pyoco_server.services.streaming.watch_channel import View
from pyoco_server.stores import LogStore

# The estimated bytes of cached chunks of all channels; the least recently used go first.
MAX_CACHED_BYTES = 64 * 1024 * 1024


class ChunkListener(Protocol):
    """A follower, as the channel sees it."""

    def wake(self) -> None: ...
    def end(self) -> None: ...


class ChunkCache:
    """The most recently used chunks of all logs, within a size limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._weight = 0
        self._chunks: OrderedDict[tuple[RunId, int], CutChunk] = OrderedDict()

    def get(self, run_id: RunId, after: int) -> CutChunk | None:
        chunk = self._chunks.get((run_id, after))
        if chunk is not None:
            self._chunks.move_to_end((run_id, after))
        return chunk

    def put(self, run_id: RunId, after: int, chunk: CutChunk) -> None:
        if (run_id, after) in self._chunks:
            return
        self._chunks[run_id, after] = chunk
        self._weight += chunk.weight
        while self._weight > self._max_bytes and len(self._chunks) > 1:
            self._weight -= self._chunks.popitem(last=False)[1].weight

    def forget(self, run_id: RunId) -> None:
        for key in [key for key in self._chunks if key[0] == run_id]:
            self._weight -= self._chunks.pop(key).weight


class LogChannel:
    """One followed log. It listens to the watch hub for the end of the run."""

    def __init__(self, run_id: RunId, logs: LogStore, cache: ChunkCache) -> None:
        self.run_id = run_id
        self.users = 0
        self.followers: set[ChunkListener] = set()
        self.opening = asyncio.Lock()
        self.view: View | None = None
        self.has_begun = False
        self.is_ended = False
        self.leave: list[Callable[[], None]] = []
        self._logs = logs
        self._cache = cache
        self._notifications = 0
        self._at_end: set[int] = set()
        self._reading: dict[int, asyncio.Future[CutChunk | BrokerUnavailable | None]] = {}

    @property
    def is_over(self) -> bool:
        return self.view is not None and self.view.is_terminal

    @property
    def seen(self) -> View:
        if self.view is None:
            raise RunNotFound(run_id=self.run_id)
        return self.view

    def check(self, tenant_filter: str | None) -> None:
        """Raise `RunNotFound` for a run of another tenant."""
        if tenant_filter not in (None, self.seen.plain.get("tenant_id")):
            raise RunNotFound(run_id=self.run_id)

    def notify(self) -> None:
        """There may be new chunks: wake all followers."""
        self._notifications += 1
        self._at_end.clear()
        for follower in self.followers:
            follower.wake()

    def offer(self, view: View) -> None:
        self.view = view
        if view.is_terminal:
            self.notify()

    def beat(self, view: View, *, away: bool) -> None:
        self.notify()

    def end(self) -> None:
        self.is_ended = True
        for follower in self.followers:
            follower.end()

    def close(self) -> None:
        for leave in self.leave:
            leave()
        self.leave.clear()

    def cached(self, after: int) -> CutChunk | None:
        """The chunk behind a sequence, if it is cached."""
        return self._cache.get(self.run_id, after)

    async def chunk_after(self, after: int) -> CutChunk | None:
        """The chunk behind a sequence; None when a read that began after this call has found none.

        Concurrent calls for the same chunk share one read and its failure.
        """
        while True:
            cached = self._cache.get(self.run_id, after)
            if cached is not None or after in self._at_end:
                return cached
            reading = self._reading.get(after)
            if reading is None:
                return await self._read(after)
            found = await asyncio.shield(reading)
            if isinstance(found, BrokerUnavailable):
                raise BrokerUnavailable(found.detail) from found
            if found is not None:
                return found

    async def _read(self, after: int) -> CutChunk | None:
        result: asyncio.Future[CutChunk | BrokerUnavailable | None] = asyncio.get_running_loop().create_future()
        self._reading[after] = result
        notifications, found = self._notifications, None
        try:
            stored = await self._logs.next(self.run_id, after=after)
            if stored is not None:
                found = CutChunk(stored, after)
                if self.users:
                    self._cache.put(self.run_id, after, found)
            elif self._notifications == notifications:
                self._at_end.add(after)
        except BrokerUnavailable as error:
            result.set_result(error)
            raise
        finally:
            del self._reading[after]
            if not result.done():
                result.set_result(found)  # after a cancel None: the next waiter reads again
        return found
