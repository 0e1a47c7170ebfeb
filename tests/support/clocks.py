"""A clock that only a test advances."""

from __future__ import annotations


class ManualClock:
    """Clock."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        self._now += seconds
