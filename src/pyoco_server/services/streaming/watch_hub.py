"""Streams run changes to watchers, pushed by the event log instead of polling.

    first watcher ─▶ snapshot, subscribe, read the log behind the snapshot ─▶ view ──offer──▶ watchers of the run
                          │                                                    ▲
                          └─ commit notification ─▶ read the log, fold ────────┘   (a burst is one view)
    ticker ──────────────────▶ load the snapshot again: heartbeat, missed changes, removal

All watchers of a run share one channel: one subscription, one fold, one encoding. A commit notification is only a hint.
Views come from the log and do not wait for the writer of the snapshot, which follows the append. Only a terminal view
waits until the snapshot shows it, because a client that sees the end reads the run next and must not see less.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.snapshot import bounded_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, PyocoError, RunNotFound, TooManyWatchers
from pyoco_server.services.context import Stores
from pyoco_server.services.streaming.watch_channel import OpenStream, View, ViewListener, WatchChannel, Watcher
from pyoco_server.stores import CommitHeard, EventLog, LoadedSnapshot

logger = logging.getLogger(__name__)

# The shortest time between two views of a busy run; longer when a view takes long to make.
GATHER_SEC = 0.025
REST_PER_WORK = 4.0
LONGEST_REST_SEC = 0.25
# Concurrent reads: after a reconnect every channel needs one.
MAX_READS = 32
TICK_SEC = 1.0
# Watchers that open at once wait for the first of them to open the channel; with a broker that hangs, this long.
OPEN_TIMEOUT_SEC = 4.0


class WatchHub:
    """The watch streams of a gateway. Watchers are opened while `run` runs."""

    def __init__(self, stores: Stores, live: EventLog, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._live = live
        self._max_watchers = config.http_max_watchers
        self._max_bytes = config.max_run_snapshot_bytes
        self._heartbeat_sec = config.http_watch_heartbeat_sec
        self._channels: dict[RunId, WatchChannel] = {}
        self._streams: set[OpenStream] = set()
        self._reads = asyncio.Semaphore(MAX_READS)
        self._group: asyncio.TaskGroup | None = None
        self._closed = False
        self.open_count = 0
        """The number of open streams, for the limit and the metrics."""

    async def run(self) -> None:
        """Tick until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            while True:
                await asyncio.sleep(min(TICK_SEC, self._heartbeat_sec / 2))
                await self.tick()

    async def open(
        self,
        run_id: RunId,
        *,
        tenant_filter: str | None,
        after: int = 0,
        since: float | None = None,
        timeout_sec: float | None = None,
    ) -> Watcher | None:
        """A watcher that starts behind the version `after`; None when the run has ended and there is nothing newer.

        `since` holds back views that are not newer.
        """
        channel = self._enter(run_id)
        try:
            view = await self._current_view(channel, tenant_filter)
            after = after if after <= view.version else 0  # an unknown version counts as none
            if view.is_terminal and (after == view.version or (since is not None and view.updated_at <= since)):
                self._leave(channel)
                return None
        except BaseException:
            self._leave(channel)
            raise
        watcher = Watcher(after=after, since=since, on_close=lambda closed: self._leave(channel, closed))
        channel.watchers.add(watcher)
        watcher.offer(view)
        if timeout_sec is not None:
            watcher.end_in(timeout_sec)
        if self._closed:
            watcher.end()
        return watcher

    async def attach(self, run_id: RunId, listener: ViewListener) -> tuple[View, Callable[[], None]]:
        """Feed a listener that does not count as a stream; returns the present view and a function that detaches it."""
        self._check_open()
        channel = self._acquire(run_id)
        try:
            view = await self._current_view(channel, None)
        except BaseException:
            self._release(channel)
            raise
        channel.watchers.add(listener)

        def detach() -> None:
            if listener in channel.watchers:
                channel.watchers.discard(listener)
                self._release(channel)

        return view, detach

    def close(self) -> None:
        """End every stream and open no more: the gateway shuts down."""
        self._closed = True
        for channel in self._channels.values():
            _end(channel.watchers)
        _end(self._streams)

    def enter(self, stream: OpenStream) -> None:
        """Count a stream that has no channel, and end it with the others."""
        self._check_room()
        self._streams.add(stream)
        self.open_count += 1

    def leave(self, stream: OpenStream) -> None:
        """Forget the stream; may be called twice."""
        if stream in self._streams:
            self._streams.remove(stream)
            self.open_count -= 1

    async def tick(self) -> None:
        """Send due heartbeats after comparing with the snapshot, and repeat reads that failed."""
        now = self._stores.clock.monotonic()
        for channel in self._channels.values():
            if channel.behind and channel.view is not None:
                self._schedule_read(channel)
        due = iter([channel for channel in self._channels.values() if channel.view and channel.beat_at <= now])
        while batch := list(islice(due, MAX_READS)):
            await asyncio.gather(*(_log_failure(channel, self._heartbeat(channel)) for channel in batch))

    # --- channels ---------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerUnavailable("the gateway is shutting down; try another gateway, or this one again in a moment")

    def _check_room(self) -> None:
        self._check_open()
        if self.open_count >= self._max_watchers:
            raise TooManyWatchers(f"this gateway has reached its limit of {self.open_count} open streams")

    def _enter(self, run_id: RunId) -> WatchChannel:
        self._check_room()
        self.open_count += 1
        return self._acquire(run_id)

    def _leave(self, channel: WatchChannel, watcher: Watcher | None = None) -> None:
        if watcher is not None:
            channel.watchers.discard(watcher)
        self.open_count -= 1
        self._release(channel)

    def _acquire(self, run_id: RunId) -> WatchChannel:
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = WatchChannel(run_id)
        channel.users += 1
        return channel

    def _release(self, channel: WatchChannel) -> None:
        channel.users -= 1
        if not channel.users:
            self._drop(channel)

    def _drop(self, channel: WatchChannel) -> None:
        channel.close()
        if self._channels.get(channel.run_id) is channel:
            del self._channels[channel.run_id]

    async def _current_view(self, channel: WatchChannel, tenant_filter: str | None) -> View:
        """The run as it is now, also on an open channel: the client may have seen more of it at another gateway."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_SEC):
                async with channel.opening:
                    execution = channel.execution or await self._open_channel(channel)
                if tenant_filter not in (None, execution.request.tenant_id):
                    raise RunNotFound(run_id=channel.run_id)
                if not execution.status.is_terminal:
                    # Commits from before the subscription, and those that the snapshot does not show yet.
                    await self._read_shared(channel)
        except TimeoutError as error:
            raise BrokerUnavailable("nats does not answer in time") from error
        if channel.behind:
            self._schedule_read(channel)
        if channel.view is None or channel.view.version < channel.version:
            return self._show(channel)
        return channel.view

    async def _read_shared(self, channel: WatchChannel) -> None:
        """Wait for a read of the log that began after this call; concurrent calls share one read."""
        channel.joined += 1
        number = channel.joined
        async with channel.joining:
            if channel.read_for < number:
                joined = channel.joined
                await self._read_log(channel)
                channel.read_for = joined

    async def _open_channel(self, channel: WatchChannel) -> Execution:
        loaded = await self._stores.snapshots.load(channel.run_id)
        if loaded is None:
            raise RunNotFound(run_id=channel.run_id)
        if not loaded.execution.status.is_terminal:
            channel.stop_listening = await self._live.listen(
                channel.run_id, lambda commit: self._on_commit(channel, commit)
            )
        channel.advance(loaded.execution, loaded.heartbeat_at)
        channel.beat_at = self._stores.clock.monotonic() + self._heartbeat_sec
        return loaded.execution

    # --- views --------------------------------------------------------------------------------------------------------

    def _on_commit(self, channel: WatchChannel, commit: CommitHeard) -> None:
        if commit.sequence is None or commit.sequence > channel.version:
            channel.behind = True
            channel.may_end = channel.may_end or commit.may_end
            if channel.view is not None:
                self._schedule_read(channel)

    def _schedule_read(self, channel: WatchChannel) -> None:
        """Read the log: at once when the run may have ended or was quiet, else at the end of the burst."""
        if channel.reading or self._group is None or self._closed:
            return
        wait_sec = channel.quiet_until - self._stores.clock.monotonic()
        if channel.may_end or wait_sec <= 0:
            if channel.timer is not None:
                channel.timer.cancel()
            self._start_reading(channel)
        elif channel.timer is None:
            channel.timer = asyncio.get_running_loop().call_later(wait_sec, self._start_reading, channel)

    def _start_reading(self, channel: WatchChannel) -> None:
        channel.timer = None
        if self._group is not None and channel.users and not channel.reading:
            channel.reading = True
            self._group.create_task(_log_failure(channel, self._refresh(channel)))

    async def _refresh(self, channel: WatchChannel) -> None:
        try:
            async with self._reads:
                await self._read_log(channel)
        except PyocoError as error:
            logger.debug("watch read failed, retrying", extra={"run_id": channel.run_id, "error": error.detail})
            return
        finally:
            channel.reading = False
        if channel.view is not None and channel.version > channel.view.version:
            self._show(channel)
        if channel.behind:
            self._schedule_read(channel)

    async def _read_log(self, channel: WatchChannel) -> None:
        """Fold the commits behind the version of the channel."""
        channel.behind = channel.may_end = False
        known = channel.version
        try:
            newer = await self._stores.events.read(channel.run_id, after=known)
            # A concurrent read may have advanced the channel.
            unseen = [stored for stored in newer if stored.sequence > channel.version]
            if not unseen or channel.execution is None:
                return
            execution = fold_commits(unseen, channel.execution)
            if execution.status.is_terminal:
                await self._stores.snapshots.advance(execution)
        except BaseException:
            channel.behind = True  # a reconnect, the next tick or the next watcher retries
            raise
        if execution.version > channel.version:
            channel.advance(execution, channel.heartbeat_at)

    def _show(self, channel: WatchChannel) -> View:
        began = self._stores.clock.monotonic()
        view = self._view(channel)
        channel.show(view)
        ended = self._stores.clock.monotonic()
        channel.quiet_until = ended + min(max(GATHER_SEC, REST_PER_WORK * (ended - began)), LONGEST_REST_SEC)
        return view

    def _view(self, channel: WatchChannel) -> View:
        if channel.execution is None:
            raise RunNotFound(run_id=channel.run_id)
        plain = bounded_snapshot(channel.execution, self._max_bytes, heartbeat_at=channel.heartbeat_at)
        return View(plain, self._stores.clock.now())

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    async def _heartbeat(self, channel: WatchChannel) -> None:
        channel.beat_at = self._stores.clock.monotonic() + self._heartbeat_sec
        away = not self._stores.broker.connected
        if not away:
            try:
                loaded = await self._stores.snapshots.load(channel.run_id)
            except PyocoError as error:
                away = True
                logger.debug("watch read failed, retrying", extra={"run_id": channel.run_id, "error": error.detail})
            else:
                self._apply_snapshot(channel, loaded)
        if channel.watchers:
            view = self._view(channel)
            for watcher in channel.watchers:
                watcher.beat(view, away=away)

    def _apply_snapshot(self, channel: WatchChannel, loaded: LoadedSnapshot | None) -> None:
        """Take over what is newer in the snapshot."""
        if loaded is None:
            # Removed: end the streams, so that clients that come back get a 404.
            _end(channel.watchers)
            self._drop(channel)
        elif loaded.execution.version > channel.version:
            channel.advance(loaded.execution, loaded.heartbeat_at)
            self._show(channel)
        else:
            channel.heartbeat_at = max(channel.heartbeat_at, loaded.heartbeat_at)
        if channel.behind:
            self._schedule_read(channel)


async def _log_failure(channel: WatchChannel, work: Coroutine[Any, Any, None]) -> None:
    """Log what one run raises: it must not end other streams or the gateway."""
    try:
        await work
    except Exception:
        logger.exception("watch failed", extra={"run_id": channel.run_id})


def _end(watchers: Iterable[OpenStream]) -> None:
    for watcher in watchers:
        watcher.end()
