"""Decides whether and when a failed attempt is repeated. Neither sleeps nor sends."""

from __future__ import annotations

from typing import Any, NoReturn

from pyoco_server.http_client import answers
from pyoco_server.http_client.answers import Failure, FailureKind
from pyoco_server.http_client.connection import Connection, RetryPolicy
from pyoco_server.http_client.errors import PyocoHttpError, RateLimited
from pyoco_server.http_client.requests import Request

MAX_RECONNECT_SEC = 30.0


class Retry:
    """The retries of one operation: at most `policy.retries`, none later than `policy.within_sec` after its start or
    its last progress."""

    def __init__(
        self,
        connection: Connection,
        *,
        within_sec: float | None = None,
        hold_sec: float = 0.0,
        may_be_done: bool = False,
    ) -> None:
        self._policy, self._timing = connection.policy, connection.timing
        within = self._policy.within_sec + hold_sec
        self._within_sec = within if within_sec is None else max(0.0, min(within, within_sec))
        self._started_at: float | None = self._timing.monotonic()
        self._on_rate_limit = connection.on_rate_limit
        self._may_be_done = may_be_done
        self.failures = 0

    def progress(self) -> None:
        """Something arrived: a later failure is a new one, with its own retries."""
        self.failures, self._started_at = 0, None

    def pause_sec(self, failure: Failure, request: Request[Any]) -> float:
        """How long to wait before the next attempt; raises an SDK error when there is none.

        Repeating is safe: every change has a key. The gateway's Retry-After is never undercut.
        """
        elapsed_sec, kind = self._count(failure)
        asked_sec = failure.retry_after if isinstance(failure, PyocoHttpError) else None
        pause = max(backoff_sec(self.failures, self._policy, self._timing.luck()), asked_sec or 0.0)
        is_too_late = elapsed_sec + pause > self._within_sec
        if is_too_late or self.failures > self._policy.retries or kind is FailureKind.FINAL:
            self._give_up(failure, request)
        self._tell(failure, pause)
        return pause

    def reconnect_sec(self, failure: Failure | None, request: Request[Any], asked_sec: float | None) -> float:
        """How long to wait before a stream connects again, after a failure or a regular end.

        A stream is retried for `within_sec` without progress, however often that is.
        """
        if failure is None:
            self.failures += 1
        else:
            elapsed_sec, kind = self._count(failure)
            if kind is FailureKind.FINAL or elapsed_sec >= self._within_sec or self._policy.retries <= 0:
                self._give_up(failure, request)
            if isinstance(failure, PyocoHttpError):
                asked_sec = failure.retry_after
        pause = backoff_sec(self.failures, self._policy, self._timing.luck())
        pause = max(pause, min(asked_sec or 0.0, MAX_RECONNECT_SEC))
        self._tell(failure, pause)
        return pause

    def _count(self, failure: Failure) -> tuple[float, FailureKind]:
        now = self._timing.monotonic()
        if self._started_at is None:
            self._started_at = now
        self.failures += 1
        kind = answers.failure_kind(failure)
        self._may_be_done = self._may_be_done or kind is FailureKind.MAY_BE_DONE
        return now - self._started_at, kind

    def _tell(self, failure: Failure | None, pause_sec: float) -> None:
        if isinstance(failure, RateLimited) and self._on_rate_limit is not None:
            self._on_rate_limit(pause_sec)

    def _give_up(self, failure: Failure, request: Request[Any]) -> NoReturn:
        if isinstance(failure, PyocoHttpError):
            raise failure
        raise answers.unreachable(failure, request, self.failures, may_be_done=self._may_be_done) from failure


def backoff_sec(failures: int, policy: RetryPolicy, luck: float) -> float:
    """Doubles with each failure up to a cap; between half of that and all of it, to spread clients that failed
    together."""
    # The exponent is bounded too: a stream may fail for hours.
    whole = min(policy.cap_sec, policy.base_sec * 2.0 ** min(failures - 1, 30))
    return whole * (0.5 + luck / 2)
