"""An event loop with virtual time, in which a seed chooses the order of store calls; no sockets, no threads.

ready      callbacks, first in first out, as asyncio guarantees
on the way calls to a store and their returns (`turn`): any of these may arrive next
timers     due when nothing else is left to do, and sometimes while calls are on the way: a slow call
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context
from heapq import heappop, heappush
from random import Random
from types import coroutine
from typing import Any, Self, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A hundred times what an interleaving takes.
MOST_STEPS = 200_000
# How often a call arrives while callbacks are ready.
EARLY = 0.2
# The start of the virtual time in Unix seconds.
BEGINNING = 1_000_000.0


class NothingLeft(Exception):
    """All tasks wait for something that cannot happen."""


class TooManySteps(Exception):
    """The simulation does not end."""


class Timer(asyncio.TimerHandle):
    """A callback, ready or due at a time. It skips asyncio's `__init__`, which is slow, and has no context."""

    __slots__ = ()

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True


class SeededLoop(asyncio.AbstractEventLoop):
    """The loop of one interleaving. `slowness` is how often time passes while calls are on the way."""

    def __init__(self, random: Random, *, slowness: float, began_at: float) -> None:
        self._draw = random.random
        self._slowness = slowness
        self._now = began_at
        self._ready: deque[Timer] = deque()
        self._on_the_way: list[Timer] = []
        self._gives_way = False
        self._timers: list[tuple[float, int, Timer]] = []
        self._timers_made = 0
        self.steps = 0
        self.troubles: list[BaseException | str] = []
        """Uncaught errors."""

    @classmethod
    def of(cls, random: Random, *, slowness: float = 0.0, began_at: float = BEGINNING) -> Self:
        """A loop. Its class is abstract for a type checker, as it has no methods for sockets."""
        return cls(random, slowness=slowness, began_at=began_at)

    # --- for the simulation -------------------------------------------------------------------------------------------

    @coroutine
    def turn(self) -> Generator[None, None, None]:
        """Suspends the task until it is chosen among all calls on the way."""
        self._gives_way = True  # a task that yields None calls `call_soon` for its next step
        yield

    def run_until_complete(self, future: Generator[Any, None, T] | Any) -> T:
        """Runs until this is done."""
        events._set_running_loop(self)
        try:
            task: asyncio.Task[T] = future if isinstance(future, asyncio.Task) else self.create_task(future)
            while not task.done():
                self._step()
            return task.result()
        finally:
            events._set_running_loop(None)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooManySteps
        if self._ready and not (self._on_the_way and self._draw() < EARLY):
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._callback(*handle._args)
        elif self._on_the_way:
            if self._slowness and self._timers and self._draw() < self._slowness:
                self._pass_time()
            self._arrive()
        elif self._timers:
            self._pass_time()
        else:
            raise NothingLeft

    def _arrive(self) -> None:
        way = self._on_the_way
        place = int(self._draw() * len(way))
        arrived, way[place] = way[place], way[-1]
        way.pop()
        self._ready.append(arrived)

    def _pass_time(self) -> None:
        """Advances the time to the next timer."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if timers:
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            self._ready.append(heappop(timers)[2])

    # --- for asyncio --------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = Timer(0.0, callback, args)
        if self._gives_way:
            self._gives_way = False
            self._on_the_way.append(handle)
        else:
            self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = Timer(when, callback, args)
        self._timers_made += 1
        heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], *, name: object = None, context: Any = None
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=name, context=context)  # type: ignore[arg-type]

    async def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> T:
        """Runs the function at once; its result arrives after a turn."""
        done = func(*args)
        await self.turn()
        return done

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.troubles.append(context.get("exception") or str(context.get("message")))
