"""Tells what runs write to all who follow their logs, pushed by the store; it keeps no queue for anybody.

    first follower ─▶ the run's channel: word of chunks, word of the run's end ─────────────────┐
                                                                                                ▼ look again
    follower: a place ──▶ the chunk behind it: kept by the hub, being read for others, or read now ──▶ its next lines

All who follow a log share one channel: one subscription, one listener to the run's end. Each chunk is read once for all
who are at the same place, and made into bytes once. A follower is a place in the log and nothing else: one that is slow
finds the chunk behind its place in the store, however long it took. Word of a chunk is only a hint. The end is told
when the run was seen to be over before a look that found nothing more.
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
from pyoco_server.services.streaming.log_channel import KEPT_WEIGHT, Kept, LogChannel
from pyoco_server.services.streaming.log_parts import PART_LINES, CutChunk, LineBatch
from pyoco_server.services.streaming.log_positions import position_of_last_lines, resume_position
from pyoco_server.services.streaming.watch_hub import PATIENCE_SEC, WatchHub
from pyoco_server.services.streaming.watcher import View

logger = logging.getLogger(__name__)

# After a look that failed; the return of the broker is told, other troubles are not.
AGAIN_SEC = 1.0
# What is told to one costs the gateway a part of a millisecond. Of a crowd each is told so much less often, and more at
# once, so that others are heard too.
REST_PER_FOLLOWER_SEC = 0.00025
SHORTEST_REST_SEC, LONGEST_REST_SEC = 0.002, 0.5


class Sign(Enum):
    """What a follower is told when there are no lines to tell."""

    ALIVE = "alive"
    OVER = "over"
    STOPPED = "stopped"


class LogFollower:
    """One who follows a log: a place in it. To be asked for what is next until it says that this was all."""

    def __init__(
        self,
        channel: LogChannel,
        place: LogPosition,
        only: LineFilter,
        *,
        heartbeat_sec: float,
        left: Callable[[LogFollower], None],
    ) -> None:
        self.place = place
        """Where it stands: behind what it was told last."""
        self._channel = channel
        self._only = only
        self._heartbeat_sec = heartbeat_sec
        self._left: Callable[[LogFollower], None] | None = left
        self._ended = False
        self._news = asyncio.Event()
        self._rested_at = 0.0
        self._beat_at = asyncio.get_running_loop().time() + heartbeat_sec

    @property
    def view(self) -> View:
        """The run as it was seen last."""
        return self._channel.seen

    def wake(self) -> None:
        self._news.set()

    def end(self) -> None:
        """No more than what was handed out already."""
        self._ended = True
        self._news.set()

    def close(self) -> None:
        """Free what this one has; may be called twice."""
        self._ended = True
        if self._left is not None:
            left, self._left = self._left, None
            left(self)

    async def next(self) -> LineBatch | Sign:
        """The next lines as soon as there are some, or a sign: of life, of the run's end, of the gateway's."""
        await self._rest()
        told = await self._next()
        now = asyncio.get_running_loop().time()
        self._rested_at = now + self._rest_sec
        self._beat_at = now + self._heartbeat_sec
        return told

    async def with_more(self, first: LineBatch) -> list[LineBatch]:
        """These lines and what there is behind them, as much as is told in one piece.

        One of a few is not kept waiting for what has to be read first. One of a crowd is: until it is told more again,
        it has a rest.
        """
        told, lines = [first], len(first.lines)
        while lines < PART_LINES and not self._ended:
            chunk = await self._soon()
            if chunk is None:
                break
            stretch = self._take(chunk)
            if stretch.lines:
                told.append(stretch)
                lines += len(stretch.lines)
        return told

    async def _soon(self) -> CutChunk | None:
        if self._rest_sec <= SHORTEST_REST_SEC:
            return self._channel.at_hand(self.place.sequence)
        try:
            return await self._channel.behind(self.place.sequence)
        except BrokerUnavailable:
            return None  # whoever asks for what is next hears of it

    @property
    def _rest_sec(self) -> float:
        return min(REST_PER_FOLLOWER_SEC * len(self._channel.followers), LONGEST_REST_SEC)

    async def _rest(self) -> None:
        rest_sec = self._rested_at - asyncio.get_running_loop().time()
        if rest_sec > SHORTEST_REST_SEC and not self._ended:
            await asyncio.sleep(rest_sec)

    async def _next(self) -> LineBatch | Sign:
        while not self._ended:
            self._news.clear()
            is_over = self._channel.is_over  # before the lines: an end that is seen has all of them
            try:
                chunk = await self._channel.behind(self.place.sequence)
            except BrokerUnavailable as away:
                logger.debug("a follower waits", extra={"run_id": self._channel.run_id, "error": away.detail})
                if not await self._heard_something(AGAIN_SEC):
                    return Sign.ALIVE
                continue
            if chunk is not None:
                await asyncio.sleep(0)  # what is kept is had without waiting: others have their turn between two parts
                stretch = self._take(chunk)
                if stretch.lines:
                    return stretch
                if self._is_due():  # lines that nobody chose, for long
                    return Sign.ALIVE
            elif is_over:
                return Sign.OVER
            elif not await self._heard_something():
                return Sign.ALIVE
        return Sign.STOPPED

    def _take(self, chunk: CutChunk) -> LineBatch:
        part, first = chunk.part_at(self.place.line), self.place.line
        self.place = LogPosition(max(first, part.following.line), part.following.sequence)
        return LineBatch(part, first, self._only)

    def _is_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._beat_at

    async def _heard_something(self, at_most_sec: float | None = None) -> bool:
        """Wait for news (or so long); False when it is time for a sign of life."""
        until = self._beat_at
        if at_most_sec is not None:
            until = min(until, asyncio.get_running_loop().time() + at_most_sec)
        try:
            async with asyncio.timeout_at(until):
                await self._news.wait()
        except TimeoutError:
            return not self._is_due()
        return True


class LogStreamHub:
    """The hub of a gateway for those who follow logs. It counts nobody: whoever opens a stream sees to its limits."""

    def __init__(self, stores: Stores, watches: WatchHub, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._watches = watches
        self._heartbeat_sec = config.http_watch_heartbeat_sec
        self._kept = Kept(KEPT_WEIGHT)
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
        """Somebody who is told what the run writes from a place on, or the last `tail` lines first.

        `RunNotFound` where the caller sees no such run.
        """
        channel = self._enter(run_id)
        try:
            place = await self._first_place(channel, tenant_filter, place, tail)
        except BaseException:
            self._leave(channel)
            raise
        follower = LogFollower(
            channel, place, only, heartbeat_sec=self._heartbeat_sec, left=lambda gone: self._leave(channel, gone)
        )
        channel.followers.add(follower)
        if channel.is_ended:
            follower.end()
        return follower

    async def _first_place(
        self, channel: LogChannel, tenant_filter: str | None, place: LogPosition, tail: int | None
    ) -> LogPosition:
        run_id, logs = channel.run_id, self._stores.run_logs
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                if not channel.has_begun:
                    async with channel.opening:
                        if not channel.has_begun:
                            await self._begin(channel)
                channel.check(tenant_filter)
                return await (
                    resume_position(logs, run_id, place) if tail is None else position_of_last_lines(logs, run_id, tail)
                )
        except TimeoutError as error:
            raise BrokerUnavailable("nats does not answer in time") from error

    async def _begin(self, channel: LogChannel) -> None:
        view, detach = await self._watches.attach(channel.run_id, channel)
        channel.leave.append(detach)
        try:
            if not view.is_terminal:
                channel.leave.append(await self._stores.run_logs.listen(channel.run_id, channel.look_again))
        except BaseException:
            channel.close()
            raise
        if channel.view is None or channel.view.version < view.version:
            channel.view = view
        channel.has_begun = True

    def _enter(self, run_id: RunId) -> LogChannel:
        channel = self._channels.get(run_id)
        if channel is None or channel.is_ended:
            channel = self._channels[run_id] = LogChannel(run_id, self._stores.run_logs, self._kept)
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
            self._kept.forget(channel.run_id)
            del self._channels[channel.run_id]
