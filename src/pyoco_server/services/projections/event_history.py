"""The events of an execution one by one, each with its commit."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from pyoco_server.domain.execution.events import Commit, Event, StoredCommit
from pyoco_server.domain.ids import RunId
from pyoco_server.stores import EventLog


class EventPosition(NamedTuple):
    """The position of an event: the sequence of its commit, and its number in it; ordered as the events are."""

    sequence: int
    number: int


START = EventPosition(0, 0)
END = EventPosition(sys.maxsize, 0)
# Commits that are read at once: decoding more would keep the event loop busy for too long.
SLICE = 500


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


async def selected_events(
    log: EventLog, run_id: RunId, cursor: EventPosition, limit: int, *, node_id: str | None, is_newest_first: bool
) -> tuple[Sequence[EventEntry], bool]:
    """A page behind a position, in either order, of one node if given, and whether there are more.

    The log can only be read forwards, so the newest are found by reading all events of the run, in slices.
    """
    if not is_newest_first:
        found = []
        async with aclosing(_slices(log, run_id, cursor)) as slices:
            async for entries in slices:
                found += [item for item in entries if _is_of(item, node_id)]
                if len(found) > limit:
                    break
        return found[:limit], len(found) > limit
    newest: deque[EventEntry] = deque(maxlen=limit + 1)
    end = END if cursor == START else cursor
    async with aclosing(_slices(log, run_id, START)) as slices:
        async for entries in slices:
            newest.extend(item for item in entries if _is_of(item, node_id) and item.place < end)
            if entries[-1].place >= end:
                break
    return list(reversed(newest))[:limit], len(newest) > limit


async def _slices(log: EventLog, run_id: RunId, after: EventPosition) -> AsyncGenerator[list[EventEntry], None]:
    read_to = max(after.sequence - 1, 0)
    while commits := await log.read(run_id, after=read_to, limit=SLICE):
        read_to = commits[-1].sequence
        if entries := listed(commits, after):
            yield entries


def _is_of(item: EventEntry, node_id: str | None) -> bool:
    return node_id is None or getattr(item.event, "node_id", None) == node_id
