"""Lines of a run's log, and the chunks in which they are stored; no bytes, no clock, no store.

A log is one sequence of lines over all attempts of its run. Lines are numbered from 1, and every line also has its
place in the log as plain text: each line's bytes in UTF-8 and one newline, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Stream = Literal["stdout", "stderr", "logging", "output", "pyoco"]
Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

STREAMS: tuple[Stream, ...] = ("stdout", "stderr", "logging", "output", "pyoco")
LEVELS: tuple[Level, ...] = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_SEVERITY: dict[Level, int] = {level: severity for severity, level in enumerate(LEVELS)}


class LogLine(NamedTuple):
    """One line, without its newline; `at` is the time (unix seconds) at which it was written.

    `stream` says how: through `sys.stdout`, `sys.stderr` or `logging`; past Python, by a program that the task started
    or by C code (`output`); or by this server, about the run (`pyoco`). `task` is None where nobody can tell.
    """

    at: float
    task: str | None
    stream: Stream
    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """Which lines: those of one task, and those of a level or a more severe one; None: of any."""

    task: str | None = None
    level: Level | None = None

    @property
    def takes_all(self) -> bool:
        return self.task is None and self.level is None

    def takes(self, line: LogLine) -> bool:
        if self.task is not None and line.task != self.task:
            return False
        return self.level is None or _SEVERITY[line.level] >= _SEVERITY[self.level]


ALL_LINES = LineFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Some lines of one attempt, as they are stored: the first one's number and byte offset, and the chunk before.

    `previous` is the sequence of the chunk before this one, 0 for the first. A chunk may be empty: it then only says
    that the attempt has begun.
    """

    attempt: int
    first_line: int
    first_byte: int
    previous: int
    lines: Sequence[LogLine]
    size_bytes: int

    @property
    def next_line(self) -> int:
        """The number of the line behind the last one."""
        return self.first_line + len(self.lines)

    @property
    def next_byte(self) -> int:
        return self.first_byte + self.size_bytes


def text_of(lines: Sequence[LogLine]) -> bytes:
    """These lines as plain text."""
    return "\n".join([line.text for line in lines] + [""]).encode()


def size_of(lines: Sequence[LogLine]) -> int:
    """How many bytes these lines have as plain text."""
    return len(text_of(lines))


def chunk_of(lines: Sequence[LogLine], *, attempt: int, behind: LogChunk | None, sequence: int) -> LogChunk:
    """The chunk of these lines behind another one, which is stored under that sequence."""
    return LogChunk(
        attempt=attempt,
        first_line=behind.next_line if behind else 1,
        first_byte=behind.next_byte if behind else 0,
        previous=sequence,
        lines=lines,
        size_bytes=size_of(lines),
    )
