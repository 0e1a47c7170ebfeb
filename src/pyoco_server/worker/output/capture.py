"""Captures what tasks write, with time, task, stream and level: in a runner process, and in the caller's process.

In a runner (`OutputCapture`), `sys.stdout` and `sys.stderr` are replaced by streams that write to a separate descriptor
of the log pipe, so that a line is in the kernel when `print` returns. Nothing is kept back. What is written to
descriptors 1 and 2 past Python arrives in the same pipe without a tag. `logging` keeps the user's configuration: what a
handler writes to one of our streams is a line of `logging` with the record's level. Without any configuration, records
from INFO on are written instead of those from WARNING on.

In a library (`ThreadOutputCapture`), the caller's streams are wrapped while a run is active. Only what a task's own
thread writes to `sys.stdout` and `sys.stderr` is captured: in another program's process nothing else can be attributed.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, TextIO

from pyoco.core import engine

from pyoco_server.domain.run_logs.lines import LEVELS, Level, LogLine, Stream
from pyoco_server.trace import Step, TaskFailed, TaskStarted, TaskSucceeded, encodable
from pyoco_server.worker.output.tagged_lines import (
    LEVEL_OF,
    TEXT_CAP_BYTES,
    sole_task_mark,
    split_writes,
    tag_lines,
    task_name,
)

# The longest incomplete line that is kept: in a runner it is then sent in part, in a library it becomes a line.
INCOMPLETE_CAP_CHARS = 64 * 1024
LIBRARY_LINE_CHARS = 8192
# A line that continues after it was sent in part is ended before it is too long to be read as one.
PIECE_CHARS = 4096
OPEN_LINE_BYTES = 8 * 1024


class LineAssembler:
    """Collects complete lines per thread: `print` writes a line and its newline separately, and threads interleave.

    `emit(thread, text, is_complete)` gets lines without their last newline, or an incomplete line above the cap.
    """

    def __init__(self, emit: Callable[[int, str, bool], None], cap_chars: int) -> None:
        self._emit = emit
        self._cap_chars = cap_chars
        self._incomplete: dict[int, str] = {}

    def add(self, thread: int, text: str) -> None:
        begun = self._incomplete.pop(thread, "") if self._incomplete else ""
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self._emit(thread, begun + whole, True)
            begun = ""
        begun += rest
        if len(begun) >= self._cap_chars:
            self._emit(thread, begun, False)
        elif begun:
            self._incomplete[thread] = begun

    def take(self, thread: int) -> str:
        """Removes and returns the incomplete line of a thread."""
        return self._incomplete.pop(thread, "")

    def threads(self) -> set[int]:
        return {*self._incomplete}


# --- a runner process -------------------------------------------------------------------------------------------------


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.tasks: list[bytes] = []  # the tasks of this thread, the innermost last
        self.level: Level | None = None  # of the record that a handler is writing in this thread


class OutputCapture:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._thread = _ThreadState()
        self._new_lock()
        self._running: list[bytes] = []
        self._marked: bytes | None = None
        self._streams: list[CapturedStream] = []
        os.register_at_fork(after_in_child=self._new_lock)  # its holder does not exist in the child

    def begin_run(self) -> None:
        """Starts a new run: its first task runs alone, and needs no mark."""
        with self._lock:
            self._running.clear()
            self._marked = None

    def end_run(self) -> None:
        """Completes unfinished lines, and reopens streams that user code has closed."""
        for stream in self._streams:
            stream.finish()
        for name in ("stdout", "stderr"):
            if getattr(sys, name).closed:
                self.open(name)
        with suppress(OSError):
            os.set_blocking(self._descriptor, True)  # for programs of the next run, see `_write_blocking`

    def open(self, name: Literal["stdout", "stderr"]) -> None:
        stream = CapturedStream(self, {"stdout": 1, "stderr": 2}[name], name)
        self._streams = [*(one for one in self._streams if not one.closed), stream]
        setattr(sys, name, stream)

    def note(self, step: Step) -> None:
        """Tracks the running tasks, in their threads; writes the traceback of a failed one."""
        match step:
            case TaskStarted(node=node):
                name = task_name(node)
                if name not in self._thread.tasks:  # else a retry
                    self._thread.tasks.append(name)
                    self._update_running(name, starts=True)
            case TaskSucceeded(node=node) | TaskFailed(node=node):
                name = task_name(node)
                for stream in self._streams:
                    stream.finish(threading.get_ident())
                if isinstance(step, TaskFailed):
                    self.write(step.traceback.rstrip("\n"), "pyoco", "ERROR", task=name)
                if name in self._thread.tasks:
                    self._thread.tasks.remove(name)
                self._update_running(name, starts=False)

    def write(
        self,
        text: str,
        stream: Stream,
        level: Level | None = None,
        *,
        task: bytes | None = None,
        continues: bool = False,
        ends: bool = True,
    ) -> int:
        """Writes lines without their last newline; `ends` false: the line continues, `continues`: it does so here.

        Returns the number of bytes in the pipe.
        """
        if self._thread.level is not None and level is None:
            stream, level = "logging", self._thread.level
        data = tag_lines(
            text,
            stream=stream,
            level=level or LEVEL_OF[stream],
            at_us=time.time_ns() // 1000,
            task=self._task() if task is None else task,
            continues=continues,
            ends=ends,
        )
        with self._lock:  # the pieces of a line stay together
            for piece in split_writes(data):
                try:
                    os.write(self._descriptor, piece)
                except BlockingIOError:
                    self._write_blocking(piece)
        return len(data)

    def handle(self, handler: logging.Handler, record: logging.LogRecord, original: Any) -> Any:
        """Calls a handler; what it writes to our streams meanwhile belongs to this record."""
        thread, before = self._thread, self._thread.level
        thread.level = _level_of(record.levelno)
        try:
            return original(handler, record)
        finally:
            thread.level = before

    def _write_blocking(self, piece: bytes) -> None:
        """Writes although a program that a task started has set O_NONBLOCK on its stdout, as libuv does.

        All descriptors of the pipe share that flag. A write that would block has written nothing: a piece has at most
        PIPE_BUF bytes.
        """
        while True:
            os.set_blocking(self._descriptor, True)
            with suppress(BlockingIOError):
                os.write(self._descriptor, piece)
                return

    def _new_lock(self) -> None:
        self._lock = threading.RLock()  # reentrant: a signal handler may print in the middle of a print

    def _task(self) -> bytes:
        if self._thread.tasks:
            return self._thread.tasks[-1]
        # A thread that a task has started: it can be attributed only while one task runs.
        running = self._running
        return running[0] if len(running) == 1 else b""

    def _update_running(self, name: bytes, *, starts: bool) -> None:
        with self._lock:
            if starts:
                self._running.append(name)
            elif name in self._running:
                self._running.remove(name)
            if not self._running:
                return
            sole = self._running[0] if len(self._running) == 1 else b""
            if self._marked not in (None, sole):
                self._write_blocking(sole_task_mark(sole))
            self._marked = sole


class _BlockingFile(io.FileIO):
    """A descriptor whose writes block even after O_NONBLOCK was set on it, see `OutputCapture._write_blocking`."""

    def write(self, data: Any, /) -> int:
        while (written := super().write(data)) is None:
            os.set_blocking(self.fileno(), True)
        return written


class CapturedStream(io.TextIOWrapper):
    """A text stream whose lines go to the capture; its `buffer` and its descriptor are those of the process."""

    def __init__(self, capture: OutputCapture, descriptor: int, stream: Stream) -> None:
        binary = io.BufferedWriter(_BlockingFile(descriptor, "wb", closefd=False))
        super().__init__(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self._capture = capture
        self._stream: Stream = stream
        self._lines = LineAssembler(self._emit, INCOMPLETE_CAP_CHARS)
        self._sent: dict[int, int] = {}  # by thread: how many bytes of an incomplete line were sent

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if "\n" in text:
            self.buffer.flush()
        self._lines.add(threading.get_ident(), text)
        return len(text)

    def flush(self) -> None:
        """Sends the incomplete line of this thread too, so that it is visible whatever happens next."""
        if self.closed:
            return  # the interpreter flushes a stream while it is closed
        thread = threading.get_ident()
        if begun := self._lines.take(thread):
            self._emit(thread, begun, False)
        self.buffer.flush()

    def finish(self, of_thread: int | None = None) -> None:
        """Completes unfinished lines: those of one thread, or all."""
        for thread in {*self._lines.threads(), *self._sent} if of_thread is None else {of_thread}:
            begun = self._lines.take(thread)
            if begun or thread in self._sent:
                self._emit(thread, begun, True)
        if not self.closed:
            with suppress(OSError):  # a task has closed the descriptor: what it wrote there is lost
                self.buffer.flush()

    def _emit(self, thread: int, text: str, is_complete: bool) -> None:
        sent = self._sent.pop(thread, 0)
        if sent and (sent > OPEN_LINE_BYTES or len(text) > PIECE_CHARS):
            self._capture.write("", self._stream, continues=True, ends=True)  # or it would be too long for one line
            sent = 0
            if is_complete and not text:
                return  # only its newline was missing
            text = text.removeprefix("\n")
        written = self._capture.write(text, self._stream, continues=sent > 0, ends=is_complete)
        if not is_complete:
            self._sent[thread] = sent + written


class _LastResort(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001  # as in every handler: a record that cannot be formatted is reported
            self.handleError(record)


class _NoCapture:
    """Replaces the engine's capture, which collects output in memory, unbounded, for a report that is not used."""

    def __init__(self, **_streams: Any) -> None:
        self._empty = io.StringIO()

    def activate(self) -> _NoCapture:
        return self

    def capture_task(self) -> _NoCapture:
        return self

    def __enter__(self) -> tuple[io.StringIO, io.StringIO]:
        return self._empty, self._empty

    def __exit__(self, *_: object) -> None:
        """Nothing was replaced."""


def capture_output(descriptor: int) -> OutputCapture:
    """Captures everything that this process writes; only for a runner process."""
    capture = OutputCapture(descriptor)
    capture.open("stdout")
    capture.open("stderr")
    for name in ("stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    original = logging.Handler.handle

    def handle(handler: logging.Handler, record: logging.LogRecord) -> Any:
        return capture.handle(handler, record, original)

    logging.Handler.handle = handle  # type: ignore[method-assign, assignment]  # the only hook that sees every record
    logging.lastResort = _LastResort(logging.INFO)
    logging.getLogger().setLevel(logging.INFO)
    engine.RunLogCapture = _NoCapture
    return capture


def _level_of(number: int) -> Level:
    return next((level for level in reversed(LEVELS) if number >= getattr(logging, level)), "DEBUG")


# --- a thread of the caller's process ---------------------------------------------------------------------------------


class ThreadOutputCapture:
    """Captures the output of one run. `deliver` is called in the threads that write."""

    def __init__(self, deliver: Callable[[list[LogLine]], None]) -> None:
        self._deliver = deliver
        self._tasks: dict[int, list[str]] = {}
        self._streams: tuple[_WrappedStream, ...] = ()

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Wraps the caller's streams within the block."""
        out = _WrappedStream(self, _unwrapped(sys.stdout), "stdout")
        err = _WrappedStream(self, _unwrapped(sys.stderr), "stderr")
        self._streams = (out, err)
        sys.stdout, sys.stderr = out, err
        try:
            yield
        finally:
            for stream in self._streams:
                stream.finish()
            sys.stdout = out.wrapped if sys.stdout is out else sys.stdout
            sys.stderr = err.wrapped if sys.stderr is err else sys.stderr

    def note(self, step: Step) -> None:
        """Tracks the task of this thread; delivers the traceback of a failed one."""
        thread = threading.get_ident()
        if isinstance(step, TaskStarted):
            self._tasks.setdefault(thread, []).append(step.node)
        elif isinstance(step, TaskSucceeded | TaskFailed):
            for stream in self._streams:
                stream.finish(thread)
            if isinstance(step, TaskFailed):
                lines = step.traceback.rstrip("\n").split("\n")
                self._deliver([LogLine(time.time(), step.node, "pyoco", "ERROR", line) for line in lines])
            if step.node in self._tasks.get(thread, []):
                self._tasks[thread].remove(step.node)

    def task_of(self, thread: int) -> str | None:
        tasks = self._tasks.get(thread)
        return tasks[-1] if tasks else None

    def deliver(self, thread: int, text: str, stream: Stream) -> None:
        at, task = time.time(), self.task_of(thread)
        lines = [encodable(line, TEXT_CAP_BYTES) for line in text.split("\n")]
        self._deliver([LogLine(at, task, stream, LEVEL_OF[stream], line) for line in lines])


class _WrappedStream(io.TextIOBase):
    """The caller's stream; copies what the threads of a run write."""

    def __init__(self, capture: ThreadOutputCapture, wrapped: TextIO, name: Stream) -> None:
        self.wrapped = wrapped
        self._capture = capture
        self._name: Stream = name
        self._lines = LineAssembler(self._emit, LIBRARY_LINE_CHARS)

    def write(self, text: str) -> int:
        written = self.wrapped.write(text)
        thread = threading.get_ident()
        if self._capture.task_of(thread) is not None:
            self._lines.add(thread, text)
        return written

    def flush(self) -> None:
        if not self.wrapped.closed:  # also called by the garbage collector, possibly after the caller's close
            self.wrapped.flush()

    def finish(self, of_thread: int | None = None) -> None:
        """Completes unfinished lines: those of one thread, or all."""
        for thread in self._lines.threads() if of_thread is None else {of_thread}:
            if begun := self._lines.take(thread):
                self._emit(thread, begun, True)

    def _emit(self, thread: int, text: str, _is_complete: bool) -> None:
        self._capture.deliver(thread, text, self._name)

    def fileno(self) -> int:
        return self.wrapped.fileno()

    def isatty(self) -> bool:
        return self.wrapped.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.wrapped.encoding


def _unwrapped(stream: TextIO) -> TextIO:
    """The caller's stream, even if an abandoned run has left its wrapper."""
    while isinstance(stream, _WrappedStream):
        stream = stream.wrapped
    return stream
