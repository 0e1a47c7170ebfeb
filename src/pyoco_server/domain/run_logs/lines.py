"""Lines of a run's log, and the chunks in which they are stored.

A log is one sequence of lines over all attempts of its run. Lines are numbered from 1, and each has a byte
offset in the log as plain text (UTF-8, one newline per line).
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

    `stream` is the source: `sys.stdout`, `sys.stderr` or `logging`; subprocesses and C code (`output`); or this server,
    about the run (`pyoco`). `task` is None where it is unknown.
    """

    at: float
    task: str | None
    stream: Stream
    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """A filter of lines: one task, a minimum level, a text; None means any.

    Without `is_case_sensitive` the text is in lower case and found in any case.
    """

    task: str | None = None
    level: Level | None = None
    text: str | None = None
    is_case_sensitive: bool = False

    @property
    def takes_all(self) -> bool:
        return self.task is None and self.level is None and self.text is None

    def takes(self, line: LogLine) -> bool:
        if self.task is not None and line.task != self.task:
            return False
        if self.level is not None and _SEVERITY[line.level] < _SEVERITY[self.level]:
            return False
        return self.text is None or self.text in (line.text if self.is_case_sensitive else line.text.lower())


def line_filter(
    *, task: str | None, level: Level | None, text: str | None, case_sensitive: bool | None = None
) -> LineFilter:
    """The filter for what a person types: unless stated, case counts exactly if the text has an upper-case letter."""
    is_exact = case_sensitive if case_sensitive is not None else text is not None and text != text.lower()
    wanted = text if text is None or is_exact else text.lower()
    return LineFilter(task=task, level=level, text=wanted, is_case_sensitive=is_exact and text is not None)


ALL_LINES = LineFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Consecutive lines of one attempt, with the number and byte offset of the first one.

    `previous` is the sequence of the chunk before, 0 for the first. An empty chunk marks the start of an attempt.
    """

    attempt: int
    first_line: int
    first_byte: int
    previous: int
    lines: Sequence[LogLine]
    size_bytes: int

    @property
    def next_line(self) -> int:
        return self.first_line + len(self.lines)

    @property
    def next_byte(self) -> int:
        return self.first_byte + self.size_bytes


def text_of(lines: Sequence[LogLine]) -> bytes:
    return "\n".join([line.text for line in lines] + [""]).encode()


def size_of(lines: Sequence[LogLine]) -> int:
    return len(text_of(lines))


def chunk_of(lines: Sequence[LogLine], *, attempt: int, behind: LogChunk | None, sequence: int) -> LogChunk:
    """The chunk of these lines that follows another chunk with that sequence."""
    return LogChunk(
        attempt=attempt,
        first_line=behind.next_line if behind else 1,
        first_byte=behind.next_byte if behind else 0,
        previous=sequence,
        lines=lines,
        size_bytes=size_of(lines),
    )
