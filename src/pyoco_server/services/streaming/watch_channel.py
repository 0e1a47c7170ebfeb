"""One watched run and its watchers. It reads nothing: `watch_hub` feeds it.

A watcher keeps the newest view and a heartbeat, never a queue. A slow watcher misses views in between, not the
last one: a view is the whole run, so the newest replaces all earlier ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol

from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId


class View:
    """A run at one moment. Each encoding of it is made once for all watchers."""

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
        """The encoding under this key; made on the first call and cached."""
        made = self._forms.get(form)
        if made is None:
            made = self._forms[form] = make(self)
        return made


class WatchUpdate(NamedTuple):
    """A new view, or (`beat`) a heartbeat with the unchanged one; `away` when the broker could not be asked."""

    view: View
    beat: bool = False
    away: bool = False


class Watcher:
    """One reader of a run's changes. The hub offers and the reader takes, both on the same event loop."""

    __slots__ = ("_after", "_beat", "_ended", "_newest", "_on_close", "_since", "_timer", "_wakeup")

    def __init__(
        self,
        *,
        after: int,
        since: float | None,
        on_close: Callable[[Watcher], None],
    ) -> None:
        self._after = after
        self._since = since
        self._on_close: Callable[[Watcher], None] | None = on_close
        self._newest: View | None = None
        self._beat: WatchUpdate | None = None
        self._ended = False
        self._wakeup = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, view: View) -> None:
        """Keep the view for the reader unless it is known, or held back by `since`; a terminal view never is."""
        held_back = self._since is not None and view.updated_at <= self._since and not view.is_terminal
        if not self._ended and view.version > self._after and not held_back:
            self._newest = view
            self._wakeup.set()

    def beat(self, view: View, *, away: bool) -> None:
        """Keep a heartbeat for a reader without a pending view."""
        if not self._ended:
            self._beat = WatchUpdate(view, beat=True, away=away)
            self._wakeup.set()

    def end_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        """End after the pending view."""
        self._ended = True
        self._wakeup.set()

    async def next(self) -> WatchUpdate | None:
        """The next update; None at the end."""
        while True:
            self._wakeup.clear()
            if self._newest is not None:
                return self._take(self._newest)
            if self._ended:
                return None
            if self._beat is not None:
                beat, self._beat = self._beat, None
                return beat
            await self._wakeup.wait()

    def close(self) -> None:
        """Release the watcher; may be called twice."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            on_close(self)

    def _take(self, view: View) -> WatchUpdate:
        self._newest = None
        self._beat = None  # a view is a heartbeat too
        self._after = view.version
        self._ended = self._ended or view.is_terminal
        return WatchUpdate(view)


class OpenStream(Protocol):
    """A stream that the hub can end."""

    def end(self) -> None: ...


class ViewListener(OpenStream, Protocol):
    """Receives the views and heartbeats of a run."""

    def offer(self, view: View) -> None: ...
    def beat(self, view: View, *, away: bool) -> None: ...


class WatchChannel:
    """The state of one watched run, shared by its watchers."""

    def __init__(self, run_id: RunId) -> None:
        self.run_id = run_id
        self.users = 0
        self.watchers: set[ViewListener] = set()
        self.opening = asyncio.Lock()
        self.joining = asyncio.Lock()
        self.joined = self.read_for = 0
        self.stop_listening: Callable[[], None] | None = None
        self.execution: Execution | None = None
        self.heartbeat_at = 0.0
        self.view: View | None = None
        self.behind = False
        self.may_end = False
        self.reading = False
        self.timer: asyncio.TimerHandle | None = None
        self.quiet_until = 0.0
        self.beat_at = 0.0

    @property
    def version(self) -> int:
        return 0 if self.execution is None else self.execution.version

    def advance(self, execution: Execution, heartbeat_at: float) -> None:
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
