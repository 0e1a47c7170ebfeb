"""Chunks of followed logs: each is read once, cut into parts of a bounded size, and encoded once for all followers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LineFilter, LogLine
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.stores import LogStore, StoredChunk

T = TypeVar("T", bytes, str)

# What is sent at once. A chunk of empty lines becomes many times as large when each line is sent with its metadata.
PART_LINES = 500
PART_BYTES = 64 * 1024
# Encodings that are kept: of a part those of all its lines and a few filtered ones; others are made anew.
MAX_ENCODINGS = 6
# Estimated bytes of a line beside its text: Python objects and encodings.
LINE_WEIGHT = 400


class EncodingCache:
    """Encodings of one object, shared by all followers."""

    __slots__ = ("_encodings",)

    def __init__(self) -> None:
        self._encodings: dict[Hashable, bytes | str] = {}

    def encoded(self, key: Hashable, make: Callable[[], T]) -> T:
        """The encoding under this key; made on the first call and cached."""
        kept = self._encodings.get(key)
        if kept is not None:
            return kept  # type: ignore[return-value]  # a key always has the same type
        made = make()
        if len(self._encodings) < MAX_ENCODINGS:
            self._encodings[key] = made
        return made


class NumberedLine(NamedTuple):
    """A line with its number in the log and the attempt that wrote it."""

    number: int
    attempt: int
    line: LogLine


class Part(EncodingCache):
    """Some lines of a chunk; `following` is the position behind them."""

    __slots__ = ("_after", "first", "following", "lines")

    def __init__(self, lines: Sequence[NumberedLine], *, first: int, after: int, following: LogPosition) -> None:
        super().__init__()
        self.lines = lines
        self.first = first
        self.following = following
        self._after = after

    def behind(self, number: int) -> LogPosition:
        return self.following if number + 1 >= self.following.line else LogPosition(number + 1, self._after)


class LineBatch(NamedTuple):
    """The next lines for a follower: those of a part from `first` on that its filter takes."""

    part: Part
    first: int
    only: LineFilter

    @property
    def lines(self) -> Sequence[NumberedLine]:
        if self.first <= self.part.first and self.only.takes_all:
            return self.part.lines
        return [line for line in self.part.lines if line.number >= self.first and self.only.takes(line.line)]

    def once(self, key: Hashable, make: Callable[[LineBatch], T]) -> T:
        """The encoding of these lines under this key, shared by all followers that get the same lines."""
        return self.part.encoded((key, max(self.first, self.part.first), self.only), lambda: make(self))


class CutChunk:
    """A chunk in parts. An empty one has a single part without lines."""

    __slots__ = ("_parts", "weight")

    def __init__(self, stored: StoredChunk, after: int) -> None:
        self._parts = tuple(_cut(stored, after))
        self.weight = 3 * stored.chunk.size_bytes + LINE_WEIGHT * len(stored.chunk.lines)

    def part_at(self, line: int) -> Part:
        """The part with that line, or the last one for a line behind them all."""
        return next((part for part in self._parts if line < part.following.line), self._parts[-1])


def _cut(stored: StoredChunk, after: int) -> Iterator[Part]:
    chunk = stored.chunk
    lines: list[NumberedLine] = []
    first, size = chunk.first_line, 0
    for number, line in enumerate(chunk.lines, start=chunk.first_line):
        if lines and (len(lines) >= PART_LINES or size + len(line.text) > PART_BYTES):
            yield Part(lines, first=first, after=after, following=LogPosition(number, after))
            lines, first, size = [], number, 0
        lines.append(NumberedLine(number, chunk.attempt, line))
        size += len(line.text)
    yield Part(lines, first=first, after=after, following=LogPosition(chunk.next_line, stored.sequence))


class ChunkCache:
    """The most recently used chunks of all logs, within a size limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._weight = 0
        self._chunks: OrderedDict[tuple[RunId, int], CutChunk] = OrderedDict()

    def get(self, run_id: RunId, after: int) -> CutChunk | None:
        chunk = self._chunks.get((run_id, after))
        if chunk is not None:
            self._chunks.move_to_end((run_id, after))
        return chunk

    def put(self, run_id: RunId, after: int, chunk: CutChunk) -> None:
        if (run_id, after) in self._chunks:
            return
        self._chunks[run_id, after] = chunk
        self._weight += chunk.weight
        while self._weight > self._max_bytes and len(self._chunks) > 1:
            self._weight -= self._chunks.popitem(last=False)[1].weight

    def forget(self, run_id: RunId) -> None:
        for key in [key for key in self._chunks if key[0] == run_id]:
            self._weight -= self._chunks.pop(key).weight


class FollowedLog:
    """The chunks of one log, each read once for all its followers."""

    def __init__(self, run_id: RunId, logs: LogStore, cache: ChunkCache) -> None:
        self._run_id = run_id
        self._logs = logs
        self._cache = cache
        self._at_end: set[int] = set()
        self._reading: dict[int, asyncio.Future[CutChunk | BrokerUnavailable | None]] = {}

    def expect_more(self) -> None:
        """There may be new chunks: the next call looks for them."""
        self._at_end = set()

    def cached(self, after: int) -> CutChunk | None:
        """The chunk behind a sequence, if it is cached."""
        return self._cache.get(self._run_id, after)

    async def chunk_after(self, after: int) -> CutChunk | None:
        """The chunk behind a sequence; None when a read that began after this call has found none.

        Concurrent calls for the same chunk share one read and its failure.
        """
        while True:
            cached = self.cached(after)
            if cached is not None or after in self._at_end:
                return cached
            reading = self._reading.get(after)
            if reading is None:
                return await self._read(after)
            found = await asyncio.shield(reading)
            if isinstance(found, BrokerUnavailable):
                raise BrokerUnavailable(found.detail) from found
            if found is not None:
                return found

    async def _read(self, after: int) -> CutChunk | None:
        result: asyncio.Future[CutChunk | BrokerUnavailable | None] = asyncio.get_running_loop().create_future()
        self._reading[after] = result
        # `expect_more` replaces the set: a chunk stored during the read is not taken for missing.
        at_end, found = self._at_end, None
        try:
            stored = await self._logs.next(self._run_id, after=after)
            if stored is None:
                at_end.add(after)
            else:
                found = CutChunk(stored, after)
                self._cache.put(self._run_id, after, found)
        except BrokerUnavailable as error:
            result.set_result(error)
            raise
        finally:
            del self._reading[after]
            if not result.done():
                result.set_result(found)  # after a cancel None: the next waiter reads again
        return found
