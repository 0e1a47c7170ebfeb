"""What runs have written, in memory: the same promises, kept by a dictionary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import codec
from pyoco_server.domain.run_logs.lines import LogChunk
from pyoco_server.ports import Conflict, Stored, StoredChunk


class MemoryLogStore:
    """LogStore. Chunks are kept as bytes, so that what cannot be stored cannot be stored here either."""

    def __init__(self) -> None:
        self._sequence = 0
        self._chunks: defaultdict[RunId, dict[int, bytes]] = defaultdict(dict)
        self._listeners: defaultdict[RunId, list[Callable[[], None]]] = defaultdict(list)

    async def append(self, run_id: RunId, chunk: LogChunk, *, after: int) -> Stored | Conflict:
        chunks = self._chunks[run_id]
        if max(chunks, default=0) != after:
            newer = await self.next(run_id, after=after)
            if newer and (newer.chunk.attempt, newer.chunk.first_line) == (chunk.attempt, chunk.first_line):
                return Stored(version=newer.sequence)
            return Conflict()
        self._sequence += 1
        chunks[self._sequence] = codec.encode(chunk)
        for heard in list(self._listeners[run_id]):
            heard()
        return Stored(version=self._sequence)

    async def last(self, run_id: RunId) -> StoredChunk | None:
        return await self.at(run_id, max(self._chunks[run_id], default=0))

    async def next(self, run_id: RunId, *, after: int) -> StoredChunk | None:
        return await self.at(run_id, min((one for one in self._chunks[run_id] if one > after), default=0))

    async def at(self, run_id: RunId, sequence: int) -> StoredChunk | None:
        data = self._chunks[run_id].get(sequence)
        return None if data is None else StoredChunk(sequence=sequence, chunk=codec.decode(data))

    async def listen(self, run_id: RunId, heard: Callable[[], None]) -> Callable[[], None]:
        self._listeners[run_id].append(heard)

        def stop() -> None:
            if heard in self._listeners[run_id]:
                self._listeners[run_id].remove(heard)

        return stop

    async def purge(self, run_id: RunId) -> None:
        self._chunks.pop(run_id, None)
