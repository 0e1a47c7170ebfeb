"""Pauses between retries."""

from __future__ import annotations


class Backoff:
    """Doubles the pause with each retry, up to `longest_sec`."""

    def __init__(self, first_sec: float, longest_sec: float) -> None:
        self._first_sec = self._next_sec = first_sec
        self._longest_sec = longest_sec

    @property
    def is_first(self) -> bool:
        return self._next_sec == self._first_sec

    def next_sec(self) -> float:
        pause_sec, self._next_sec = self._next_sec, min(self._next_sec * 2, self._longest_sec)
        return pause_sec

    def reset(self) -> None:
        self._next_sec = self._first_sec
