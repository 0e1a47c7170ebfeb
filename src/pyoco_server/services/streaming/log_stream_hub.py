"""Streams log lines to followers, pushed by the log store. It keeps no queue per follower.

    first follower ─▶ channel of the run: chunk notifications, end of the run ─────────────────────┐
                                                                                                   ▼ notify
    follower: a position ──▶ the chunk behind it: cached, being read for others, or read now ──▶ its next lines

All followers of a log share one channel: one subscription, one listener to the end of the run. Each chunk is read and
encoded once. A follower is only a position in the log: a slow one finds the chunk behind its position in the store,
however long it took. A chunk notification is only a hint. The stream ends when the run was terminal before a read that
found no more chunks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import ALL_LINES, LineFilter
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.context import Stores
from pyoco_server.services.streaming.log_channel import MAX_CACHED_BYTES, ChunkCache, LogChannel
from pyoco_server.services.streaming.log_parts import PART_LINES, CutChunk, LineBatch
from pyoco_server.services.streaming.watch_channel import View
from pyoco_server.services.streaming.watch_hub import OPEN_TIMEOUT_SEC, WatchHub
from pyoco_server.stores.run_logs import LogStore

logger = logging.getLogger(__name__)

# The pause after a failed read; a reconnect ends it, other recoveries do not.
RETRY_SEC = 1.0
# Each send costs the gateway a fraction of a millisecond. With many followers each gets more lines less often, so that
# other requests are served in between.
REST_PER_FOLLOWER_SEC = 0.00025
SHORTEST_REST_SEC, LONGEST_REST_SEC = 0.002, 0.5
# The last lines of a log are searched within so many bytes from its end, however many lines are requested.
TAIL_BYTES = 4 * 1024 * 1024


class Sign(Enum):
    """What a follower gets when there are no lines."""

    ALIVE = "alive"
    OVER = "over"
    STOPPED = "stopped"


class LogFollower:
    """A position in a log. Call `next` until it returns OVER or STOPPED."""

    def __init__(
        self,
        channel: LogChannel,
        place: LogPosition,
        only: LineFilter,
        *,
        heartbeat_sec: float,
        on_close: Callable[[LogFollower], None],
    ) -> None:
        self.place = place
        """Behind the last lines it returned."""
        self._channel = channel
        self._only = only
        self._heartbeat_sec = heartbeat_sec
        self._on_close: Callable[[LogFollower], None] | None = on_close
        self._ended = False
        self._wakeup = asyncio.Event()
        self._rested_at = 0.0
        self._beat_at = asyncio.get_running_loop().time() + heartbeat_sec

    @property
    def view(self) -> View:
        """The last view of the run."""
        return self._channel.seen

    def wake(self) -> None:
        self._wakeup.set()

    def end(self) -> None:
        """End without further lines."""
        self._ended = True
        self._wakeup.set()

    def close(self) -> None:
        """Release the follower; may be called twice."""
        self._ended = True
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            on_close(self)

    async def next(self) -> LineBatch | Sign:
        """The next lines as soon as there are some, or a sign: heartbeat, end of the run, shutdown of the gateway."""
        await self._rest()
        following = await self._next()
        now = asyncio.get_running_loop().time()
        self._rested_at = now + self._rest_sec
        self._beat_at = now + self._heartbeat_sec
        return following

    async def with_more(self, first: LineBatch) -> list[LineBatch]:
        """These lines and those behind them, as much as is sent at once.

        With few followers only cached chunks are added, without waiting. With many, chunks are read for it too,
        because the follower pauses before its next lines.
        """
        batches, lines = [first], len(first.lines)
        while lines < PART_LINES and not self._ended:
            chunk = await self._next_chunk()
            if chunk is None:
                break
            batch = self._take(chunk)
            if batch.lines:
                batches.append(batch)
                lines += len(batch.lines)
        return batches

    async def _next_chunk(self) -> CutChunk | None:
        if self._rest_sec <= SHORTEST_REST_SEC:
            return self._channel.cached(self.place.sequence)
        try:
            return await self._channel.chunk_after(self.place.sequence)
        except BrokerUnavailable:
            return None  # `next` handles it

    @property
    def _rest_sec(self) -> float:
        return min(REST_PER_FOLLOWER_SEC * len(self._channel.followers), LONGEST_REST_SEC)

    async def _rest(self) -> None:
        rest_sec = self._rested_at - asyncio.get_running_loop().time()
        if rest_sec > SHORTEST_REST_SEC and not self._ended:
            await asyncio.sleep(rest_sec)

    async def _next(self) -> LineBatch | Sign:
        while not self._ended:
            self._wakeup.clear()
            is_over = self._channel.is_over  # before the read: a run that is over has written all its lines
            try:
                chunk = await self._channel.chunk_after(self.place.sequence)
            except BrokerUnavailable as away:
                logger.debug("log read failed, retrying", extra={"run_id": self._channel.run_id, "error": away.detail})
                if not await self._wait_for_wakeup(RETRY_SEC):
                    return Sign.ALIVE
                continue
            if chunk is not None:
                await asyncio.sleep(0)  # a cached chunk needs no wait: let other tasks run between two parts
                batch = self._take(chunk)
                if batch.lines:
                    return batch
                if self._is_due():  # the filter has dropped all lines for long
                    return Sign.ALIVE
            elif is_over:
                return Sign.OVER
            elif not await self._wait_for_wakeup():
                return Sign.ALIVE
        return Sign.STOPPED

    def _take(self, chunk: CutChunk) -> LineBatch:
        part, first = chunk.part_at(self.place.line), self.place.line
        self.place = LogPosition(max(first, part.following.line), part.following.sequence)
        return LineBatch(part, first, self._only)

    def _is_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._beat_at

    async def _wait_for_wakeup(self, at_most_sec: float | None = None) -> bool:
        """Wait for a wakeup (or so long); False when a heartbeat is due."""
        until = self._beat_at
        if at_most_sec is not None:
            until = min(until, asyncio.get_running_loop().time() + at_most_sec)
        try:
            async with asyncio.timeout_at(until):
                await self._wakeup.wait()
        except TimeoutError:
            return not self._is_due()
        return True


class LogStreamHub:
    """The log streams of a gateway. The limit on streams is the caller's (`WatchHub.enter`)."""

    def __init__(self, stores: Stores, watches: WatchHub, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._watches = watches
        self._heartbeat_sec = config.http_watch_heartbeat_sec
        self._cache = ChunkCache(MAX_CACHED_BYTES)
        self._channels: dict[RunId, LogChannel] = {}

    async def follow(
        self,
        run_id: RunId,
        *,
        tenant_filter: str | None,
        place: LogPosition = START,
        tail: int | None = None,
        only: LineFilter = ALL_LINES,
    ) -> LogFollower:
        """A follower that starts at a position, or `tail` lines before the end.

        Raises `RunNotFound` for an unknown run and for one of another tenant.
        """
        channel = self._enter(run_id)
        try:
            place = await self._first_position(channel, tenant_filter, place, tail)
        except BaseException:
            self._leave(channel)
            raise
        follower = LogFollower(
            channel,
            place,
            only,
            heartbeat_sec=self._heartbeat_sec,
            on_close=lambda closed: self._leave(channel, closed),
        )
        channel.followers.add(follower)
        if channel.is_ended:
            follower.end()
        return follower

    async def _first_position(
        self, channel: LogChannel, tenant_filter: str | None, place: LogPosition, tail: int | None
    ) -> LogPosition:
        run_id, logs = channel.run_id, self._stores.run_logs
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_SEC):
                if not channel.has_begun:
                    async with channel.opening:
                        if not channel.has_begun:
                            await self._open_channel(channel)
                channel.check(tenant_filter)
                if tail is None:
                    return await _resume_position(logs, run_id, place)
                return await _position_of_last_lines(logs, run_id, tail)
        except TimeoutError as error:
            raise BrokerUnavailable("nats does not answer in time") from error

    async def _open_channel(self, channel: LogChannel) -> None:
        view, detach = await self._watches.attach(channel.run_id, channel)
        channel.leave.append(detach)
        try:
            if not view.is_terminal:
                channel.leave.append(await self._stores.run_logs.listen(channel.run_id, channel.notify))
        except BaseException:
            channel.close()
            raise
        if channel.view is None or channel.view.version < view.version:
            channel.view = view
        channel.has_begun = True

    def _enter(self, run_id: RunId) -> LogChannel:
        channel = self._channels.get(run_id)
        if channel is None or channel.is_ended:
            channel = self._channels[run_id] = LogChannel(run_id, self._stores.run_logs, self._cache)
        channel.users += 1
        return channel

    def _leave(self, channel: LogChannel, follower: LogFollower | None = None) -> None:
        if follower is not None:
            channel.followers.discard(follower)
        channel.users -= 1
        if channel.users:
            return
        channel.close()
        if self._channels.get(channel.run_id) is channel:
            self._cache.forget(channel.run_id)
            del self._channels[channel.run_id]


async def _resume_position(logs: LogStore, run_id: RunId, place: LogPosition) -> LogPosition:
    """The position with a sequence of this log; 0 when the given one is not, or no longer, in this log."""
    if place.sequence == 0:
        return place
    stored = await logs.next(run_id, after=place.sequence)
    if stored is not None:
        return place if stored.chunk.first_line <= place.line else LogPosition(place.line, 0)
    last = await logs.last(run_id)
    if last is None or last.chunk.next_line > place.line:
        return LogPosition(place.line, 0)
    return LogPosition(place.line, last.sequence)


async def _position_of_last_lines(logs: LogStore, run_id: RunId, count: int) -> LogPosition:
    """The position before the last `count` lines; chunks are read backwards from the end."""
    stored = await logs.last(run_id)
    if stored is None:
        return START
    first, size = max(1, stored.chunk.next_line - count), 0
    while stored.chunk.first_line > first and stored.chunk.previous and size < TAIL_BYTES:
        size += stored.chunk.size_bytes
        before = await logs.at(run_id, stored.chunk.previous)
        if before is None:
            break
        stored = before
    return LogPosition(max(first, stored.chunk.first_line), stored.chunk.previous)
