"""The output of runs: per run an ordered list of chunks of lines. Numbers no lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import codec
from pyoco_server.domain.run_logs.lines import LogChunk
from pyoco_server.errors import InternalError
from pyoco_server.ports.broker import Conflict, LogMessage, Stored, SubjectLog

# Chunks may be large: with hundreds of reads in flight, other replies of the broker would be processed late, and the
# broker would disconnect a slow reader.
MAX_READS_IN_FLIGHT = 8


# A chunk of short lines is many times as large when it is stored, and takes tens of milliseconds to decode.
QUICK_BYTES = 256 * 1024


class StoredChunk(msgspec.Struct, frozen=True, kw_only=True):
    sequence: int
    chunk: LogChunk


class LogStore:
    def __init__(self, log: SubjectLog) -> None:
        self._log = log
        self._reads = asyncio.Semaphore(MAX_READS_IN_FLIGHT)

    async def append(self, run_id: RunId, chunk: LogChunk, *, after: int) -> Stored | Conflict:
        """Add a chunk behind the one with sequence `after` (0: as the first); `RequestTooLarge` when it is too large.

        A chunk of the same attempt with the same first line is the same chunk: it is found, not stored twice.
        """

        def is_ours(message: LogMessage) -> bool:
            found = _decode(message).chunk
            return (found.attempt, found.first_line) == (chunk.attempt, chunk.first_line)

        # An earlier attempt of this append can only be the first chunk behind `after`.
        return await self._log.append(run_id, codec.encode(chunk), after=after, is_ours=is_ours, search_limit=1)

    async def last(self, run_id: RunId) -> StoredChunk | None:
        """The newest chunk, however long the log is."""
        async with self._reads:
            message = await self._log.last(run_id)
        return None if message is None else await _decoded(message)

    async def next(self, run_id: RunId, *, after: int) -> StoredChunk | None:
        """The first chunk behind a sequence (any sequence, not only one of this run's)."""
        async with self._reads:
            message = await self._log.next(run_id, after=after)
        return None if message is None else await _decoded(message)

    async def at(self, run_id: RunId, sequence: int) -> StoredChunk | None:
        """The chunk with exactly this sequence; None where it is not one of this run's."""
        async with self._reads:
            message = await self._log.at(sequence)
        return None if message is None or message.key != run_id else await _decoded(message)

    async def listen(self, run_id: RunId, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` when chunks of the run were stored or may have been missed; the returned function ends that.

        A hint: a listener reads the log afterwards.
        """
        return await self._log.listen(run_id, lambda _: notify())

    async def purge(self, run_id: RunId) -> None:
        """Remove the run's log (retention only)."""
        await self._log.purge(run_id)


async def _decoded(message: LogMessage) -> StoredChunk:
    """The chunk; a large one is decoded in a thread, between other requests."""
    return _decode(message) if len(message.data) <= QUICK_BYTES else await asyncio.to_thread(_decode, message)


def _decode(message: LogMessage) -> StoredChunk:
    try:
        return StoredChunk(sequence=message.sequence, chunk=codec.decode(message.data))
    except codec.NotAChunk as error:
        raise InternalError(f"the log has an unreadable chunk at {message.sequence}: {error}") from error
