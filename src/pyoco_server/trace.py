"""Turns pyoco's synchronous callbacks into steps of a run and hands them to a sink; it never waits, stores or connects.

pyoco calls from the threads its tasks run in, names no run and reports some failures twice. A backend therefore serves
one run, numbers each beginning of a node, and says of every beginning at most once how it ended.
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
class NodesDeclared:
    """The flow has these nodes; those that come first are named first."""

    at: float
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBegan:
    """The node runs; `nth` counts its beginnings in this attempt (a loop has many), from 1."""

    at: float
    node: str
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgressed:
    """The node says how far it is (0 to 100) and what it is doing; None is what it did not say."""

    at: float
    node: str
    nth: int
    percent: float | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSucceeded:
    """The node is done; `output` is plain JSON, bounded in size."""

    at: float
    node: str
    nth: int
    output: object


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed:
    """The engine has given the node up; a failure that it tries again is not reported."""

    at: float
    node: str
    nth: int
    error_type: str
    message: str
    traceback: str


Step = NodesDeclared | NodeBegan | NodeProgressed | NodeSucceeded | NodeFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is told of an exception: bounded, and safe to encode."""

    error_type: str
    message: str
    traceback: str


def describe_error(error: BaseException, *, hide_frames_of: str = "") -> Failure:
    """Tell an exception in words, even one whose `__str__` raises; frames up to the last of that file are left out."""
    trimmed = _frames_after(error.__traceback__, hide_frames_of)
    lines = traceback.format_exception(type(error), error, trimmed)
    name = type(error).__name__
    try:
        message = str(error) or ("out of memory" if isinstance(error, MemoryError) else name)
    except Exception:  # noqa: BLE001  # user code: a `__str__` may raise anything
        message = f"{name} (its message cannot be shown: str() of it raised)"
    return Failure(
        error_type=encodable(name),
        message=encodable(message, MESSAGE_CAP_BYTES),
        traceback=_tail(encodable("".join(lines)), TRACEBACK_CAP_BYTES),
    )


def encodable(text: str, cap_bytes: int | None = None) -> str:
    """The text without lone surrogates, cut to so many bytes of UTF-8."""
    return text.encode("utf-8", "backslashreplace")[:cap_bytes].decode("utf-8", "ignore")


def _tail(text: str, cap_bytes: int) -> str:
    data = text.encode()
    # What a reader needs of a traceback stands at its end.
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

    The sink is called under a lock and in the thread of the task: it must be quick. What it raises at a NodeBegan keeps
    that node from running.
    """

    def __init__(
        self,
        sink: Callable[[Step], None],
        *,
        clock: Callable[[], float] = time.time,
        time_limits_sec: Mapping[str, float] | None = None,
        hide_frames_of: str = "",
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._time_limits_sec = time_limits_sec or {}
        self._hide_frames_of = hide_frames_of
        self._lock = threading.Lock()
        self._beginnings: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._outputs: dict[str, object] = {}
        self._here = threading.local()

    def keep_output(self, output: object) -> None:
        """Remember what the task in this thread returned: `on_node_end` comes without it."""
        node = getattr(self._here, "node", None)
        if node is not None:
            self._outputs[node] = output

    def on_flow_start(self, flow_name: str, run_id: str | None = None) -> None:
        """Nothing to tell: whoever runs the flow knows."""

    def on_flow_end(self, flow_name: str) -> None:
        """Nothing to tell; pyoco leaves this call out when a task failed."""

    def on_node_start(self, node_name: str) -> None:
        with self._lock:
            nth = self._beginnings.get(node_name, 0) + 1
            self._sink(NodeBegan(at=self._clock(), node=node_name, nth=nth))
            self._beginnings[node_name] = self._open[node_name] = nth
            self._here.node = node_name

    def on_node_end(self, node_name: str, duration_ms: float) -> None:
        limit_sec = self._time_limits_sec.get(node_name)
        if limit_sec is not None and duration_ms > limit_sec * 1000:
            # pyoco fails the run at the deadline, lets the task go on, and then calls it a success.
            self.on_node_error(node_name, TimeoutError(f"Task '{node_name}' exceeded timeout of {limit_sec}s"))
            return
        with self._lock:
            output = self._outputs.pop(node_name, None)
            nth = self._open.pop(node_name, None)
            if nth is not None:
                self._sink(NodeSucceeded(at=self._clock(), node=node_name, nth=nth, output=output))

    def on_node_error(self, node_name: str, error: BaseException) -> None:
        failure = describe_error(error, hide_frames_of=self._hide_frames_of)
        with self._lock:
            nth = self._open.pop(node_name, None)
            if nth is None:
                return  # an isolated failure is reported by the task's thread and again by the engine's
            self._sink(
                NodeFailed(
                    at=self._clock(),
                    node=node_name,
                    nth=nth,
                    error_type=failure.error_type,
                    message=failure.message,
                    traceback=failure.traceback,
                )
            )

    def fail_open_nodes(self, error: BaseException) -> None:
        """The run is over by this error: no node that began is left without an end."""
        for node_name in tuple(self._open):
            self.on_node_error(node_name, error)
