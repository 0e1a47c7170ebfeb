"""Chunks of a log as those who follow it are told them: parts of a bounded size, whose bytes are made once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from pyoco_server.domain.run_logs.lines import LineFilter, LogLine
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.stores import StoredChunk

T = TypeVar("T", bytes, str)

# What is told in one piece. A chunk of empty lines becomes many times as large when each is told with all its facts.
PART_LINES = 500
PART_BYTES = 64 * 1024
# Forms that a part keeps: those of all who read the whole of it, and a few of those who chose; others are made anew.
MOST_FORMS = 6
# What a line weighs beside its text, as objects of Python and in its forms.
LINE_WEIGHT = 400


class NumberedLine(NamedTuple):
    """A line with its number in the log and the attempt that wrote it."""

    number: int
    attempt: int
    line: LogLine


class Part:
    """Some lines of a chunk; `following` is the place behind them."""

    __slots__ = ("_after", "_forms", "first", "following", "lines")

    def __init__(self, lines: Sequence[NumberedLine], *, first: int, after: int, following: LogPosition) -> None:
        self.lines = lines
        self.first = first
        self.following = following
        self._after = after
        self._forms: dict[Hashable, bytes | str] = {}

    def behind(self, number: int) -> LogPosition:
        """The place behind one of the lines."""
        return self.following if number + 1 >= self.following.line else LogPosition(number + 1, self._after)

    def once(self, form: Hashable, make: Callable[[], T]) -> T:
        """What is made of it for this form: for the first who asks, and kept for the others."""
        kept = self._forms.get(form)
        if kept is not None:
            return kept  # type: ignore[return-value]  # a form is always made of the same kind
        made = make()
        if len(self._forms) < MOST_FORMS:
            self._forms[form] = made
        return made


class LineBatch(NamedTuple):
    """What one who follows is told next: the lines of a part from `first` on, as far as they are wanted."""

    part: Part
    first: int
    only: LineFilter

    @property
    def lines(self) -> Sequence[NumberedLine]:
        if self.first <= self.part.first and self.only.takes_all:
            return self.part.lines
        return [line for line in self.part.lines if line.number >= self.first and self.only.takes(line.line)]

    def once(self, form: Hashable, make: Callable[[LineBatch], T]) -> T:
        """What is made of these lines for this form, shared with all who are told the same ones."""
        return self.part.once((form, max(self.first, self.part.first), self.only), lambda: make(self))


class CutChunk:
    """A chunk in parts. An empty one has a single part without lines."""

    __slots__ = ("_parts", "weight")

    def __init__(self, stored: StoredChunk, after: int) -> None:
        self._parts = tuple(_cut(stored, after))
        self.weight = 3 * stored.chunk.size_bytes + LINE_WEIGHT * len(stored.chunk.lines)

    def part_at(self, line: int) -> Part:
        """The part in which that line is, or the last one for whoever is behind them all."""
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
