"""The time that one attempt at a run may take: when it is over the runner is told to stop, and killed after the grace.

The clock is the event loop's, in the process that holds the run: a broker that is away, a clock that is set and a flow
that never looks up change nothing. Whether the run failed by it is the attempt's to say, because a cancel wins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from pyoco_server.domain.execution.state import Failure, StopHow, TimeoutReceipt
from pyoco_server.errors import RunTimedOut
from pyoco_server.worker.executor import Runner
from pyoco_server.worker.steps import Died, Ended

logger = logging.getLogger(__name__)

MOST_NAMES = 5


class TimeLimit:
    """One attempt's limit, from the moment its runner was given the job; without `limit_sec` it is never reached."""

    def __init__(self, limit_sec: float | None, grace_sec: float, now: Callable[[], float]) -> None:
        self._limit_sec = limit_sec
        self._grace_sec = grace_sec
        self._now = now
        self._timer: asyncio.TimerHandle | None = None
        self._reached_at: float | None = None
        self._killed_at: float | None = None

    def has_stopped(self, end: Ended | Died) -> bool:
        """Whether the run ended because of it; not one that had ended in time and was heard of late (no broker)."""
        if self._reached_at is None:
            return False
        told = isinstance(end, Ended) and end.how == "cancelled"
        return told or end.at is None or end.at >= self._reached_at

    def begin(self, runner: Runner, facts: Callable[[], dict[str, object]]) -> None:
        """Time runs from here."""
        if self._limit_sec is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limit_sec, self._reach, runner, facts)

    def end(self) -> None:
        """The runner has ended, or is to be stopped for another reason."""
        if self._timer is not None:
            self._timer.cancel()

    def receipt(self, end: Ended | Died, stopped_by_kill: StopHow) -> TimeoutReceipt:
        """What is known of a limit that was reached, once the run has stopped."""
        if self._limit_sec is None or self._reached_at is None:
            raise RuntimeError("the limit was not reached")
        how, stopped_at = (
            (StopHow.COOPERATIVE, end.at) if isinstance(end, Ended) else (stopped_by_kill, self._killed_at)
        )
        return TimeoutReceipt(
            limit_sec=self._limit_sec,
            reached_at=self._reached_at,
            stopped_at=max(self._reached_at, stopped_at if stopped_at is not None else self._now()),
            how=how,
        )

    def _reach(self, runner: Runner, facts: Callable[[], dict[str, object]]) -> None:
        self._reached_at = self._now()
        ids = {"err_id": RunTimedOut.err_id, "msg_id": RunTimedOut.msg_id}
        logger.warning(RunTimedOut.message(), extra=facts() | ids | {"timeout_sec": self._limit_sec})
        runner.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._grace_sec, self._kill, runner)

    def _kill(self, runner: Runner) -> None:
        self._killed_at = self._now()
        runner.kill()


def timed_out(receipt: TimeoutReceipt, running: Iterable[str]) -> Failure:
    """Why such a run failed, in words: the limit, what was going on, and how it was stopped."""
    names = list(running)
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    at_work = f" while running {shown}" if names else ""
    message = f"{RunTimedOut.message()}: more than {receipt.limit_sec:g} s (timeout_sec){at_work}; {_HOW[receipt.how]}"
    return Failure(code=RunTimedOut.err_id, message=message)


_HOW = {
    StopHow.COOPERATIVE: "it stopped when it was told to",
    StopHow.KILLED: "its process was killed",
    StopHow.ABANDONED: "its thread could not be stopped and was left behind",
}
