"""The timeout of one attempt: the runner is cancelled when it is reached, and killed after the grace period.

Uses the event loop's clock in the worker: an unreachable broker, a changed system time or a busy flow do not delay it.
`Attempt` decides whether the run failed by it, because a cancel wins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from pyoco_server.domain.execution.state import Failure, StopHow, TimeoutReceipt
from pyoco_server.errors import RunTimedOut
from pyoco_server.worker.runner_pool.executor import FlowRunner
from pyoco_server.worker.runner_process.protocol import RunEnded, RunnerDied

logger = logging.getLogger(__name__)

MAX_NAMES = 5


class TimeLimit:
    """The limit of one attempt, counted from the moment its runner gets the job; `None`: no limit."""

    def __init__(self, limit_sec: float | None, grace_sec: float, now: Callable[[], float]) -> None:
        self._limit_sec = limit_sec
        self._grace_sec = grace_sec
        self._now = now
        self._timer: asyncio.TimerHandle | None = None
        self._reached_at: float | None = None
        self._killed_at: float | None = None

    def has_stopped(self, end: RunEnded | RunnerDied) -> bool:
        """Whether the run ended because of the limit; a run that ended in time and was reported late did not."""
        if self._reached_at is None:
            return False
        is_cancelled = isinstance(end, RunEnded) and end.how == "cancelled"
        return is_cancelled or end.at is None or end.at >= self._reached_at

    def begin(self, runner: FlowRunner, log_fields: Callable[[], dict[str, object]]) -> None:
        if self._limit_sec is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limit_sec, self._reach, runner, log_fields)

    def end(self) -> None:
        """Stops the timer: the runner has ended, or is stopped for another reason."""
        if self._timer is not None:
            self._timer.cancel()

    def receipt(self, end: RunEnded | RunnerDied, stopped_by_kill: StopHow) -> TimeoutReceipt:
        if self._limit_sec is None or self._reached_at is None:
            raise RuntimeError("the limit was not reached")
        how, stopped_at = (
            (StopHow.COOPERATIVE, end.at) if isinstance(end, RunEnded) else (stopped_by_kill, self._killed_at)
        )
        return TimeoutReceipt(
            limit_sec=self._limit_sec,
            reached_at=self._reached_at,
            stopped_at=max(self._reached_at, stopped_at if stopped_at is not None else self._now()),
            how=how,
        )

    def _reach(self, runner: FlowRunner, log_fields: Callable[[], dict[str, object]]) -> None:
        self._reached_at = self._now()
        logger.warning(RunTimedOut.message(), extra=log_fields() | RunTimedOut.ids() | {"timeout_sec": self._limit_sec})
        runner.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._grace_sec, self._kill, runner)

    def _kill(self, runner: FlowRunner) -> None:
        self._killed_at = self._now()
        runner.kill()


def timeout_failure(receipt: TimeoutReceipt, running: Iterable[str]) -> Failure:
    """The failure of a run that timed out: the limit, the running tasks, and how it was stopped."""
    names = list(running)
    shown = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
    during = f" while running {shown}" if names else ""
    message = f"{RunTimedOut.message()}: more than {receipt.limit_sec:g} s (timeout_sec){during}; {_HOW[receipt.how]}"
    return Failure(code=RunTimedOut.err_id, message=message)


_HOW = {
    StopHow.COOPERATIVE: "it stopped on request",
    StopHow.KILLED: "its process was killed",
    StopHow.ABANDONED: "its thread could not be stopped and was left behind",
}
