"""What the tasks of a run print in the caller's own process, heard on its way to where the caller's output goes.

Heard is what a task's own thread writes to `sys.stdout` and `sys.stderr` while its run is at work; `logging` as far as
it ends up there. Not heard: threads that a task starts, the caller's own handlers, and whatever is written past Python,
because in a process that belongs to somebody else nobody can tell whose that is.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from pyoco_server.domain.run_logs.lines import LogLine, Stream
from pyoco_server.trace import NodeBegan, NodeFailed, NodeSucceeded, Step, encodable
from pyoco_server.worker.tagged_lines import LEVEL_OF, TEXT_CAP_BYTES

# Of somebody who never ends a line so much is a line.
LONGEST_BEGUN_CHARS = 8192

Deliver = Callable[[list[LogLine]], None]


class ThreadVoice:
    """The output of one run. `deliver` is called in the threads that write."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._tasks: dict[int, list[str]] = {}
        self._streams: tuple[_Overheard, ...] = ()

    @contextmanager
    def overhearing(self) -> Iterator[None]:
        """Within the block our streams stand before the caller's."""
        out, err = (_Overheard(self, _bare(stream), name) for name, stream in _standard())
        self._streams = (out, err)
        sys.stdout, sys.stderr = out, err
        try:
            yield
        finally:
            for stream in self._streams:
                stream.finish()
            sys.stdout = out.bare if sys.stdout is out else sys.stdout
            sys.stderr = err.bare if sys.stderr is err else sys.stderr

    def note(self, step: Step) -> None:
        """Learn which task this thread is in; what a failed one leaves behind is written down."""
        thread = threading.get_ident()
        if isinstance(step, NodeBegan):
            self._tasks.setdefault(thread, []).append(step.node)
        elif isinstance(step, NodeSucceeded | NodeFailed):
            for stream in self._streams:
                stream.finish(thread)
            if isinstance(step, NodeFailed):
                lines = step.traceback.rstrip("\n").split("\n")
                self._deliver([LogLine(time.time(), step.node, "pyoco", "ERROR", line) for line in lines])
            if step.node in self._tasks.get(thread, []):
                self._tasks[thread].remove(step.node)

    def task_of(self, thread: int) -> str | None:
        tasks = self._tasks.get(thread)
        return tasks[-1] if tasks else None

    def say(self, thread: int, text: str, stream: Stream) -> None:
        at, task = time.time(), self.task_of(thread)
        lines = [encodable(line, TEXT_CAP_BYTES) for line in text.split("\n")]
        self._deliver([LogLine(at, task, stream, LEVEL_OF[stream], line) for line in lines])


class _Overheard(io.TextIOBase):
    """The caller's stream, with somebody who listens to the threads of a run."""

    def __init__(self, voice: ThreadVoice, bare: TextIO, name: Stream) -> None:
        self.bare = bare
        self._voice = voice
        self._name: Stream = name
        self._begun: dict[int, str] = {}

    def write(self, text: str) -> int:
        written = self.bare.write(text)
        thread = threading.get_ident()
        if self._voice.task_of(thread) is not None:
            whole, newline, rest = (self._begun.pop(thread, "") + text).rpartition("\n")
            if newline:
                self._voice.say(thread, whole, self._name)
            if len(rest) > LONGEST_BEGUN_CHARS:
                self._voice.say(thread, rest, self._name)
            elif rest:
                self._begun[thread] = rest
        return written

    def flush(self) -> None:
        if not self.bare.closed:  # flushed once more when it is collected, long after the caller's may have gone
            self.bare.flush()

    def finish(self, of_thread: int | None = None) -> None:
        """Lines that were begun are whole: those of one thread, or all."""
        for thread in list(self._begun) if of_thread is None else [of_thread]:
            if begun := self._begun.pop(thread, ""):
                self._voice.say(thread, begun, self._name)

    def fileno(self) -> int:
        return self.bare.fileno()

    def isatty(self) -> bool:
        return self.bare.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.bare.encoding


def _standard() -> tuple[tuple[Stream, TextIO], tuple[Stream, TextIO]]:
    return ("stdout", sys.stdout), ("stderr", sys.stderr)


def _bare(stream: TextIO) -> TextIO:
    """The caller's stream, also while an abandoned run still has its own before it."""
    while isinstance(stream, _Overheard):
        stream = stream.bare
    return stream
