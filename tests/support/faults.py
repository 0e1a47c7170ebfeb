"""Stores whose next calls fail as a test plans it."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pyoco_server.errors import BrokerUnavailable, Unanswered
from pyoco_server.services.context import Stores

Action = Callable[[], Awaitable[object]]

GUARDED = (
    "events",
    "run_logs",
    "snapshots",
    "queue",
    "dead_letters",
    "registry",
    "signals",
    "wheels",
    "wheel_history",
    "graphs",
    "idempotency",
    "tickets",
    "artifacts",
)


class Faults:
    """The plan. Calls are named by store and method: `log.append`, `queue.publish`, `delivery.ack`."""

    def __init__(self) -> None:
        self.is_offline = False
        self.calls: list[str] = []
        self._done: Counter[str] = Counter()
        self._something_done = asyncio.Event()
        self._something_tried = asyncio.Event()
        self._before: dict[str, deque[Exception | Action]] = defaultdict(deque)
        self._after: dict[str, deque[Exception | Action]] = defaultdict(deque)

    @property
    def connected(self) -> bool:
        return not self.is_offline

    def fail(self, call: str, error: Exception | None = None, *, times: int = 1) -> None:
        """The next calls of that name raise, and nothing of them is stored."""
        self._before[call].extend([error or BrokerUnavailable()] * times)

    def lose_answer(self, call: str) -> None:
        """The next call of that name has its effect and raises."""
        self._after[call].append(Unanswered())

    def before(self, call: str, action: Action) -> None:
        """Runs the action just before the next call of that name."""
        self._before[call].append(action)

    def after(self, call: str, action: Action) -> None:
        """Runs the action just after the next call of that name."""
        self._after[call].append(action)

    async def happen_before(self, call: str) -> None:
        self.calls.append(call)
        self._something_tried.set()
        self._something_tried = asyncio.Event()
        if self.is_offline:
            raise BrokerUnavailable
        await _happen(self._before[call])

    async def happen_after(self, call: str) -> None:
        await _happen(self._after[call])
        self._done[call] += 1
        self._something_done.set()
        self._something_done = asyncio.Event()

    async def tried(self, call: str) -> None:
        """Waits for the start of the next call of that name."""
        before = self.calls.count(call)
        while self.calls.count(call) == before:
            await self._something_tried.wait()

    async def done(self, call: str, times: int = 1) -> None:
        """Waits until that many calls of that name have ended."""
        while self._done[call] < times:
            await self._something_done.wait()


async def _happen(planned: deque[Exception | Action]) -> None:
    if planned:
        what = planned.popleft()
        if isinstance(what, Exception):
            raise what
        await what()


class _Guarded:
    """A store that fails as planned, also in its queues and deliveries."""

    def __init__(self, inner: Any, name: str, faults: Faults) -> None:
        self._inner = inner
        self._name = name
        self._faults = faults

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._inner, attribute)
        if not inspect.iscoroutinefunction(found) or attribute == "close":
            return found
        call = f"{self._name}.{attribute}"

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            await self._faults.happen_before(call)
            result = await found(*args, **kwargs)
            await self._faults.happen_after(call)
            return self._wrapped(call, result)

        return guarded

    def _wrapped(self, call: str, result: Any) -> Any:
        if call == "queue.open":
            return _Guarded(result, "tag", self._faults)
        if call == "tag.receive":
            return [_Guarded(delivery, "delivery", self._faults) for delivery in result]
        return result


def behind(faults: Faults, stores: Stores) -> Stores:
    """The same stores, failing as planned."""
    guarded: dict[str, Any] = {name: _Guarded(getattr(stores, name), name, faults) for name in GUARDED}
    return replace(stores, broker=faults, **guarded)
