"""Shows runs as they change to all who watch them, pushed by the log; it polls nobody.

    first watcher ─▶ snapshot, listen, log behind the snapshot ─▶ view ──offer──▶ watchers of the run
                          │                                        ▲
                          └─ word of a commit ─▶ read the log, fold ┘   (a burst is one view, the end is shown at once)
    ticker ──────────────────▶ the snapshot again: heartbeat, what was missed, what was removed

All watchers of a run share one channel: one subscription, one fold, one encoding. Word of a commit is only a hint. What
is shown comes from the log, so it does not wait for the writer, who may stand between append and advance. Only an end
waits until the snapshot shows it: whoever hears of the end asks for the run next, and must not be told less.
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
from pyoco_server.services.streaming.watch_channel import Channel, Ends, Hears
from pyoco_server.services.streaming.watcher import View, Watcher
from pyoco_server.stores import CommitHeard, EventLog, LoadedSnapshot

logger = logging.getLogger(__name__)

# A busy run is shown at most so often, and less often when its views take long to make: they are not the only work.
GATHER_SEC = 0.025
REST_PER_WORK = 4.0
LONGEST_REST_SEC = 0.25
# Reads of the hub on their way at a time: after a reconnect every channel wants one.
MAX_READS = 32
TICK_SEC = 1.0
# Those who come at once wait for the first of them to open the channel; with a broker that hangs, no longer than this.
PATIENCE_SEC = 4.0


class WatchHub:
    """The hub of a gateway. `run` is its whole life; watchers are opened while it runs."""

    def __init__(self, stores: Stores, live: EventLog, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._live = live
        self._max_watchers = config.http_max_watchers
        self._max_bytes = config.max_run_snapshot_bytes
        self._heartbeat_sec = config.http_watch_heartbeat_sec
        self._channels: dict[RunId, Channel] = {}
        self._guests: set[Ends] = set()
        self._reads = asyncio.Semaphore(MAX_READS)
        self._group: asyncio.TaskGroup | None = None
        self._closed = False
        self.open_count = 0
        """How many are watching, for the limit and for the metrics."""

    async def run(self) -> None:
        """Look at every channel in its turn, for ever."""
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
        """Somebody who is told of the run from behind the version `after`; None when nothing is left to be told.

        `since` holds back views that are not newer.
        """
        channel = self._enter(run_id)
        try:
            view = await self._present(channel, tenant_filter)
            after = after if after <= view.version else 0  # not one of ours: as if none was given
            if view.is_terminal and (after == view.version or (since is not None and view.updated_at <= since)):
                self._leave(channel)
                return None
        except BaseException:
            self._leave(channel)
            raise
        watcher = Watcher(after=after, since=since, left=lambda gone: self._leave(channel, gone))
        channel.watchers.add(watcher)
        watcher.offer(view)
        if timeout_sec is not None:
            watcher.end_in(timeout_sec)
        if self._closed:
            watcher.end()
        return watcher

    async def attach(self, run_id: RunId, listener: Hears) -> tuple[View, Callable[[], None]]:
        """Tell one who speaks for many, each of whom counts elsewhere: the run as it is, and what ends the telling."""
        self._check_open()
        channel = self._join(run_id)
        try:
            view = await self._present(channel, None)
        except BaseException:
            self._part(channel)
            raise
        channel.watchers.add(listener)

        def detach() -> None:
            if listener in channel.watchers:
                channel.watchers.discard(listener)
                self._part(channel)

        return view, detach

    def close(self) -> None:
        """End every stream and open no more: the gateway stops."""
        self._closed = True
        for channel in self._channels.values():
            _end(channel.watchers)
        _end(self._guests)

    def enter(self, guest: Ends) -> None:
        """Let a stream in that needs no channel: it counts, and is ended with the others."""
        self._check_room()
        self._guests.add(guest)
        self.open_count += 1

    def leave(self, guest: Ends) -> None:
        """It is over; may be said twice."""
        if guest in self._guests:
            self._guests.remove(guest)
            self.open_count -= 1

    async def tick(self) -> None:
        """Show life on the channels whose time has come, after a look at the truth; read again what could not be."""
        now = self._stores.clock.monotonic()
        for channel in self._channels.values():
            if channel.behind and channel.view is not None:
                self._hurry(channel)
        due = iter([channel for channel in self._channels.values() if channel.view and channel.beat_at <= now])
        while batch := list(islice(due, MAX_READS)):
            await asyncio.gather(*(_survived(channel, self._beat(channel)) for channel in batch))

    # --- channels come and go ---------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerUnavailable("the gateway is stopping; ask another one, or this one again in a moment")

    def _check_room(self) -> None:
        self._check_open()
        if self.open_count >= self._max_watchers:
            raise TooManyWatchers(f"{self.open_count} streams are open on this gateway, which is its limit")

    def _enter(self, run_id: RunId) -> Channel:
        self._check_room()
        self.open_count += 1
        return self._join(run_id)

    def _leave(self, channel: Channel, watcher: Watcher | None = None) -> None:
        if watcher is not None:
            channel.watchers.discard(watcher)
        self.open_count -= 1
        self._part(channel)

    def _join(self, run_id: RunId) -> Channel:
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = Channel(run_id)
        channel.users += 1
        return channel

    def _part(self, channel: Channel) -> None:
        channel.users -= 1
        if not channel.users:
            self._drop(channel)

    def _drop(self, channel: Channel) -> None:
        channel.close()
        if self._channels.get(channel.run_id) is channel:
            del self._channels[channel.run_id]

    async def _present(self, channel: Channel, tenant_filter: str | None) -> View:
        """The run as it is now, also for those who join: they may have seen more of it at another gateway."""
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                async with channel.opening:
                    execution = channel.execution or await self._begin(channel)
                if tenant_filter not in (None, execution.request.tenant_id):
                    raise RunNotFound(run_id=channel.run_id)
                if not execution.status.is_terminal:
                    # What was stored before we listened, and whatever its writer has not yet shown.
                    await self._read_for_joining(channel)
        except TimeoutError as error:
            raise BrokerUnavailable("nats does not answer in time") from error
        if channel.behind:
            self._hurry(channel)
        if channel.view is None or channel.view.version < channel.version:
            return self._show(channel)
        return channel.view

    async def _read_for_joining(self, channel: Channel) -> None:
        """Read the log for one who joins: with a read that begins after they came, and is shared by all who have."""
        channel.came += 1
        number = channel.came
        async with channel.joining:
            if channel.read_for < number:
                everybody = channel.came
                await self._read_log(channel)
                channel.read_for = everybody

    async def _begin(self, channel: Channel) -> Execution:
        loaded = await self._stores.snapshots.load(channel.run_id)
        if loaded is None:
            raise RunNotFound(run_id=channel.run_id)
        if not loaded.execution.status.is_terminal:
            channel.stop_listening = await self._live.listen(channel.run_id, lambda heard: self._heard(channel, heard))
        channel.knows(loaded.execution, loaded.heartbeat_at)
        channel.beat_at = self._stores.clock.monotonic() + self._heartbeat_sec
        return loaded.execution

    # --- news ---------------------------------------------------------------------------------------------------------

    def _heard(self, channel: Channel, heard: CommitHeard) -> None:
        if heard.sequence is None or heard.sequence > channel.version:
            channel.behind = True
            channel.may_end = channel.may_end or heard.may_end
            if channel.view is not None:
                self._hurry(channel)

    def _hurry(self, channel: Channel) -> None:
        """Read the log: at once when the run may have ended or was quiet, else when the burst has gathered."""
        if channel.reading or self._group is None or self._closed:
            return
        wait_sec = channel.rested_at - self._stores.clock.monotonic()
        if channel.may_end or wait_sec <= 0:
            if channel.timer is not None:
                channel.timer.cancel()
            self._start_reading(channel)
        elif channel.timer is None:
            channel.timer = asyncio.get_running_loop().call_later(wait_sec, self._start_reading, channel)

    def _start_reading(self, channel: Channel) -> None:
        channel.timer = None
        if self._group is not None and channel.users and not channel.reading:
            channel.reading = True
            self._group.create_task(_survived(channel, self._refresh(channel)))

    async def _refresh(self, channel: Channel) -> None:
        try:
            async with self._reads:
                await self._read_log(channel)
        except PyocoError as error:
            logger.debug("watch waits", extra={"run_id": channel.run_id, "error": error.detail})
            return
        finally:
            channel.reading = False
        if channel.view is not None and channel.version > channel.view.version:
            self._show(channel)
        if channel.behind:
            self._hurry(channel)

    async def _read_log(self, channel: Channel) -> None:
        """Fold in what is behind the version that the channel knows."""
        channel.behind = channel.may_end = False
        known = channel.version
        try:
            newer = await self._stores.events.read(channel.run_id, after=known)
            # Somebody else who read may have gone ahead meanwhile.
            unseen = [stored for stored in newer if stored.sequence > channel.version]
            if not unseen or channel.execution is None:
                return
            execution = fold_commits(unseen, channel.execution)
            if execution.status.is_terminal:
                await self._stores.snapshots.advance(execution)
        except BaseException:
            channel.behind = True  # a reconnect, the next tick or the next watcher tries again
            raise
        if execution.version > channel.version:
            channel.knows(execution, channel.heartbeat_at)

    def _show(self, channel: Channel) -> View:
        began = self._stores.clock.monotonic()
        view = self._view(channel)
        channel.show(view)
        ended = self._stores.clock.monotonic()
        channel.rested_at = ended + min(max(GATHER_SEC, REST_PER_WORK * (ended - began)), LONGEST_REST_SEC)
        return view

    def _view(self, channel: Channel) -> View:
        if channel.execution is None:
            raise RunNotFound(run_id=channel.run_id)
        plain = bounded_snapshot(channel.execution, self._max_bytes, heartbeat_at=channel.heartbeat_at)
        return View(plain, self._stores.clock.now())

    # --- signs of life ------------------------------------------------------------------------------------------------

    async def _beat(self, channel: Channel) -> None:
        channel.beat_at = self._stores.clock.monotonic() + self._heartbeat_sec
        away = not self._stores.broker.connected
        if not away:
            try:
                loaded = await self._stores.snapshots.load(channel.run_id)
            except PyocoError as error:
                away = True
                logger.debug("watch waits", extra={"run_id": channel.run_id, "error": error.detail})
            else:
                self._compare(channel, loaded)
        if channel.watchers:
            view = self._view(channel)
            for watcher in channel.watchers:
                watcher.beat(view, away=away)

    def _compare(self, channel: Channel, loaded: LoadedSnapshot | None) -> None:
        """What the snapshot says that the channel does not know."""
        if loaded is None:
            # Removed, and whoever asks for it again shall hear so.
            _end(channel.watchers)
            self._drop(channel)
        elif loaded.execution.version > channel.version:
            channel.knows(loaded.execution, loaded.heartbeat_at)
            self._show(channel)
        else:
            channel.heartbeat_at = max(channel.heartbeat_at, loaded.heartbeat_at)
        if channel.behind:
            self._hurry(channel)


async def _survived(channel: Channel, work: Coroutine[Any, Any, None]) -> None:
    """Outer loops both: a run that cannot be shown, for whatever reason, must not end other streams or the gateway."""
    try:
        await work
    except Exception:
        logger.exception("watching a run broke", extra={"run_id": channel.run_id})


def _end(watchers: Iterable[Ends]) -> None:
    for watcher in watchers:
        watcher.end()
