"""Finds the chunk of a line or of a byte in a log without walking through it, and reads from there.

Sequences count all that a stream keeps, so the chunks of one run are anywhere among them. But the next chunk of the run
behind any sequence says where in the log it is, which excludes one part of the log per guess. A log that was written
evenly takes one or two guesses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LogChunk, text_of
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.errors import RunNotFound
from pyoco_server.stores import LogStore, StoredChunk

# What of the log a chunk has, counted in lines or in bytes: from the first up to the second, which is not in it.
Extent: TypeAlias = Callable[[LogChunk], tuple[int, int]]


def in_lines(chunk: LogChunk) -> tuple[int, int]:
    return chunk.first_line, chunk.next_line


def in_bytes(chunk: LogChunk) -> tuple[int, int]:
    return chunk.first_byte, chunk.next_byte


async def chunk_with(
    logs: LogStore, run_id: RunId, wanted: int, extent: Extent, *, last: StoredChunk
) -> StoredChunk | None:
    """The chunk that has the wanted line or byte, which is not behind `last`; None when the log was removed."""
    # Chunks up to `low` end at `before`, which is not behind the wanted one; `found`, the first behind `top`, does not.
    found, low, top, before = last, 0, last.sequence - 1, 0
    guesses = 0
    while low < top and wanted < (begins := extent(found.chunk)[0]):
        guesses += 1
        # Each third guess halves: where chunks are uneven, their share alone could lead on in small steps.
        part, whole = (wanted - before, begins - before) if guesses % 3 else (1, 2)
        guess = low + (top - low) * part // whole
        near = await logs.next(run_id, after=guess)
        if near is None:
            return None
        if extent(near.chunk)[1] <= wanted:
            low, before = near.sequence, extent(near.chunk)[1]
        else:
            found, top = near, guess
    return found


async def chunk_at(logs: LogStore, run_id: RunId, place: LogPosition, last: StoredChunk | None) -> StoredChunk | None:
    """The first chunk to read at a position, searched when its sequence is not of this log; None behind `last`."""
    if last is None or place.line >= last.chunk.next_line:
        return None
    stored = await logs.next(run_id, after=place.sequence)
    if stored is not None and stored.chunk.first_line <= place.line <= stored.chunk.next_line:
        return stored
    return await chunk_with(logs, run_id, place.line, in_lines, last=last)


async def first_position(logs: LogStore, run_id: RunId, place: LogPosition, tail: int | None) -> LogPosition:
    """A position with a sequence of this log: the given one, or the one before the last `tail` lines."""
    if tail is None and place == START:
        return START
    last = await logs.last(run_id)
    if tail is not None:
        place = LogPosition(max(1, last.chunk.next_line - tail), 0) if last else START
    stored = await chunk_at(logs, run_id, place, last)
    if stored is None:
        return LogPosition(place.line, last.sequence if last else 0)
    # In a log that was restored under other sequences `previous` is none of its own.
    return LogPosition(place.line, min(stored.chunk.previous, stored.sequence - 1))


async def text_between(
    logs: LogStore, run_id: RunId, start: int, stop: int, *, last: StoredChunk
) -> AsyncGenerator[bytes, None]:
    """The bytes of the log as text from `start` up to `stop`, which is not behind `last`, however the log grows.

    `RunNotFound` when the log is removed meanwhile.
    """
    at = start
    stored = await chunk_with(logs, run_id, start, in_bytes, last=last) if at < stop else None
    while at < stop:
        if stored is None or not stored.chunk.first_byte <= at <= stored.chunk.next_byte:
            raise RunNotFound("the log was removed while it was read", run_id=run_id)
        before = stored.chunk.first_byte
        piece = text_of(stored.chunk.lines)[at - before : stop - before]
        if piece:
            yield piece
            at += len(piece)
        if at < stop:
            stored = await logs.next(run_id, after=stored.sequence)
