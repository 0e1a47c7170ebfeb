"""Bounds the unstored lines of a run's log and the log as a whole. Pure: neither waits nor stores.

    lines ─▶ waiting ─▶ take
       └─ no room ─▶ the last ones are kept, the others counted ─▶ a marker and the kept ones

There are two limits. If too many bytes wait (the broker is slow or away), the marker follows as soon as everything
before it was taken. If the whole log reaches its limit, the marker follows at the end of the run, together with the
run's last lines, which are the most useful ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pyoco_server.domain.run_logs.lines import LogLine, size_of

WAITING_CAP_BYTES = 4 * 1024 * 1024
END_ROOM_BYTES = 64 * 1024
MARKER_ROOM_BYTES = 256


class LogBuffer:
    """Lines in, lines out, in order, with a marker where lines are missing."""

    def __init__(self, limit_bytes: int, *, waiting_cap_bytes: int = WAITING_CAP_BYTES) -> None:
        self._end_room = min(END_ROOM_BYTES, limit_bytes // 4)
        self._room = limit_bytes - self._end_room - MARKER_ROOM_BYTES
        self._waiting_cap = waiting_cap_bytes
        self._waiting: deque[tuple[Sequence[LogLine], int]] = deque()
        self._waiting_bytes = 0
        self._kept: deque[tuple[LogLine, int]] = deque()
        self._kept_bytes = 0
        self._dropped = 0
        self._is_full = False

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    @property
    def has_waiting(self) -> bool:
        """Whether `take` would return anything now."""
        return bool(self._waiting) or (self._is_holding_back and not self._is_full)

    @property
    def _is_holding_back(self) -> bool:
        return bool(self._kept) or self._dropped > 0

    def used(self, size_bytes: int) -> None:
        self._room -= size_bytes
        self._is_full = self._is_full or self._room < 0

    def add(self, lines: Sequence[LogLine]) -> None:
        size = size_of(lines)
        if self._is_holding_back or self._is_full or size > min(self._room, self._waiting_cap - self._waiting_bytes):
            self._add_singly(lines)
            return
        self._room -= size
        self._wait(lines, size)

    def take(self, at_least_bytes: int) -> list[LogLine]:
        """Removes the oldest batches, up to `at_least_bytes`, with a marker where lines are missing."""
        taken: list[LogLine] = []
        size = 0
        while self._waiting and size < at_least_bytes:
            lines, more = self._waiting.popleft()
            taken += lines
            size += more
        self._waiting_bytes -= size
        if not self._waiting and self._is_holding_back and not self._is_full:
            self._room -= self._kept_bytes
            taken += self._release_kept("the broker was slower than the run, and 4 MiB of lines were waiting for it")
            self._is_full = self._room < 0
        return taken

    def end(self) -> None:
        """Makes the kept lines available: the run has ended."""
        if self._is_holding_back:
            why = "the log has reached PYOCO_MAX_RUN_LOG_BYTES; the last lines follow"
            lines = self._release_kept(why if self._is_full else "the broker was slower than the run")
            self._wait(lines, size_of(lines))

    def _add_singly(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            size = len(line.text.encode()) + 1
            if not self._is_holding_back and not self._is_full:
                if size <= min(self._room, self._waiting_cap - self._waiting_bytes):
                    self._room -= size
                    self._wait([line], size)
                    continue
                self._is_full = size > self._room
            self._keep(line, size)

    def _wait(self, lines: Sequence[LogLine], size: int) -> None:
        self._waiting.append((lines, size))
        self._waiting_bytes += size

    def _keep(self, line: LogLine, size: int) -> None:
        self._kept.append((line, size))
        self._kept_bytes += size
        while self._kept and self._kept_bytes > self._end_room:
            _, gone = self._kept.popleft()
            self._kept_bytes -= gone
            self._dropped += 1

    def _release_kept(self, why: str) -> list[LogLine]:
        kept = [line for line, _ in self._kept]
        marker: list[LogLine] = []
        if self._dropped:
            at = kept[0].at if kept else 0.0
            marker = [LogLine(at, None, "pyoco", "WARNING", f"[pyoco: {_lines(self._dropped)} dropped: {why}]")]
        self._kept.clear()
        self._kept_bytes = self._dropped = 0
        return [*marker, *kept]


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"
