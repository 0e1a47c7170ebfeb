"""Refused requests as log lines, a bounded number of them: whoever knocks all day must not fill a disk."""

from __future__ import annotations

import logging

from pyoco_server.errors import PyocoError
from pyoco_server.ports import Clock

logger = logging.getLogger(__name__)

WINDOW_SEC = 10.0
MOST_LINES = 20


class Window:
    """Room for so many lines in so many seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at = float("-inf")
        self._lines = 0
        self._left_out = 0

    def take(self) -> dict[str, int] | None:
        """None when there is no room for one more line; else what the line has to say of those left out before it."""
        now = self._clock.monotonic()
        if now - self._began_at >= WINDOW_SEC:
            self._began_at, self._lines = now, 0
        if self._lines >= MOST_LINES:
            self._left_out += 1
            return None
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        return {"left_out": left_out} if left_out else {}


class RefusalLog:
    """At most so many lines in a window; the first line of the next one says how many were left out."""

    def __init__(self, clock: Clock) -> None:
        self._window = Window(clock)

    def note(self, refusal: PyocoError, path: str, request_id: str | None) -> None:
        """Say that somebody was not let in, and why; what they showed is never said."""
        more = self._window.take()
        if more is not None:
            ids = {"err_id": refusal.err_id, "msg_id": refusal.msg_id, "request_id": request_id}
            logger.warning("request not let in", extra={"path": path, **refusal.facts, **ids, **more})


class FewWarnings(logging.Filter):
    """The same for what is logged by others: warnings within bounds, all else as it is."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._window = Window(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        more = self._window.take() if record.levelno == logging.WARNING else {}
        if more is not None:
            record.__dict__.update(more)
        return more is not None
