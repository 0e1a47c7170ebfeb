"""Progress of tasks: `ctx.progress(42, "halfway")`, from any thread of a task, at any rate.

Reports are throttled at the source: per task at most one in a quarter of a second, and later one per 1/400 of the time
that the task has taken, so that a day of reporting yields a few thousand events and a bar that lags by a quarter of a
percent. The latest report wins, and the last one before a task's end is never lost.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyoco.core.context import Context

from pyoco_server.trace import TaskProgressed, encodable

Emit = Callable[[TaskProgressed], None]
ProgressReporter = Callable[[float | None, str | None], None]

MIN_PAUSE_SEC = 0.25
PAUSES_PER_ELAPSED = 400
MAX_REPORTS_PER_RUN = 10_000
MESSAGE_CHARS = 200


@dataclass(slots=True)
class _NodeProgress:
    """The last report of a node; `nth` is the start it belongs to, `due` when the next one may be emitted."""

    nth: int
    since: float
    due: float
    percent: float | None = None
    message: str | None = None
    is_pending: bool = False
    has_ended: bool = False


class ProgressThrottle:
    """Throttles the progress reports of one run. `emit` must be quick and never raise."""

    def __init__(self, emit: Emit, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._emit = emit
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._nodes: dict[str, _NodeProgress] = {}
        self._left = MAX_REPORTS_PER_RUN
        self._timer: threading.Timer | None = None
        self._is_open = True

    def report(self, node: str, nth: int, percent: float | None, message: str | None) -> None:
        """Reports progress; ignored for a node that has ended or was started again."""
        with self._lock:
            now = self._monotonic()
            state = self._state_of(node, nth, now)
            if state is None or (state.percent, state.message) == (percent, message):
                return
            state.percent, state.message, state.is_pending = percent, message, True
            if now >= state.due:
                self._pass_on(node, state, now)
            elif self._timer is None:
                self._wake_in(state.due - now)

    def end(self, node: str) -> None:
        """Emits the pending report of a node before its end."""
        if node not in self._nodes:
            return  # most tasks report nothing and pay nothing
        with self._lock:
            state = self._nodes[node]
            if state.is_pending:
                self._pass_on(node, state, self._monotonic())
            state.has_ended = True

    def close(self) -> None:
        """Drops all further reports: the run has ended."""
        with self._lock:
            self._is_open = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _state_of(self, node: str, nth: int, now: float) -> _NodeProgress | None:
        state = self._nodes.get(node)
        if not self._is_open or (state is not None and (nth < state.nth or (nth == state.nth and state.has_ended))):
            return None
        if state is None:
            self._nodes[node] = state = _NodeProgress(nth=nth, since=now, due=now)
        elif nth > state.nth:  # the iterations of a loop share their pauses
            self._nodes[node] = state = _NodeProgress(nth=nth, since=state.since, due=state.due)
        return state

    def _pass_on(self, node: str, state: _NodeProgress, now: float) -> None:
        state.is_pending = False
        state.due = now + max(MIN_PAUSE_SEC, (now - state.since) / PAUSES_PER_ELAPSED)
        if self._left:
            self._left -= 1
            self._emit(
                TaskProgressed(at=time.time(), node=node, nth=state.nth, percent=state.percent, message=state.message)
            )

    def _wake_in(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._wake)
        self._timer.daemon = True
        self._timer.start()

    def _wake(self) -> None:
        with self._lock:
            self._timer = None
            if not self._is_open:
                return
            now = self._monotonic()
            pending = [(node, state) for node, state in self._nodes.items() if state.is_pending]
            for node, state in pending:
                if now >= state.due:
                    self._pass_on(node, state, now)
            if later := [state.due for _, state in pending if state.is_pending]:
                self._wake_in(max(0.0, min(later) - now))


class TaskContext(Context):  # type: ignore[misc]  # pyoco is not typed
    """pyoco's context as one task sees it: the same attributes, and `progress` for that task.

    It makes the folder of artifacts for a task that uses it. `request_id` is the X-Request-Id of the submit, None for
    a job of a foreign producer; `correlation_id` is what the caller gave to tie requests together.
    """

    __slots__ = ("_report", "correlation_id", "request_id")

    _report: ProgressReporter
    request_id: str | None
    correlation_id: str | None

    @classmethod
    def wrap(
        cls,
        context: Context,
        report: ProgressReporter,
        *,
        request_id: str | None = None,
        correlation_id: str | None = None,
    ) -> TaskContext:
        view = cls.__new__(cls)
        # Shared, not copied: the next task finds what one task sets. Only the slot is its own.
        view.__dict__ = context.__dict__  # type: ignore[misc]  # mypy does not see the base's __dict__
        for name, value in (("_report", report), ("request_id", request_id), ("correlation_id", correlation_id)):
            object.__setattr__(view, name, value)
        return view

    @property
    def artifact_dir(self) -> str:
        """The folder of artifacts, which exists once a task asks for it."""
        folder: str = self.__dict__["artifact_dir"]
        Path(folder).mkdir(parents=True, exist_ok=True)
        return folder

    @artifact_dir.setter
    def artifact_dir(self, folder: str) -> None:
        self.__dict__["artifact_dir"] = folder

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Reports the progress of this task, from 0 to 100 (clamped), and a message.

        Cheap, never waits, works from any thread. Plain pyoco has no such method; a flow that also runs there uses
        `getattr(ctx, "progress", print)(42, "halfway")`.
        """
        self._report(_percent(percent), None if message is None else _line(message))


def _percent(percent: float | None) -> float | None:
    if percent is None:
        return None
    if isinstance(percent, bool) or not hasattr(percent, "__float__"):
        raise TypeError(f"progress is a number from 0 to 100, not {type(percent).__name__}")
    value = float(percent)
    # NaN (0 of 0) is no reason to fail a task.
    return None if math.isnan(value) else min(100.0, max(0.0, value))


def _line(message: object) -> str:
    return encodable(" ".join(str(message)[: 4 * MESSAGE_CHARS].split()))[:MESSAGE_CHARS]
