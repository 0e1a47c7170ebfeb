"""Finds the chunk of a line or of a byte in a log without walking through it; reads chunks and keeps none.

Sequences count all that a stream keeps, so the chunks of one run are anywhere among them. But whatever sequence one
asks behind, the next chunk of the run says where in the log it is: the part in which the wanted one cannot be is left
out, guess by guess. A log that was written evenly takes one or two guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LogChunk
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
    """The chunk that has the wanted line or byte, which is not behind `last`; None where the log has gone meanwhile."""
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
