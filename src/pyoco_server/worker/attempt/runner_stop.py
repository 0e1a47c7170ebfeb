"""Stops the runner of one attempt: at a time limit or on a cancel, and by force after the grace period.

Uses the event loop's clock in the worker: an unreachable broker, a changed system time or a busy flow do not delay it.
The first limit that is reached counts: that of the run, or of one of its tasks. A cancel wins: from then on its own
grace period counts, and limits have no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyoco_server.domain.execution.state import Failure, StopHow, TimeoutReceipt
from pyoco_server.errors import CancelTimedOut, RunTimedOut
from pyoco_server.trace import Step, TaskFailed, TaskStarted, TaskSucceeded
from pyoco_server.worker.runner_pool.executor import FlowRunner
from pyoco_server.worker.runner_process.protocol import RunEnded, RunnerDied

logger = logging.getLogger(__name__)

MAX_NAMES = 5
# A run over its limit is given the grace period of a cancel, but no longer than the limit itself, and this at least.
SHORTEST_GRACE_SEC = 1.0
# The end of a task that was just in time may be on its way.
TASK_LIMIT_SLACK_SEC = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    limit_sec: float
    task: str | None
    at: float


class RunnerStop:
    """The limit of the run counts from the moment the runner gets the job; `None`: no limit."""

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
        self._grace_sec = grace_sec
        self._now = now
        self._log_fields = log_fields
        self._reached: _Reached | None = None
        self._killed_at: float | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._limits: dict[str | None, asyncio.TimerHandle] = {}  # by task; None: that of the run
        if limit_sec is not None:
            self._limit(limit_sec, None)

    def note_steps(self, steps: Iterable[Step]) -> None:
        """Watches the limits of running tasks; a retry does not renew the limit of its task."""
        for step in steps:
            if isinstance(step, TaskStarted):
                if step.limit_sec is not None and step.node not in self._limits:
                    self._limit(step.limit_sec, step.node)
            elif isinstance(step, TaskSucceeded | TaskFailed) and (timer := self._limits.pop(step.node, None)):
                timer.cancel()

    def cancel(self) -> None:
        """Requests the run to stop; repeated calls have no effect."""
        if self.cancelled_at is None:
            self.cancelled_at = self._now()
            self._request(self._kill_canceled, self._grace_sec)

    def end(self) -> None:
        """The runner has ended, or is stopped for another reason."""
        for timer in (self._kill_timer, *self._limits.values()):
            if timer is not None:
                timer.cancel()

    def kill(self) -> None:
        self._killed_at = self._now()
        self._runner.kill()

    def receipt(self, end: RunEnded | RunnerDied, stopped_by_kill: StopHow) -> TimeoutReceipt | None:
        """How the run was stopped at a limit; None if it ended otherwise, or in time and was reported late."""
        reached = self._reached
        if reached is None or self.cancelled_at is not None:
            return None
        was_cancelled = isinstance(end, RunEnded) and end.how == "cancelled"
        if not was_cancelled and end.at is not None and end.at < reached.at:
            return None
        how, stopped_at = (
            (StopHow.COOPERATIVE, end.at) if isinstance(end, RunEnded) else (stopped_by_kill, self._killed_at)
        )
        return TimeoutReceipt(
            limit_sec=reached.limit_sec,
            reached_at=reached.at,
            stopped_at=max(reached.at, stopped_at if stopped_at is not None else self._now()),
            how=how,
            task=reached.task,
        )

    def _limit(self, limit_sec: float, task: str | None) -> None:
        delay_sec = limit_sec if task is None else limit_sec + TASK_LIMIT_SLACK_SEC
        self._limits[task] = asyncio.get_running_loop().call_later(delay_sec, self._reach, limit_sec, task)

    def _reach(self, limit_sec: float, task: str | None) -> None:
        if self._reached is not None or self.cancelled_at is not None:
            return
        self._reached = _Reached(limit_sec=limit_sec, task=task, at=self._now())
        facts: dict[str, object] = {"timeout_sec": limit_sec} | ({} if task is None else {"task": task})
        logger.warning(RunTimedOut.message(), extra=self._log_fields() | RunTimedOut.ids() | facts)
        self._request(self.kill, grace_of_limit(limit_sec, self._grace_sec))

    def _request(self, kill: Callable[[], None], grace_sec: float) -> None:
        self.end()
        self._runner.cancel()
        self._kill_timer = asyncio.get_running_loop().call_later(grace_sec, kill)

    def _kill_canceled(self) -> None:
        logger.warning(CancelTimedOut.message(), extra=self._log_fields() | CancelTimedOut.ids())
        self.kill()


def grace_of_limit(limit_sec: float, grace_sec: float) -> float:
    return min(grace_sec, max(limit_sec, SHORTEST_GRACE_SEC))


def timeout_failure(receipt: TimeoutReceipt, running: Iterable[str], grace_sec: float) -> Failure:
    """The failure of a run that timed out: the limit, the running tasks, and how it was stopped."""
    names = list(running)
    shown = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
    during = f" while running {shown}" if names else ""
    over = f"more than {receipt.limit_sec:g} s (timeout_sec){during}"
    if receipt.task is not None:
        over = f"task {receipt.task} took more than {receipt.limit_sec:g} s (timeout_sec of the task)"
    after_sec = receipt.stopped_at - receipt.reached_at
    if receipt.how is StopHow.COOPERATIVE:
        how = f"it ended by itself {after_sec:.1f} s later"
    else:
        ending = "its process was killed" if receipt.how is StopHow.KILLED else "its thread was left behind"
        how = f"it did not stop within {grace_of_limit(receipt.limit_sec, grace_sec):g} s, and {ending}"
    return Failure(code=RunTimedOut.err_id, message=f"{RunTimedOut.message()}: {over}; {how}")
