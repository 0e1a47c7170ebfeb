"""Turns pyoco's synchronous trace callbacks into steps of a run and passes them to a sink. Never blocks or does I/O.

pyoco calls from the threads of its tasks, names no run, reports some failures twice and no retries. A backend therefore
serves one run, numbers the starts of each node (a retry is one), and reports at most one end per node.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

from pyoco.trace.backend import TraceBackend

MESSAGE_CAP_BYTES = 8 * 1024
TRACEBACK_CAP_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksDeclared:
    """The nodes of the flow, in topological order, and its edges: none with loops or branches."""

    at: float
    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskStep:
    at: float
    node: str
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(_TaskStep):
    """The node runs; `nth` counts its starts in this attempt (retries and loops have many), from 1.

    `limit_sec` is how long it may take, with its retries.
    """

    limit_sec: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgressed(_TaskStep):
    """Progress reported by the node: percent (0 to 100) and message; None where it gave none."""

    percent: float | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSucceeded(_TaskStep):
    """The node has succeeded; `output` is plain JSON, bounded in size."""

    output: object


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(_TaskStep):
    """The node has failed for good; a failure that the engine retries is not reported."""

    error_type: str
    message: str
    traceback: str


Step = TasksDeclared | TaskStarted | TaskProgressed | TaskSucceeded | TaskFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDescription:
    """An exception as text: bounded, and safe to encode. `origin` is the place where it was raised."""

    error_type: str
    message: str
    traceback: str
    origin: str | None


def _as_it_is(text: str) -> str:
    return text


def describe_error(
    error: BaseException, *, hide_frames_of: str = "", mask: Callable[[str], str] = _as_it_is
) -> ErrorDescription:
    """Describes any exception, even one whose `__str__` raises; frames up to the last of that file are left out.

    `mask` gets the texts in full, before they are cut.
    """
    trimmed = _frames_after(error.__traceback__, hide_frames_of)
    lines = traceback.format_exception(type(error), error, trimmed)
    name = type(error).__name__
    try:
        message = str(error) or ("out of memory" if isinstance(error, MemoryError) else name)
    except Exception:  # noqa: BLE001  # user code: a `__str__` may raise anything
        message = f"{name} (its message cannot be shown: str() of it raised)"
    frames = traceback.extract_tb(trimmed)
    origin = encodable(f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}") if frames else None
    return ErrorDescription(
        error_type=encodable(name),
        message=encodable(mask(message), MESSAGE_CAP_BYTES),
        traceback=_tail(encodable(mask("".join(lines))), TRACEBACK_CAP_BYTES),
        origin=origin,
    )


def encodable(text: str, cap_bytes: int | None = None) -> str:
    """The text without lone surrogates, cut to so many bytes of UTF-8."""
    return text.encode("utf-8", "backslashreplace")[:cap_bytes].decode("utf-8", "ignore")


def _tail(text: str, cap_bytes: int) -> str:
    data = text.encode()
    # The most useful part of a traceback is its end.
    return text if len(data) <= cap_bytes else data[-cap_bytes:].decode("utf-8", "ignore")


def _frames_after(frames: TracebackType | None, filename: str) -> TracebackType | None:
    kept, here = frames, frames
    while here is not None:
        if here.tb_frame.f_code.co_filename == filename and here.tb_next is not None:
            kept = here.tb_next
        here = here.tb_next
    return kept


class NatsKvTraceBackend(TraceBackend):  # type: ignore[misc]  # pyoco is not typed
    """pyoco's callbacks as steps, in order, from any thread.

    The sink is called under a lock in the thread of the task: it must be quick. An exception that it raises at a
    TaskStarted keeps that node from running. `time_limits_sec` are those that the engine watches, `stop_limits_sec`
    those at which the worker stops the run.
    """

    def __init__(
        self,
        sink: Callable[[Step], None],
        *,
        clock: Callable[[], float] = time.time,
        time_limits_sec: Mapping[str, float] | None = None,
        stop_limits_sec: Mapping[str, float] | None = None,
        hide_frames_of: str = "",
        mask: Callable[[str], str] = _as_it_is,
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._time_limits_sec = time_limits_sec or {}
        self._stop_limits_sec = stop_limits_sec or {}
        self._hide_frames_of = hide_frames_of
        self._mask = mask
        self._lock = threading.Lock()
        self._starts: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._outputs: dict[str, object] = {}
        self._here = threading.local()

    def note_call(self) -> None:
        """Notes that the engine calls the task in this thread: each call after the first of a start is a retry."""
        node = getattr(self._here, "node", None)
        if node is None:
            return
        if self._here.was_called and node in self._open:  # a task that was failed at its deadline stays failed
            self._start(node)
        self._here.was_called = True

    def current_start(self) -> tuple[str, int] | None:
        """The node that runs in this thread, and the number of its start."""
        node = getattr(self._here, "node", None)
        return None if node is None else (node, self._starts[node])

    def keep_output(self, output: object) -> None:
        """Remembers what the task in this thread returned: `on_node_end` does not carry it."""
        node = getattr(self._here, "node", None)
        if node is not None:
            self._outputs[node] = output

    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None:
        """Not reported: the caller of the flow knows."""

    def on_flow_end(self, flow_name: str) -> None:
        """Not reported: pyoco omits this call when a task failed."""

    def on_node_start(self, node_name: str) -> None:
        self._start(node_name)
        self._here.node, self._here.was_called = node_name, False

    def _start(self, node_name: str) -> None:
        with self._lock:
            nth = self._starts.get(node_name, 0) + 1
            limit_sec = self._stop_limits_sec.get(node_name)
            self._sink(TaskStarted(at=self._clock(), node=node_name, nth=nth, limit_sec=limit_sec))
            self._starts[node_name] = self._open[node_name] = nth

    def on_node_end(self, node_name: str, duration_ms: float) -> None:
        limit_sec = self._time_limits_sec.get(node_name)
        if limit_sec is not None and duration_ms > limit_sec * 1000:
            # pyoco fails the run at the deadline, lets the task continue, and then reports its success.
            self.on_node_error(node_name, TimeoutError(f"Task '{node_name}' exceeded timeout of {limit_sec}s"))
            return
        with self._lock:
            output = self._outputs.pop(node_name, None)
            nth = self._open.pop(node_name, None)
            if nth is not None:
                self._sink(TaskSucceeded(at=self._clock(), node=node_name, nth=nth, output=output))

    def on_node_error(self, node_name: str, error: BaseException) -> None:
        failure = describe_error(error, hide_frames_of=self._hide_frames_of, mask=self._mask)
        with self._lock:
            nth = self._open.pop(node_name, None)
            if nth is None:
                return  # pyoco reports an isolated failure from the task's thread and again from the engine's
            self._sink(
                TaskFailed(
                    at=self._clock(),
                    node=node_name,
                    nth=nth,
                    error_type=failure.error_type,
                    message=failure.message,
                    traceback=failure.traceback,
                )
            )

    def fail_open_nodes(self, error: BaseException) -> None:
        """Ends every started node with this error, which ended the run."""
        for node_name in tuple(self._open):
            self.on_node_error(node_name, error)
