"""Stops the runner of one attempt: at the run's time limit or on a cancel, and by force after the grace period.

Uses the event loop's clock in the worker: an unreachable broker, a changed system time or a busy flow do not delay it.
A cancel wins: from then on its own grace period counts, and the limit has no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from pyoco_server.domain.execution.state import Failure, StopHow, TimeoutReceipt
from pyoco_server.errors import CancelTimedOut, RunTimedOut
from pyoco_server.worker.runner_pool.executor import FlowRunner
from pyoco_server.worker.runner_process.protocol import RunEnded, RunnerDied

logger = logging.getLogger(__name__)

MAX_NAMES = 5


class RunnerStop:
    """The limit counts from the moment the runner gets the job; `None`: no limit."""

    def __init__(
        self,
        runner: FlowRunner,
        limit_sec: float | None,
        grace_sec: float,
        now: Callable[[], float],
        log_fields: Callable[[], dict[str, object]],
    ) -> None:
        self.cancelled_at: float | None = None
        self._runner = runner
        self._limit_sec = limit_sec
        self._grace_sec = grace_sec
        self._now = now
        self._log_fields = log_fields
        self._reached_at: float | None = None
        self._killed_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        if limit_sec is not None:
            self._call_later(limit_sec, self._reach)

    def cancel(self) -> None:
        """Requests the run to stop; repeated calls have no effect."""
        if self.cancelled_at is None:
            self.cancelled_at = self._now()
            self._request(self._kill_canceled)

    def end(self) -> None:
        """The runner has ended, or is stopped for another reason."""
        if self._timer is not None:
            self._timer.cancel()

    def kill(self) -> None:
        self._killed_at = self._now()
        self._runner.kill()

    def receipt(self, end: RunEnded | RunnerDied, stopped_by_kill: StopHow) -> TimeoutReceipt | None:
        """How the run was stopped at its limit; None if it ended otherwise, or in time and was reported late."""
        if self._limit_sec is None or self._reached_at is None or self.cancelled_at is not None:
            return None
        was_cancelled = isinstance(end, RunEnded) and end.how == "cancelled"
        if not was_cancelled and end.at is not None and end.at < self._reached_at:
            return None
        how, stopped_at = (
            (StopHow.COOPERATIVE, end.at) if isinstance(end, RunEnded) else (stopped_by_kill, self._killed_at)
        )
        return TimeoutReceipt(
            limit_sec=self._limit_sec,
            reached_at=self._reached_at,
            stopped_at=max(self._reached_at, stopped_at if stopped_at is not None else self._now()),
            how=how,
        )

    def _reach(self) -> None:
        self._reached_at = self._now()
        facts = {"timeout_sec": self._limit_sec}
        logger.warning(RunTimedOut.message(), extra=self._log_fields() | RunTimedOut.ids() | facts)
        self._request(self.kill)

    def _request(self, kill: Callable[[], None]) -> None:
        self.end()
        self._runner.cancel()
        self._call_later(self._grace_sec, kill)

    def _kill_canceled(self) -> None:
        logger.warning(CancelTimedOut.message(), extra=self._log_fields() | CancelTimedOut.ids())
        self.kill()

    def _call_later(self, delay_sec: float, then: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_sec, then)


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
