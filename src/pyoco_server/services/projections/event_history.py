"""The events of an execution one by one, each with its commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyoco_server.domain.execution.events import Commit, Event, StoredCommit
from pyoco_server.domain.ids import RunId
from pyoco_server.stores import EventLog


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
