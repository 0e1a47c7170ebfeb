"""Progress reports of tasks: from any thread, throttled and bounded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyoco.core.context import Context

from pyoco_server.trace import TaskProgressed
from pyoco_server.worker.runner_process.progress import (
    MAX_REPORTS_PER_RUN,
    MESSAGE_CHARS,
    MIN_PAUSE_SEC,
    PAUSES_PER_ELAPSED,
    ProgressThrottle,
    TaskContext,
)

PATIENCE_SEC = 10.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ManualTimer:
    """A timer that a test fires itself."""

    waiting: list[ManualTimer]

    def __init__(self, seconds: float, call: Any) -> None:
        self.seconds, self.call, self.daemon = seconds, call, False

    def start(self) -> None:
        self.waiting.append(self)

    def cancel(self) -> None:
        self.waiting.remove(self)


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[ManualTimer]:
    waiting: list[ManualTimer] = []
    monkeypatch.setattr(ManualTimer, "waiting", waiting, raising=False)
    monkeypatch.setattr(threading, "Timer", ManualTimer)
    return waiting


def throttle_of(clock: Clock) -> tuple[ProgressThrottle, list[TaskProgressed]]:
    emitted: list[TaskProgressed] = []
    return ProgressThrottle(emitted.append, monotonic=clock), emitted


def percents(emitted: list[TaskProgressed]) -> list[float | None]:
    return [step.percent for step in emitted]


def test_the_first_report_is_emitted_at_once_and_the_latest_after_a_pause(timers: list[ManualTimer]) -> None:
    clock = Clock()
    throttle, emitted = throttle_of(clock)

    for percent in range(100):
        throttle.report("load", 1, float(percent), None)

    assert percents(emitted) == [0.0]
    (timer,) = timers
    assert timer.seconds == MIN_PAUSE_SEC
    clock.now = MIN_PAUSE_SEC
    timer.call()
    assert percents(emitted) == [0.0, 99.0]


def test_the_last_report_of_a_task_precedes_its_end_and_later_ones_are_dropped(timers: list[ManualTimer]) -> None:
    throttle, emitted = throttle_of(Clock())
    throttle.report("load", 1, 1.0, None)
    throttle.report("load", 1, 100.0, "done")

    throttle.end("load")
    throttle.report("load", 1, 50.0, "from a thread that was left behind")

    assert [(step.percent, step.message) for step in emitted] == [(1.0, None), (100.0, "done")]


def test_each_task_is_throttled_separately(timers: list[ManualTimer]) -> None:
    throttle, emitted = throttle_of(Clock())

    throttle.report("load", 1, 10.0, None)
    throttle.report("save", 1, 20.0, None)

    assert [(step.node, step.percent) for step in emitted] == [("load", 10.0), ("save", 20.0)]


def test_a_repeated_report_is_emitted_once(timers: list[ManualTimer]) -> None:
    clock = Clock()
    throttle, emitted = throttle_of(clock)
    throttle.report("load", 1, 10.0, None)
    clock.now = 10.0

    throttle.report("load", 1, 10.0, None)

    assert percents(emitted) == [10.0]


def test_a_day_of_reports_emits_a_few_thousand(timers: list[ManualTimer]) -> None:
    clock = Clock()
    throttle, emitted = throttle_of(clock)

    for tenth in range(10 * 24 * 3600):
        clock.now = tenth / 10
        throttle.report("load", 1, tenth / 10_000, str(tenth))

    assert 2_000 < len(emitted) < 3_500
    assert emitted[-1].percent == pytest.approx(24 * 3600 / 1_000, rel=2 / PAUSES_PER_ELAPSED)


def test_iterations_of_a_loop_share_one_throttle(timers: list[ManualTimer]) -> None:
    throttle, emitted = throttle_of(Clock())
    throttle.report("load", 1, 1.0, None)
    throttle.end("load")

    throttle.report("load", 2, 2.0, None)

    assert percents(emitted) == [1.0]


def test_reports_of_an_earlier_iteration_are_dropped(timers: list[ManualTimer]) -> None:
    throttle, emitted = throttle_of(Clock())
    throttle.report("load", 2, 2.0, None)

    throttle.report("load", 1, 1.0, "late")
    throttle.end("load")

    assert percents(emitted) == [2.0]


def test_the_number_of_reports_of_a_run_is_bounded(timers: list[ManualTimer]) -> None:
    throttle, emitted = throttle_of(Clock())

    for nth in range(1, MAX_REPORTS_PER_RUN + 10):
        throttle.report("load", nth, 1.0, None)
        throttle.end("load")

    assert len(emitted) == MAX_REPORTS_PER_RUN


def test_nothing_is_emitted_after_the_end_of_the_run(timers: list[ManualTimer]) -> None:
    throttle, emitted = throttle_of(Clock())
    throttle.report("load", 1, 1.0, None)
    throttle.report("load", 1, 2.0, None)

    throttle.close()
    throttle.report("load", 1, 3.0, None)

    assert timers == []
    assert percents(emitted) == [1.0]


def test_a_last_report_is_emitted_by_the_timer() -> None:
    arrived, emitted = threading.Event(), []

    def emit(step: TaskProgressed) -> None:
        emitted.append(step)
        if step.percent == 20.0:
            arrived.set()

    throttle = ProgressThrottle(emit)

    throttle.report("load", 1, 10.0, None)
    throttle.report("load", 1, 20.0, None)

    assert arrived.wait(PATIENCE_SEC)
    throttle.close()
    assert percents(emitted) == [10.0, 20.0]


# --- the context of a task --------------------------------------------------------------------------------------------


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(params={"n": 1}, artifact_dir=str(tmp_path))


def progress_of(context: Context, *args: Any, **named: Any) -> tuple[float | None, str | None]:
    reported: list[tuple[float | None, str | None]] = []
    TaskContext.wrap(context, lambda percent, message: reported.append((percent, message))).progress(*args, **named)
    return reported[0]


@pytest.mark.parametrize(
    ("percent", "reported"),
    [(42, 42.0), (0, 0.0), (100.0000001, 100.0), (-3, 0.0), (float("inf"), 100.0), (float("nan"), None), (None, None)],
)
def test_progress_is_clamped_and_never_fails_a_task(
    context: Context, percent: float | None, reported: float | None
) -> None:
    assert progress_of(context, percent) == (reported, None)


@pytest.mark.parametrize("percent", ["42", True, [42]])
def test_progress_that_is_no_number_is_an_error(context: Context, percent: Any) -> None:
    with pytest.raises(TypeError, match="a number from 0 to 100"):
        progress_of(context, percent)


def test_a_message_is_one_line_of_bounded_length(context: Context) -> None:
    assert progress_of(context, 1, "two\nlines")[1] == "two lines"
    assert progress_of(context, message="\ud800 " + "x" * 10_000) == (None, "\\ud800 " + "x" * (MESSAGE_CHARS - 7))


def test_the_context_of_a_task_is_the_context_of_the_run(context: Context) -> None:
    view = TaskContext.wrap(context, lambda _percent, _message: None)

    view.scratch["a"] = 1
    view.colour = "blue"
    view.set_result("load", 7)

    assert isinstance(view, Context)
    assert (context.scratch, context.colour, context.get_result("load")) == ({"a": 1}, "blue", 7)
    assert not hasattr(context, "progress")
    assert view.params is context.params
    assert view.is_cancelled is False
