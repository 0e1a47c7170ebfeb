"""Where one who follows a log begins: behind a place that was noted, or so many lines before the end. It only reads."""

from __future__ import annotations

from pyoco_server.application.ports import LogStore
from pyoco_server.execution.ids import RunId
from pyoco_server.runlog.tokens import START, Place

# The end of a log is looked for back over so many bytes of it, however many lines were asked for.
TAIL_BYTES = 4 * 1024 * 1024


async def settled(logs: LogStore, run_id: RunId, place: Place) -> Place:
    """The place by the sequences of this log; from its start where the place's own mean nothing (any more)."""
    if place.sequence == 0:
        return place
    stored = await logs.next(run_id, after=place.sequence)
    if stored is not None:
        return place if stored.chunk.first_line <= place.line else Place(place.line, 0)
    last = await logs.last(run_id)
    if last is None or last.chunk.next_line > place.line:
        return Place(place.line, 0)
    return Place(place.line, last.sequence)


async def place_of_last(logs: LogStore, run_id: RunId, count: int) -> Place:
    """The place before the last so many lines; chunks are read from the end back."""
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
    return Place(max(first, stored.chunk.first_line), stored.chunk.previous)
