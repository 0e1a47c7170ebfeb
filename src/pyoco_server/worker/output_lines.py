"""Makes lines of what a runner writes, and remembers the last of them; pure: it neither reads nor delivers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.worker.tagged_lines import TaggedReader

LINE_CAP_BYTES = 64 * 1024
LAST_LINES = 40  # a report of a crash takes half of them
# Stands for the task that begins first in a run: its name comes by another way, and a little later.
FIRST_TASK = "\x1e first"


class OutputLines:
    """Bytes in, lines out; the last lines tell why a process died."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._unfinished = b""
        self._reader = TaggedReader(None)
        self._last: deque[str] = deque(maxlen=LAST_LINES)

    @property
    def last_lines(self) -> tuple[str, ...]:
        return tuple(self._last)

    def begin_run(self) -> None:
        """What comes from here on is of a new run."""
        self._last.clear()
        self._reader.sole = FIRST_TASK

    def feed(self, data: bytes) -> list[LogLine]:
        """The lines that have become whole."""
        whole, newline, rest = data.rpartition(b"\n")
        lines = self._add(self._unfinished + whole) if newline else []
        self._unfinished = rest if newline else self._unfinished + rest
        while len(self._unfinished) >= LINE_CAP_BYTES:  # a line without end must not grow without end
            lines += self._add(self._unfinished[:LINE_CAP_BYTES])
            self._unfinished = self._unfinished[LINE_CAP_BYTES:]
        return lines

    def finish(self) -> list[LogLine]:
        """Nothing more comes of this run: what has no newline yet is a line too."""
        unfinished, self._unfinished = self._unfinished, b""
        lines = self._add(unfinished) if unfinished else []
        self._reader.sole = None
        return lines

    def _add(self, data: bytes) -> list[LogLine]:
        lines = self._reader.lines(data, self._now())
        # What the run itself wrote: of its failure and the traceback the error speaks already.
        self._last.extend([line.text for line in lines if line.stream != "pyoco"][-LAST_LINES:])
        return lines
