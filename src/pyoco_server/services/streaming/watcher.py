"""What one reader of a run's changes is still to be told: the newest view and a sign of life, never a queue of them.

A reader that is slow misses the views in between, not the last one: a view is the whole run, so the newest says it all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES


class View:
    """A run as it was seen at one moment. Its bytes in a dialect are made once, however many are watching."""

    __slots__ = ("_forms", "plain", "seen_at")

    def __init__(self, plain: Mapping[str, Any], seen_at: float) -> None:
        self.plain = plain
        self.seen_at = seen_at
        self._forms: dict[Hashable, bytes] = {}

    @property
    def version(self) -> int:
        version: int = self.plain["version"]
        return version

    @property
    def updated_at(self) -> float:
        updated_at: float = self.plain["updated_at"]
        return updated_at

    @property
    def is_terminal(self) -> bool:
        return self.plain["status"] in TERMINAL_RUN_STATUSES

    def once(self, form: Hashable, make: Callable[[View], bytes]) -> bytes:
        """The bytes of this form: made for the first who asks, kept for the others."""
        made = self._forms.get(form)
        if made is None:
            made = self._forms[form] = make(self)
        return made


class WatchUpdate(NamedTuple):
    """What a reader is told: something new, or (`beat`) that all is as it was; `away`: as far as we could look."""

    view: View
    beat: bool = False
    away: bool = False


class Watcher:
    """One reader. The hub offers, the reader takes; both on the same event loop."""

    __slots__ = ("_after", "_beat", "_ended", "_left", "_newest", "_news", "_since", "_timer")

    def __init__(
        self,
        *,
        after: int,
        since: float | None,
        left: Callable[[Watcher], None],
    ) -> None:
        self._after = after
        self._since = since
        self._left: Callable[[Watcher], None] | None = left
        self._newest: View | None = None
        self._beat: WatchUpdate | None = None
        self._ended = False
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, view: View) -> None:
        """Something new, unless this reader has it already or did not ask for it. The end is always told."""
        held_back = self._since is not None and view.updated_at <= self._since and not view.is_terminal
        if not self._ended and view.version > self._after and not held_back:
            self._newest = view
            self._news.set()

    def beat(self, view: View, *, away: bool) -> None:
        """A sign of life, for a reader that has nothing else to read."""
        if not self._ended:
            self._beat = WatchUpdate(view, beat=True, away=away)
            self._news.set()

    def end_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        """No more than what is waiting already."""
        self._ended = True
        self._news.set()

    async def next(self) -> WatchUpdate | None:
        """What to tell the reader next; None when that was all."""
        while True:
            self._news.clear()
            if self._newest is not None:
                return self._take(self._newest)
            if self._ended:
                return None
            if self._beat is not None:
                beat, self._beat = self._beat, None
                return beat
            await self._news.wait()

    def close(self) -> None:
        """Free what this reader has; may be called twice."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._left is not None:
            left, self._left = self._left, None
            left(self)

    def _take(self, view: View) -> WatchUpdate:
        self._newest = None
        self._beat = None  # news are a sign of life themselves
        self._after = view.version
        self._ended = self._ended or view.is_terminal
        return WatchUpdate(view)
