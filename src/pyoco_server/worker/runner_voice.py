"""What user code writes in a runner, with time, task, stream and level, straight into the log pipe; keeps nothing back.

`sys.stdout` and `sys.stderr` are streams of ours, the same under `sys.__stdout__` and `sys.__stderr__`. They write by a
descriptor of their own, so that a line is in the kernel's hands when `print` returns. What goes to descriptors 1 and 2
past Python lands in the same pipe without a tag.

`logging` is left as user code sets it up: whatever a handler writes to one of our streams is a line of `logging` with
the record's level. Where nobody has set anything up, records from INFO on are written instead of those from WARNING on.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal

from pyoco.core import engine

from pyoco_server.domain.run_logs.lines import Level, Stream
from pyoco_server.trace import NodeBegan, NodeFailed, NodeSucceeded, Step
from pyoco_server.worker.tagged_lines import LEVEL_OF, sole_task, tagged, task_name, writes

# What is begun and not ended is kept up to this length: `print` writes a line and its newline one after the other, and
# nobody's words should come in between.
BEGUN_CAP_CHARS = 64 * 1024
# A line that goes on after it was sent in part is ended before it is too long to be read as one.
PIECE_CHARS = 4096
OPEN_LINE_BYTES = 8 * 1024


class _Here(threading.local):
    def __init__(self) -> None:
        self.tasks: list[bytes] = []  # those that this thread is in, the innermost last
        self.level: Level | None = None  # of the record that a handler is writing in this thread


class Voice:
    """The way from this process into its log pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._here = _Here()
        self._new_lock()
        self._running: list[bytes] = []
        self._told: bytes | None = None
        self._streams: list[VoiceStream] = []
        os.register_at_fork(after_in_child=self._new_lock)  # whoever held it is not there to let it go

    def begin_run(self) -> None:
        """A new run: the first task that begins is the only one, and need not be told."""
        with self._lock:
            self._running.clear()
            self._told = None

    def end_run(self) -> None:
        """Nothing more comes: lines that were begun are whole, and a stream that user code closed is opened anew."""
        for stream in self._streams:
            stream.finish()
        for name in ("stdout", "stderr"):
            if getattr(sys, name).closed:
                self.open(name)

    def open(self, name: Literal["stdout", "stderr"]) -> None:
        """A new `sys.stdout` or `sys.stderr`."""
        stream = VoiceStream(self, {"stdout": 1, "stderr": 2}[name], name)
        self._streams = [*(one for one in self._streams if not one.closed), stream]
        setattr(sys, name, stream)

    def note(self, step: Step) -> None:
        """Learn which tasks run, in the thread in which they do; what a failed one leaves behind is written down."""
        match step:
            case NodeBegan(node=node):
                name = task_name(node)
                self._here.tasks.append(name)
                self._changed(name, begins=True)
            case NodeSucceeded(node=node) | NodeFailed(node=node):
                name = task_name(node)
                for stream in self._streams:
                    stream.finish(threading.get_ident())
                if isinstance(step, NodeFailed):
                    self.write(step.traceback.rstrip("\n"), "pyoco", "ERROR", task=name)
                if name in self._here.tasks:
                    self._here.tasks.remove(name)
                self._changed(name, begins=False)

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
        """Lines without their last newline; with `ends` false the line goes on, and with `continues` it did so.

        Returns how many bytes that were in the pipe.
        """
        if self._here.level is not None and level is None:
            stream, level = "logging", self._here.level
        data = tagged(
            text,
            stream=stream,
            level=level or LEVEL_OF[stream],
            at_us=time.time_ns() // 1000,
            task=self._task() if task is None else task,
            continues=continues,
            ends=ends,
        )
        with self._lock:  # the pieces of a line stay together
            for piece in writes(data):
                os.write(self._descriptor, piece)
        return len(data)

    def handle(self, handler: logging.Handler, record: logging.LogRecord, original: Any) -> Any:
        """Let a handler do its work; what it writes to our streams meanwhile is of this record."""
        here, before = self._here, self._here.level
        here.level = _level_of(record.levelno)
        try:
            return original(handler, record)
        finally:
            here.level = before

    def _new_lock(self) -> None:
        self._lock = threading.RLock()  # taken again by a signal's handler that prints in the middle of a print

    def _task(self) -> bytes:
        if self._here.tasks:
            return self._here.tasks[-1]
        # A thread that a task has started: whose it is can only be told while one task runs.
        running = self._running
        return running[0] if len(running) == 1 else b""

    def _changed(self, name: bytes, *, begins: bool) -> None:
        with self._lock:
            if begins:
                self._running.append(name)
            elif name in self._running:
                self._running.remove(name)
            if not self._running:
                return
            sole = self._running[0] if len(self._running) == 1 else b""
            if self._told not in (None, sole):
                os.write(self._descriptor, sole_task(sole))
            self._told = sole


class VoiceStream(io.TextIOWrapper):
    """A text stream whose lines go to the voice; its `buffer` and its descriptor are those of the process."""

    def __init__(self, voice: Voice, descriptor: int, stream: Stream) -> None:
        binary = open(descriptor, "wb", closefd=False)  # noqa: SIM115 - lives as long as the stream
        super().__init__(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self._voice = voice
        self._stream: Stream = stream
        self._begun: dict[int, str] = {}  # by thread: the beginning of a line
        self._out: dict[int, int] = {}  # by thread: how many bytes of the beginning of a line were sent

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        thread = threading.get_ident()
        begun = self._begun.pop(thread, "") if self._begun else ""
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self.buffer.flush()
            self._say(thread, begun + whole, ends=True)
            begun = ""
        begun += rest
        if len(begun) >= BEGUN_CAP_CHARS:  # somebody who never ends a line
            self._say(thread, begun, ends=False)
        elif begun:
            self._begun[thread] = begun
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]  # of text, as its base has it
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """What this thread has begun goes out too: whoever flushes wants it to be seen, whatever happens next."""
        if self.closed:
            return  # as it is closed the interpreter flushes it, and that is no fault of anybody's
        thread = threading.get_ident()
        if begun := self._begun.pop(thread, ""):
            self._say(thread, begun, ends=False)
        self.buffer.flush()

    def finish(self, of_thread: int | None = None) -> None:
        """Lines that were begun are whole: those of one thread, or all."""
        for thread in {*self._begun, *self._out} if of_thread is None else {of_thread}:
            begun = self._begun.pop(thread, "")
            if begun or thread in self._out:
                self._say(thread, begun, ends=True)
        if not self.closed:
            with suppress(OSError):  # a task has closed the descriptor below: what it wrote there is lost by its doing
                self.buffer.flush()

    def _say(self, thread: int, text: str, *, ends: bool) -> None:
        sent = self._out.pop(thread, 0)
        if sent and (sent > OPEN_LINE_BYTES or len(text) > PIECE_CHARS):
            self._voice.write("", self._stream, continues=True, ends=True)  # or it would be too long for one line
            sent = 0
            if ends and not text:
                return  # its newline was all that was missing
            text = text.removeprefix("\n")
        written = self._voice.write(text, self._stream, continues=sent > 0, ends=ends)
        if not ends:
            self._out[thread] = sent + written


class _LastResort(logging.Handler):
    """What `logging` falls back to where nobody has set it up."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001  # as every handler: a record that cannot be formatted is told, not raised
            self.handleError(record)


class _NoCapture:
    """Stands where the engine gathers what tasks print: in memory, without bound, for a report that nobody reads."""

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


def take_over(descriptor: int) -> Voice:
    """Make everything that this process writes go through a voice; for a process of our own only."""
    voice = Voice(descriptor)
    voice.open("stdout")
    voice.open("stderr")
    for name in ("stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))  # a process of its own has its own
    original = logging.Handler.handle

    def handle(handler: logging.Handler, record: logging.LogRecord) -> Any:
        return voice.handle(handler, record, original)

    logging.Handler.handle = handle  # type: ignore[method-assign, assignment]  # the one way to know whose words they are
    logging.lastResort = _LastResort(logging.INFO)
    logging.getLogger().setLevel(logging.INFO)
    engine.RunLogCapture = _NoCapture
    return voice


def _level_of(number: int) -> Level:
    if number >= logging.CRITICAL:
        return "CRITICAL"
    if number >= logging.ERROR:
        return "ERROR"
    if number >= logging.WARNING:
        return "WARNING"
    return "INFO" if number >= logging.INFO else "DEBUG"
