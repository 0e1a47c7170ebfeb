"""SIGINT and SIGTERM as events of the loop: asked once, a program ends in order; asked twice, at once."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field


@dataclass(slots=True)
class StopRequest:
    """Set by the first signal; `at_once` by the second."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    by: signal.Signals | None = None

    def listen(self) -> None:
        """Take both signals for as long as the loop runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard, number)

    def _heard(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            self.at_once.set()
        self.by = self.by or number
        self.asked.set()
