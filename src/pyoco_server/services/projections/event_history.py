"""The events of an execution, page by page or as a stream, each with its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyoco_server.domain.execution.events import (
    Commit,
    Event,
    ExecutionCanceled,
    ExecutionCompleted,
    ExecutionFailed,
    StoredCommit,
)
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.loops import wait_event
from pyoco_server.services.streaming.watch_hub import WatchHub
from pyoco_server.stores import CommitHeard, EventLog

_END_EVENTS = (ExecutionCompleted, ExecutionFailed, ExecutionCanceled)
# Commits that a stream reads at a time; they may hold a thousand events each.
BATCH = 100
RETRY_SEC = 1.0


class EventPosition(NamedTuple):
    """The position of an event: the sequence of its commit, and its number in it; ordered as the events are."""

    sequence: int
    number: int


START = EventPosition(0, 0)


class EventEntry(NamedTuple):
    """One event and its commit."""

    place: EventPosition
    event: Event
    commit: Commit


def listed(commits: Sequence[StoredCommit], after: EventPosition) -> list[EventEntry]:
    """The events of these commits behind a position."""
    found = [
        EventEntry(EventPosition(stored.sequence, number), event, stored.commit)
        for stored in commits
        for number, event in enumerate(stored.commit.events)
    ]
    return [item for item in found if item.place > after]


async def events_after(
    log: EventLog, run_id: RunId, after: EventPosition, limit: int
) -> tuple[Sequence[EventEntry], bool]:
    """The first events behind a position, and whether there are more."""
    # The commit of the position may have further events, so it is read again; each commit has at least one.
    commits = await log.read(run_id, after=max(after.sequence - 1, 0), limit=limit + 2)
    found = listed(commits, after)
    return found[:limit], len(found) > limit


class EventTail:
    """A stream of the events of an execution until it is over; may be ended at any time."""

    def __init__(self, log: EventLog, run_id: RunId, after: EventPosition, *, heartbeat_sec: float) -> None:
        self._log = log
        self._run_id = run_id
        self._after = after
        self._heartbeat_sec = heartbeat_sec
        self._news = asyncio.Event()
        self._over = False
        self._ended = False
        self._stop: Callable[[], None] | None = None

    async def open(self, live: EventLog, *, is_over: bool) -> None:
        """Listen from now on; `is_over`: the execution has ended already, and what is stored is all."""
        self._over = is_over
        if not is_over:
            self._stop = await live.listen(self._run_id, self._heard)

    async def next(self) -> Sequence[EventEntry] | None:
        """The next events as soon as there are some; empty: a heartbeat; None at the end."""
        while not self._ended:
            self._news.clear()
            found = await self._read()
            if found:
                return found
            if self._over:
                return None
            if not await wait_event(self._news, self._heartbeat_sec):
                return []
        return None

    def end(self) -> None:
        """Return no further events."""
        self._ended = True
        self._news.set()

    def close(self) -> None:
        """Free everything; may be called twice."""
        self._ended = True
        if self._stop is not None:
            self._stop()
            self._stop = None

    async def _read(self) -> Sequence[EventEntry]:
        try:
            after = max(self._after.sequence - 1, 0)
            commits = await self._log.read(self._run_id, after=after, limit=BATCH)
        except BrokerUnavailable:
            # The broker is unavailable; a reconnect counts as a missed commit.
            await asyncio.sleep(RETRY_SEC)
            self._news.set()
            return []
        found = listed(commits, self._after)
        if found:
            self._after = found[-1].place
            self._over = self._over or any(isinstance(item.event, _END_EVENTS) for item in found)
        return found

    def _heard(self, heard: CommitHeard) -> None:
        self._news.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHistoryService:
    """Pages and streams of events. Open streams are counted by the watch hub, which ends them at shutdown."""

    events: EventLog
    watches: WatchHub
    heartbeat_sec: float

    async def page(self, run_id: RunId, after: EventPosition, limit: int) -> tuple[Sequence[EventEntry], bool]:
        """The first events behind a position, and whether there are more."""
        return await events_after(self.events, run_id, after, limit)

    async def stream(self, run_id: RunId, after: EventPosition, *, is_over: bool) -> EventTail | None:
        """A stream of the events behind a position; None when the execution is over and there are none."""
        if is_over and not (await self.page(run_id, after, 1))[0]:
            return None
        tail = EventTail(self.events, run_id, after, heartbeat_sec=self.heartbeat_sec)
        self.watches.enter(tail)
        try:
            await tail.open(self.events, is_over=is_over)
        except BaseException:
            self.watches.leave(tail)
            raise
        return tail

    def close(self, tail: EventTail) -> None:
        """End a stream."""
        self.watches.leave(tail)
        tail.close()
