"""How far tasks say they are: `ctx.progress(42, "halfway")`, from any thread of a task, at any rate.

What is told is thinned out where it arises. Of one task there is at most one report in a quarter of a second, and later
one in a four hundredth of the time that the task has taken, so that a day of reporting leaves a few thousand events and
a bar that lags by a quarter of a percent. The latest word wins, and the last one before a task's end is never lost.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyoco.core.context import Context

from pyoco_server.trace import NodeProgressed, encodable

Emit = Callable[[NodeProgressed], None]
Report = Callable[[float | None, str | None], None]

SHORTEST_PAUSE_SEC = 0.25
PAUSES_PER_TIME_TAKEN = 400
MOST_REPORTS_PER_RUN = 10_000
MESSAGE_CHARS = 200


@dataclass(slots=True)
class _Told:
    """One node that has spoken: in which of its beginnings, since when, and what it said last."""

    nth: int
    since: float
    due: float
    percent: float | None = None
    message: str | None = None
    waits: bool = False
    has_ended: bool = False


class ProgressDesk:
    """Takes reports of the nodes of one run and passes some of them on. `emit` must be quick and never raise."""

    def __init__(self, emit: Emit, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._emit = emit
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._nodes: dict[str, _Told] = {}
        self._left = MOST_REPORTS_PER_RUN
        self._timer: threading.Timer | None = None
        self._is_open = True

    def report(self, node: str, nth: int, percent: float | None, message: str | None) -> None:
        """The node says how far it is; one that has ended, or begun anew, is not listened to any more."""
        with self._lock:
            now = self._monotonic()
            told = self._listen_to(node, nth, now)
            if told is None or (told.percent, told.message) == (percent, message):
                return
            told.percent, told.message, told.waits = percent, message, True
            if now >= told.due:
                self._tell(node, told, now)
            elif self._timer is None:
                self._wake_in(told.due - now)

    def end(self, node: str) -> None:
        """The node is about to be told to have ended: what it said last goes before that."""
        if node not in self._nodes:
            return  # most tasks never say anything, and pay nothing for it
        with self._lock:
            told = self._nodes[node]
            if told.waits:
                self._tell(node, told, self._monotonic())
            told.has_ended = True

    def close(self) -> None:
        """The run is over: nothing is told any more."""
        with self._lock:
            self._is_open = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _listen_to(self, node: str, nth: int, now: float) -> _Told | None:
        told = self._nodes.get(node)
        if not self._is_open or (told is not None and (nth < told.nth or (nth == told.nth and told.has_ended))):
            return None
        if told is None:
            self._nodes[node] = told = _Told(nth=nth, since=now, due=now)
        elif nth > told.nth:  # the rounds of a loop share their pauses
            self._nodes[node] = told = _Told(nth=nth, since=told.since, due=told.due)
        return told

    def _tell(self, node: str, told: _Told, now: float) -> None:
        told.waits = False
        told.due = now + max(SHORTEST_PAUSE_SEC, (now - told.since) / PAUSES_PER_TIME_TAKEN)
        if self._left:
            self._left -= 1
            self._emit(
                NodeProgressed(at=time.time(), node=node, nth=told.nth, percent=told.percent, message=told.message)
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
            waiting = [(node, told) for node, told in self._nodes.items() if told.waits]
            for node, told in waiting:
                if now >= told.due:
                    self._tell(node, told, now)
            if later := [told.due for _, told in waiting if told.waits]:
                self._wake_in(max(0.0, min(later) - now))


class TaskContext(Context):  # type: ignore[misc]  # pyoco is not typed
    """pyoco's context as one task sees it: the very same attributes, and `progress`, which knows whose it is."""

    __slots__ = ("_report",)

    _report: Report

    @classmethod
    def seen_by(cls, context: Context, report: Report) -> TaskContext:
        view = cls.__new__(cls)
        # Shared, not copied: what one task sets the next one finds. The slot is what is not shared.
        view.__dict__ = context.__dict__  # type: ignore[misc]  # mypy does not see the base's __dict__
        object.__setattr__(view, "_report", report)
        return view

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Say how far this task is: from 0 to 100 (what is beyond is cut), and what it is doing.

        Costs next to nothing, never waits and works from any thread. Plain pyoco has no such method; a flow that is to
        run there too says `getattr(ctx, "progress", print)(42, "halfway")`.
        """
        self._report(_percent(percent), None if message is None else _line(message))


def _percent(percent: float | None) -> float | None:
    if percent is None:
        return None
    if isinstance(percent, bool) or not hasattr(percent, "__float__"):
        raise TypeError(f"progress is a number from 0 to 100, not {type(percent).__name__}")
    value = float(percent)
    # A share that cannot be computed (0 of 0) is no reason to fail a task.
    return None if math.isnan(value) else min(100.0, max(0.0, value))


def _line(message: object) -> str:
    return encodable(" ".join(str(message)[: 4 * MESSAGE_CHARS].split()))[:MESSAGE_CHARS]
