"""The events of an execution, one by one: page by page, or as they are stored; with who asked for what, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
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
from pyoco_server.stores import CommitHeard, EventLog

_ENDS = (ExecutionCompleted, ExecutionFailed, ExecutionCanceled)
# Commits read at a time by somebody who follows; they may hold a thousand events each.
COMMITS_AT_A_TIME = 100
AGAIN_SEC = 1.0


class EventPosition(NamedTuple):
    """Where an event stands: the sequence of its commit, and its place in it. Places are in the order of the events."""

    sequence: int
    number: int


START = EventPosition(0, 0)


class EventEntry(NamedTuple):
    """One event and the commit that it came with."""

    place: EventPosition
    event: Event
    commit: Commit


def listed(commits: Sequence[StoredCommit], after: EventPosition) -> list[EventEntry]:
    """The events of these commits behind a place."""
    found = [
        EventEntry(EventPosition(stored.sequence, number), event, stored.commit)
        for stored in commits
        for number, event in enumerate(stored.commit.events)
    ]
    return [item for item in found if item.place > after]


async def events_after(
    log: EventLog, run_id: RunId, after: EventPosition, limit: int
) -> tuple[Sequence[EventEntry], bool]:
    """The first events behind a place, and whether there are more."""
    # The commit of the place itself may have events behind it, so it is read once more; each commit has one at least.
    commits = await log.read(run_id, after=max(after.sequence - 1, 0), limit=limit + 2)
    found = listed(commits, after)
    return found[:limit], len(found) > limit


class EventTail:
    """One who follows the events of an execution until it is over; may be asked to end at any time."""

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
        """The next events as soon as there are some; none of them: a sign of life. None at the end."""
        while not self._ended:
            self._news.clear()
            found = await self._read()
            if found:
                return found
            if self._over:
                return None
            if not await self._heard_something():
                return []
        return None

    def end(self) -> None:
        """No more than what was handed out already."""
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
            commits = await self._log.read(self._run_id, after=after, limit=COMMITS_AT_A_TIME)
        except BrokerUnavailable:
            # The broker is away: its return is told as something that may have been missed.
            await asyncio.sleep(AGAIN_SEC)
            self._news.set()
            return []
        found = listed(commits, self._after)
        if found:
            self._after = found[-1].place
            self._over = self._over or any(isinstance(item.event, _ENDS) for item in found)
        return found

    async def _heard_something(self) -> bool:
        try:
            async with asyncio.timeout(self._heartbeat_sec):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _heard(self, heard: CommitHeard) -> None:
        self._news.set()
