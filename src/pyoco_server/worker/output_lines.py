"""Makes lines of what a runner writes, and bounds how many of them wait; pure: it neither reads nor delivers."""

from __future__ import annotations

from collections import deque

BACKLOG_CAP_BYTES = 4 * 1024 * 1024
LINE_CAP_BYTES = 64 * 1024
LAST_LINES = 40  # a report of a crash takes half of them


class OutputLines:
    """Bytes in, lines out. When the backlog is full new lines are dropped, and a marker says how many.

    The last lines are remembered even when they were dropped: they tell why a process died.
    """

    def __init__(self) -> None:
        self._unfinished = b""
        self._backlog: deque[str] = deque()
        self._backlog_bytes = 0
        self._dropped = 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)

    @property
    def waiting(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._backlog) or self._dropped > 0

    @property
    def last_lines(self) -> tuple[str, ...]:
        return tuple(self._last)

    def forget_last_lines(self) -> None:
        self._last.clear()

    def feed(self, data: bytes) -> None:
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            self._add(self._unfinished + whole)
            self._unfinished = rest
        else:
            self._unfinished += rest
        while len(self._unfinished) >= LINE_CAP_BYTES:  # a line without end must not grow without end
            self._add(self._unfinished[:LINE_CAP_BYTES])
            self._unfinished = self._unfinished[LINE_CAP_BYTES:]

    def finish(self) -> None:
        """Nothing more comes of this run: what has no newline yet is a line too."""
        if self._unfinished:
            self._add(self._unfinished)
            self._unfinished = b""

    def take(self, limit: int) -> list[str]:
        """The oldest waiting lines, at most so many (and a marker where lines are missing)."""
        taken = [self._backlog.popleft() for _ in range(min(limit, len(self._backlog)))]
        self._backlog_bytes -= sum(map(len, taken))
        if not self._backlog and self._dropped:
            taken.append(f"[pyoco: {self._dropped} lines dropped]")
            self._dropped = 0
        return taken

    def _add(self, text: bytes) -> None:
        lines = text.decode("utf-8", "replace").split("\n")
        self._last.extend(lines[-LAST_LINES:])
        if self._dropped or self._backlog_bytes + len(text) > BACKLOG_CAP_BYTES:
            # Until the marker has been taken everything is dropped, so that it stands where lines are missing.
            self._dropped += len(lines)
            return
        self._backlog.extend(lines)
        self._backlog_bytes += sum(map(len, lines))
