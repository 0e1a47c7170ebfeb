"""One run that is watched at a gateway: what is known of it, and who wants to know; it reads nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.services.streaming.watcher import View


class Ends(Protocol):
    """A stream that can be asked to end."""

    def end(self) -> None: ...


class Hears(Ends, Protocol):
    """Whoever is told of a run: what is new, and now and then that all is as it was."""

    def offer(self, view: View) -> None: ...
    def beat(self, view: View, *, away: bool) -> None: ...


class Channel:
    """One run that is watched here: what is known of it, and who wants to know."""

    def __init__(self, run_id: RunId) -> None:
        self.run_id = run_id
        self.users = 0
        self.watchers: set[Hears] = set()
        self.opening = asyncio.Lock()
        self.joining = asyncio.Lock()
        self.came = self.read_for = 0
        self.stop_listening: Callable[[], None] | None = None
        self.execution: Execution | None = None
        self.heartbeat_at = 0.0
        self.view: View | None = None
        self.behind = False
        self.may_end = False
        self.reading = False
        self.timer: asyncio.TimerHandle | None = None
        self.rested_at = 0.0
        self.beat_at = 0.0

    @property
    def version(self) -> int:
        return 0 if self.execution is None else self.execution.version

    def knows(self, execution: Execution, heartbeat_at: float) -> None:
        self.execution = execution
        self.heartbeat_at = max(heartbeat_at, self.heartbeat_at)

    def show(self, view: View) -> None:
        self.view = view
        for watcher in self.watchers:
            watcher.offer(view)

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.stop_listening is not None:
            self.stop_listening()
            self.stop_listening = None
