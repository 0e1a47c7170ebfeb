"""Where one who follows a log begins: behind a place that was noted, or so many lines before the end. It only reads."""

from __future__ import annotations

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.stores import LogStore

# The end of a log is looked for back over so many bytes of it, however many lines were asked for.
TAIL_BYTES = 4 * 1024 * 1024


async def resume_position(logs: LogStore, run_id: RunId, place: LogPosition) -> LogPosition:
    """The place by the sequences of this log; from its start where the place's own mean nothing (any more)."""
    if place.sequence == 0:
        return place
    stored = await logs.next(run_id, after=place.sequence)
    if stored is not None:
        return place if stored.chunk.first_line <= place.line else LogPosition(place.line, 0)
    last = await logs.last(run_id)
    if last is None or last.chunk.next_line > place.line:
        return LogPosition(place.line, 0)
    return LogPosition(place.line, last.sequence)


async def position_of_last_lines(logs: LogStore, run_id: RunId, count: int) -> LogPosition:
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
    return LogPosition(max(first, stored.chunk.first_line), stored.chunk.previous)
