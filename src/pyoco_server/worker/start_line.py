"""Who stores its start before it has a runner: a few, and only while runs are short; it knows no run and no runner.

A runner that waits for the broker to store the next start is idle for longer than a short run takes. So while runs are
short as many as there are runners may be started ahead of them; each has its runner a moment later. Long runs are never
started ahead: they would be ours without being at work, while another worker may be free.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

# Runs that take longer than this on average are not started ahead.
SHORT_SEC = 0.02


class StartLine:
    """The pace of the last runs, and the places that it allows."""

    def __init__(self, slots: int, pace_sec: float) -> None:
        self.pace_sec = pace_sec
        self._places = asyncio.Semaphore(2 * slots)

    async def join(self, held: AsyncExitStack) -> bool:
        """Whether to start before a runner is free; if so, when there is a place for it, held as long as the runner."""
        if self.pace_sec >= SHORT_SEC:
            return False
        await held.enter_async_context(self._places)
        return self.pace_sec < SHORT_SEC

    def note(self, busy_sec: float) -> None:
        """One more run took so long."""
        self.pace_sec += (busy_sec - self.pace_sec) / 8
