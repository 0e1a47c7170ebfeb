"""Log chunks cut into parts of a bounded size; each encoding of a part is made once for all followers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from pyoco_server.domain.run_logs.lines import LineFilter, LogLine
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.stores import StoredChunk

T = TypeVar("T", bytes, str)

# What is sent at once. A chunk of empty lines becomes many times as large when each line is sent with its metadata.
PART_LINES = 500
PART_BYTES = 64 * 1024
# Encodings that a part caches: those of the whole part and a few filtered ones; others are made anew.
MAX_ENCODINGS = 6
# Estimated bytes of a line beside its text: Python objects and encodings.
LINE_WEIGHT = 400


class NumberedLine(NamedTuple):
    """A line with its number in the log and the attempt that wrote it."""

    number: int
    attempt: int
    line: LogLine


class Part:
    """Some lines of a chunk; `following` is the position behind them."""

    __slots__ = ("_after", "_encodings", "first", "following", "lines")

    def __init__(self, lines: Sequence[NumberedLine], *, first: int, after: int, following: LogPosition) -> None:
        self.lines = lines
        self.first = first
        self.following = following
        self._after = after
        self._encodings: dict[Hashable, bytes | str] = {}

    def behind(self, number: int) -> LogPosition:
        """The position behind one of the lines."""
        return self.following if number + 1 >= self.following.line else LogPosition(number + 1, self._after)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The encoding under this key; made on the first call and cached."""
        kept = self._encodings.get(key)
        if kept is not None:
            return kept  # type: ignore[return-value]  # a key always has the same type
        made = make()
        if len(self._encodings) < MAX_ENCODINGS:
            self._encodings[key] = made
        return made


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
        return self.part.once((key, max(self.first, self.part.first), self.only), lambda: make(self))


class CutChunk:
    """A chunk in parts. An empty one has a single part without lines."""

    __slots__ = ("_parts", "weight")

    def __init__(self, stored: StoredChunk, after: int) -> None:
        self._parts = tuple(_cut(stored, after))
        self.weight = 3 * stored.chunk.size_bytes + LINE_WEIGHT * len(stored.chunk.lines)

    def part_at(self, line: int) -> Part:
        """The part with that line, or the last one for a line behind them all."""
        for part in self._parts:
            if line < part.following.line:
                return part
        return self._parts[-1]


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
