"""News for followers: wakes any number of waiters, a few per turn of the event loop.

Five thousand followers that are woken at once send for a second before the loop serves another request. A `Waker` is
shared by the topics of a gateway and takes turns between them, so that a run with many followers does not delay others.
"""

from __future__ import annotations

import asyncio
from collections import deque

# Each sends for a fraction of a millisecond, so other requests wait for a few milliseconds per turn.
WOKEN_AT_ONCE = 16
# Of one topic, before the next one's.
WOKEN_IN_A_ROW = 8


class Waker:
    """Wakes the waiters of all topics in turns."""

    def __init__(self) -> None:
        self._topics: deque[News] = deque()
        self._is_scheduled = False

    def schedule(self, news: News) -> None:
        """Wake the due waiters of a topic that was not scheduled yet."""
        self._topics.append(news)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._wake_some)

    def _wake_some(self) -> None:
        woken = 0
        while self._topics and woken < WOKEN_AT_ONCE:
            news = self._topics.popleft()
            woken += news.wake(WOKEN_IN_A_ROW)
            if news.is_due:
                self._topics.append(news)
        self._is_scheduled = bool(self._topics)
        if self._is_scheduled:
            # In the next turn of the loop, after what the woken ones do and after the requests that arrived.
            asyncio.get_running_loop().call_soon(self._wake_some)


class News:
    """A number that rises. A waiter takes it before it looks, so it misses nothing."""

    def __init__(self, waker: Waker) -> None:
        self.number = 0
        self._waker = waker
        # Dictionaries as ordered sets.
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._due: dict[asyncio.Future[None], None] = {}

    @property
    def is_due(self) -> bool:
        return bool(self._due)

    def notify(self) -> None:
        """Raise the number; all who wait are woken, each in its turn."""
        self.number += 1
        self._schedule(self._waiting)
        self._waiting = {}

    async def wait_newer(self, number: int, timeout_sec: float | None = None) -> None:
        """Wait until the number is higher and it is this waiter's turn, or until the time is up."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if self.number > number:
            self._schedule({future: None})
        else:
            self._waiting[future] = None
        timer = None if timeout_sec is None else loop.call_later(max(timeout_sec, 0.0), _wake, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting.pop(future, None)
            self._due.pop(future, None)

    def wake(self, most: int) -> int:
        """Wake some that are due; how many."""
        woken = 0
        while self._due and woken < most:
            future = next(iter(self._due))
            del self._due[future]
            _wake(future)
            woken += 1
        return woken

    def _schedule(self, futures: dict[asyncio.Future[None], None]) -> None:
        if not futures:
            return
        is_scheduled = self.is_due
        self._due |= futures
        if not is_scheduled:
            self._waker.schedule(self)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
