"""Rejected requests as log lines, in bounded number: a client that retries all day must not fill a disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyoco_server.errors import Kind, PyocoError
from pyoco_server.ports import Clock

logger = logging.getLogger(__name__)

WINDOW_SEC = 10.0
MAX_LINES = 20
MAX_DETAIL_CHARS = 300


class Window:
    """Allows a number of lines per period and counts those beyond it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at = float("-inf")
        self._lines = 0
        self._left_out = 0

    def take(self) -> dict[str, int] | None:
        """None when the window is full; else the extra fields of the line, with the number left out before it."""
        now = self._clock.monotonic()
        if now - self._began_at >= WINDOW_SEC:
            self._began_at, self._lines = now, 0
        if self._lines >= MAX_LINES:
            self._left_out += 1
            return None
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        return {"left_out": left_out} if left_out else {}


class RejectionLog:
    """Logs rejected requests, at most `MAX_LINES` per window; credentials are never logged."""

    def __init__(self, clock: Clock) -> None:
        # Two windows: failed logins stay visible while a client with bad requests floods the log.
        self._access, self._other = Window(clock), Window(clock)

    def note(self, rejection: PyocoError, context: Mapping[str, Any]) -> bool:
        """Whether the line was written."""
        is_access = rejection.kind in (Kind.UNAUTHENTICATED, Kind.FORBIDDEN)
        more = (self._access if is_access else self._other).take()
        if more is None:
            return False
        facts = rejection.facts if is_access else {"run_id": rejection.facts.get("run_id")}
        ids = {"err_id": rejection.err_id, "msg_id": rejection.msg_id, "detail": rejection.detail[:MAX_DETAIL_CHARS]}
        level = logging.WARNING if is_access else logging.INFO
        logger.log(level, "request rejected", extra={**facts, **context, **ids, **more})
        return True


class LimitWarnings(logging.Filter):
    """The same limit for the records of a library's logger from WARNING up to a level; others pass."""

    def __init__(self, clock: Clock, *, up_to: int = logging.WARNING) -> None:
        super().__init__()
        self._up_to = up_to
        self._window = Window(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        more = self._window.take() if logging.WARNING <= record.levelno <= self._up_to else {}
        if more is not None:
            record.__dict__.update(more)
        return more is not None
