"""One topic per followed run: its changes, log lines and events as generators, for any number of followers.

    first follower ─▶ snapshot, subscription ─▶ owner task: commit notification ─▶ read the log, fold ─┐
                                                            heartbeat ─▶ load the snapshot ────────────┤
    follower: a version or a position ─▶ what is behind it, read and encoded once for all ◀─ news ─────┘

A follower has no queue: a slow one finds the newest view, or the chunk or commit behind its position. A notification
is only a hint. Views come from the log and do not wait for the writer of the snapshot. Only a terminal view waits until
the snapshot shows it, because a client that sees the end reads the run next and must not see less.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import ANYONE, Caller
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES, bounded_snapshot
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import ALL_LINES, LineFilter
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.errors import BrokerUnavailable, PyocoError, RunNotFound
from pyoco_server.services.context import Stores
from pyoco_server.services.loops import wait_event
from pyoco_server.services.projections.event_history import EventEntry, EventPosition, listed
from pyoco_server.services.run_logs.search import first_position
from pyoco_server.services.streaming.chunks import PART_LINES, ChunkCache, EncodingCache, FollowedLog, LineBatch
from pyoco_server.services.streaming.news import News, Waker
from pyoco_server.services.streaming.shares import StreamShares
from pyoco_server.stores import CommitHeard

logger = logging.getLogger(__name__)

# The shortest time between two views of a busy run; longer when a view takes long to make.
GATHER_SEC = 0.025
GATHER_PER_WORK = 4.0
LONGEST_GATHER_SEC = 0.25
# Concurrent reads of the owner tasks: after a reconnect every topic needs one.
MAX_READS = 32
# The pause after a failed read; for a follower a reconnect ends it, other recoveries do not.
RETRY_SEC = 1.0
# Followers that join at once wait for the first of them to open the topic; with a broker that hangs, this long.
OPEN_TIMEOUT_SEC = 4.0
# The estimated bytes of cached chunks of all logs; the least recently used go first.
MAX_CACHED_BYTES = 64 * 1024 * 1024
# Each send costs the gateway a fraction of a millisecond. With many followers each gets more lines less often, so that
# other requests are served in between.
REST_PER_FOLLOWER_SEC = 0.00025
SHORTEST_REST_SEC, LONGEST_REST_SEC = 0.002, 0.5
# Commits that an event stream reads at a time; they may hold a thousand events each.
COMMIT_BATCH = 100


class View(EncodingCache):
    """A run at one moment."""

    __slots__ = ("plain", "seen_at", "updated_at", "version")

    def __init__(self, plain: Mapping[str, Any], seen_at: float) -> None:
        super().__init__()
        self.plain = plain
        self.seen_at = seen_at
        self.version: int = plain["version"]
        self.updated_at: float = plain["updated_at"]

    @property
    def is_terminal(self) -> bool:
        return self.plain["status"] in TERMINAL_RUN_STATUSES


class WatchUpdate(NamedTuple):
    """A new view, or (`beat`) a heartbeat with the unchanged one; `away` when the broker could not be asked."""

    view: View
    beat: bool = False
    away: bool = False


class LogUpdate(NamedTuple):
    """The next lines and the position behind them. Without lines: a heartbeat, or with `ended` the end of the run."""

    batches: Sequence[LineBatch]
    place: LogPosition
    ended: View | None = None


class RunTopic:
    """One followed run, shared by its followers. `is_ended`: the run was removed, or the gateway shuts down."""

    def __init__(
        self, run_id: RunId, stores: Stores, config: NatsBackendConfig, cache: ChunkCache, waker: Waker
    ) -> None:
        self.run_id = run_id
        self.users = 0
        self.is_ended = False
        self._stores = stores
        self._max_bytes = config.max_run_snapshot_bytes
        self._heartbeat_sec = config.http_watch_heartbeat_sec
        self._log = FollowedLog(run_id, stores.run_logs, cache)
        self._log_followers = 0
        self._listens_to_log = False
        self._stop_listening: list[Callable[[], None]] = []
        self._owner: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._reads_wanted = self._reads_done = 0
        self._execution = empty_execution(run_id)
        self._heartbeat_at = 0.0
        self._view: View | None = None
        self._beats = 0
        self._is_away = False
        self._hint, self._may_end = asyncio.Event(), asyncio.Event()
        self._quiet_until = 0.0
        # Apart, so that the followers of changes sleep while a log grows.
        self._news, self._log_news = News(waker), News(waker)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended. Its lines and events are stored before that is seen."""
        return self._execution.status.is_terminal

    @property
    def view(self) -> View:
        """The run as it is now, made when it is needed and once for all followers."""
        if self._view is None:
            began = _now()
            plain = bounded_snapshot(self._execution, self._max_bytes, heartbeat_at=self._heartbeat_at)
            self._view = View(plain, self._stores.clock.now())
            ended = _now()
            gather_sec = min(max(GATHER_SEC, GATHER_PER_WORK * (ended - began)), LONGEST_GATHER_SEC)
            self._quiet_until = ended + gather_sec
        return self._view

    def is_end_known(self, after: int, since: float | None) -> bool:
        """Whether the run has ended and a client with this version, or at this time, has seen it."""
        return self.is_over and (after == self.view.version or (since is not None and self.view.updated_at <= since))

    async def follow_run(
        self, *, after: int = 0, since: float | None = None, timeout_sec: float | None = None
    ) -> AsyncGenerator[WatchUpdate, None]:
        """The newest view whenever it is newer than the last one, and heartbeats; a terminal view is the last.

        It starts behind the version `after`; an unknown version counts as none. `since` holds back views that are not
        newer, but not a terminal one.
        """
        ends_at = None if timeout_sec is None else _now() + timeout_sec
        beats, after = self._beats, after if after <= self.view.version else 0
        while True:
            news, view = self._news.number, self.view
            is_held_back = since is not None and view.updated_at <= since and not view.is_terminal
            if view.version > after and not is_held_back:
                after, beats = view.version, self._beats
                yield WatchUpdate(view)
                if view.is_terminal:
                    return
            elif self.is_ended or (ends_at is not None and _now() >= ends_at):
                return
            elif self._beats > beats:
                beats = self._beats
                yield WatchUpdate(view, beat=True, away=self._is_away)
            else:
                await self._news.wait_newer(news, None if ends_at is None else ends_at - _now())

    async def open_log(self, place: LogPosition = START, tail: int | None = None) -> LogPosition:
        """Where `follow_log` begins: at a position, or `tail` lines before the end. Subscribes to new chunks."""
        async with _open_timeout():
            async with self._lock:
                if not self._listens_to_log and not self.is_over:
                    self._stop_listening.append(await self._stores.run_logs.listen(self.run_id, self._notify_log))
                    self._listens_to_log = True
            return await first_position(self._stores.run_logs, self.run_id, place, tail)

    async def follow_log(self, place: LogPosition, only: LineFilter = ALL_LINES) -> AsyncGenerator[LogUpdate, None]:
        """The lines from a position of `open_log` on, as much as is sent at once; then the end, unless `is_ended`."""
        beats, rest_until = self._beats, 0.0
        self._log_followers += 1
        try:
            while not self.is_ended:
                if (rest_sec := rest_until - _now()) > SHORTEST_REST_SEC:
                    await asyncio.sleep(rest_sec)
                # Before the read: a run that is over has written all its lines.
                news, is_over, retry_sec = self._log_news.number, self.is_over, None
                batches: list[LineBatch] = []
                is_at_end = False
                try:
                    place, is_at_end = await self._take_lines(batches, place, only, beats)
                except BrokerUnavailable as error:
                    self._log_retry(error)
                    retry_sec = RETRY_SEC
                rest_until = _now() + self._rest_sec
                if batches or self._beats > beats:
                    beats = self._beats
                    yield LogUpdate(batches, place)
                elif is_at_end and is_over:
                    yield LogUpdate((), place, self.view)
                    return
                elif is_at_end or retry_sec:
                    await self._log_news.wait_newer(news, retry_sec)
        finally:
            self._log_followers -= 1

    async def follow_events(self, after: EventPosition) -> AsyncGenerator[Sequence[EventEntry], None]:
        """The events behind a position until the run is over; an empty sequence is a heartbeat."""
        beats = self._beats
        while not self.is_ended:
            news, is_over, retry_sec = self._news.number, self.is_over, None
            found: Sequence[EventEntry] = ()
            try:
                # The commit of the position may have further events, so it is read again.
                first = max(after.sequence - 1, 0)
                found = listed(await self._stores.events.read(self.run_id, after=first, limit=COMMIT_BATCH), after)
            except BrokerUnavailable as error:
                self._log_retry(error)
                retry_sec = RETRY_SEC
            if found or self._beats > beats:
                after, beats = found[-1].place if found else after, self._beats
                yield found
            elif is_over and not retry_sec:
                return
            else:
                await self._news.wait_newer(news, retry_sec)

    @property
    def _rest_sec(self) -> float:
        return min(REST_PER_FOLLOWER_SEC * self._log_followers, LONGEST_REST_SEC)

    async def _take_lines(
        self, batches: list[LineBatch], place: LogPosition, only: LineFilter, beats: int
    ) -> tuple[LogPosition, bool]:
        """Add the lines that are sent at once; returns the position behind them, and whether no chunk follows it.

        With few followers only cached chunks are added to the first, without waiting. With many, chunks are read for it
        too, because the follower pauses before its next lines.
        """
        count = 0
        while count < PART_LINES:
            try:
                is_read = not batches or self._rest_sec > SHORTEST_REST_SEC
                chunk = await self._log.chunk_after(place.sequence) if is_read else self._log.cached(place.sequence)
            except BrokerUnavailable:
                if not batches:
                    raise
                return place, False
            if chunk is None:
                return place, is_read
            if not batches:
                await asyncio.sleep(0)  # a cached chunk needs no wait: let other tasks run between two parts
            part = chunk.part_at(place.line)
            batch = LineBatch(part, place.line, only)
            place = LogPosition(max(place.line, part.following.line), part.following.sequence)
            if lines := batch.lines:
                batches.append(batch)
                count += len(lines)
            elif not batches and (self._beats > beats or self.is_ended):  # the filter has dropped all lines for long
                break
        return place, False

    async def enter(self, tenant_filter: str | None, reads: asyncio.Semaphore) -> None:
        """Bring the topic up to date: the client may have seen more of the run at another gateway."""
        async with _open_timeout():
            async with self._lock:
                if self._owner is None:
                    await self._open()
                    self._owner = asyncio.create_task(self._keep_current(reads))
            if tenant_filter not in (None, self._execution.request.tenant_id):
                raise RunNotFound(run_id=self.run_id)
            if not self.is_over:
                # Commits from before the subscription, and those that the snapshot does not show yet.
                await self._catch_up()

    async def beat(self) -> None:
        """Send a heartbeat after comparing with the snapshot, which shows missed changes and a removal."""
        self._is_away = not self._stores.broker.connected
        if not self._is_away:
            try:
                async with self._lock:
                    loaded = await self._stores.snapshots.load(self.run_id)
                    if loaded is None:
                        self.end()  # clients that come back get a 404
                        return
                    self._advance(loaded.execution, loaded.heartbeat_at)
            except PyocoError as error:
                self._log_retry(error)
                self._is_away = True
        self._view = None
        self._beats += 1
        self._news.notify()
        self._notify_log()

    def end(self) -> None:
        """End all followers, after a view that they have not sent."""
        self.is_ended = True
        self._news.notify()
        self._notify_log()

    async def close(self) -> None:
        """Stop the owner task and the subscriptions."""
        for stop in self._stop_listening:
            stop()
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait([self._owner])

    async def _open(self) -> None:
        loaded = await self._stores.snapshots.load(self.run_id)
        if loaded is None:
            raise RunNotFound(run_id=self.run_id)
        if not loaded.execution.status.is_terminal:
            self._stop_listening.append(await self._stores.events.listen(self.run_id, self._on_commit))
        self._advance(loaded.execution, loaded.heartbeat_at)

    async def _keep_current(self, reads: asyncio.Semaphore) -> None:
        beat_at = _now() + self._heartbeat_sec
        while True:
            if await wait_event(self._hint, beat_at - _now()) and _now() < beat_at:
                # A burst is one read and one view, but the end does not wait.
                await wait_event(self._may_end, self._quiet_until - _now())
                work = self._catch_up
            else:
                beat_at = _now() + self._heartbeat_sec
                work = self.beat
            try:
                async with reads:
                    await work()
            except PyocoError as error:
                self._log_retry(error)
                await asyncio.sleep(min(RETRY_SEC, self._heartbeat_sec / 2))
            except Exception:
                # An outermost loop: one odd run must not end its streams.
                logger.exception("watch failed", extra={"run_id": self.run_id})
                await asyncio.sleep(RETRY_SEC)

    def _on_commit(self, commit: CommitHeard) -> None:
        if commit.sequence is None or commit.sequence > self._execution.version:
            self._hint.set()
            if commit.may_end:
                self._may_end.set()

    async def _catch_up(self) -> None:
        """Wait for a read of the log that began after this call; concurrent calls share one read."""
        self._reads_wanted += 1
        number = self._reads_wanted
        async with self._lock:
            if self._reads_done < number:
                wanted = self._reads_wanted
                await self._read_log()
                self._reads_done = wanted

    async def _read_log(self) -> None:
        self._hint.clear()
        self._may_end.clear()
        try:
            newer = await self._stores.events.read(self.run_id, after=self._execution.version)
            execution = fold_commits(newer, self._execution)
            if newer and execution.status.is_terminal:
                await self._stores.snapshots.advance(execution)
        except BaseException:
            self._hint.set()  # the owner task or the next follower retries
            raise
        self._advance(execution, self._heartbeat_at)

    def _advance(self, execution: Execution, heartbeat_at: float) -> None:
        self._heartbeat_at = max(heartbeat_at, self._heartbeat_at)
        if execution.version <= self._execution.version:
            return
        self._execution, self._view = execution, None
        self._quiet_until = _now() + GATHER_SEC
        self._news.notify()
        if self.is_over:
            self._notify_log()

    def _notify_log(self) -> None:
        self._log.expect_more()
        self._log_news.notify()

    def _log_retry(self, error: PyocoError) -> None:
        logger.debug("read of a stream failed, retrying", extra={"run_id": self.run_id, "error": error.detail})


class RunTopics:
    """The topics of a gateway, each open while it has followers."""

    def __init__(self, stores: Stores, config: NatsBackendConfig, most_streams: int | None = None) -> None:
        self._stores = stores
        self._config = config
        self._topics: dict[RunId, RunTopic] = {}
        self._cache = ChunkCache(MAX_CACHED_BYTES)
        self._reads = asyncio.Semaphore(MAX_READS)
        self._waker = Waker()
        limit = config.http_max_watchers if most_streams is None else most_streams
        self._shares = StreamShares(limit, config.http_max_streams_per_caller)
        self._is_closed = False

    @property
    def open_count(self) -> int:
        """The number of open streams, for the metrics."""
        return self._shares.open_count

    @asynccontextmanager
    async def join(
        self, run_id: RunId, *, tenant_filter: str | None, caller: Caller = ANYONE, holder: str = ""
    ) -> AsyncIterator[RunTopic]:
        """The topic of a run, up to date; within the block it counts as a stream of the caller and holder.

        Raises `RunNotFound` for an unknown run and for one of another tenant, `TooManyStreams` and `TooManyWatchers`.
        """
        if self._is_closed:
            raise BrokerUnavailable("the gateway is shutting down; try another gateway, or this one again in a moment")
        self._shares.take(caller, holder)
        topic = self._topics.get(run_id)
        if topic is None or topic.is_ended:
            topic = self._topics[run_id] = RunTopic(run_id, self._stores, self._config, self._cache, self._waker)
        topic.users += 1
        try:
            await topic.enter(tenant_filter, self._reads)
            if self._is_closed:
                topic.end()
            yield topic
        finally:
            self._shares.give_back(caller, holder)
            topic.users -= 1
            if not topic.users:
                if self._topics.get(run_id) is topic:
                    del self._topics[run_id]
                    self._cache.forget(run_id)
                await topic.close()

    def close(self) -> None:
        """End every stream and open no more: the gateway shuts down."""
        self._is_closed = True
        for topic in self._topics.values():
            topic.end()


@asynccontextmanager
async def _open_timeout() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_SEC):
            yield
    except TimeoutError as error:
        raise BrokerUnavailable("nats does not answer in time") from error


def _now() -> float:
    return asyncio.get_running_loop().time()
