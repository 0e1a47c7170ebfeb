"""An event loop whose order of things is chosen by a seed, and whose time is made up; no sockets, no threads.

ready      callbacks, first come first served: exactly what asyncio promises, so no order is tried that cannot be
on the way what has left for a store, or is on its way back (`turn`): any of these may arrive next
timers     due when nothing else is left to do; or, now and then, while answers are on their way: somebody was slow
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

# So many steps are a hundred times what an interleaving takes: it goes round in circles.
MOST_STEPS = 200_000
# How often something arrives while there is still something to be done with what arrived before.
EARLY = 0.2
# The moment, in Unix seconds, at which every world begins.
BEGINNING = 1_000_000.0


class NothingLeft(Exception):
    """Everybody waits, and for nothing that could ever happen."""


class TooManySteps(Exception):
    """It goes on for ever."""


class Timer(asyncio.TimerHandle):
    """A callback that is ready, or will be at a time. For its price it is made without asyncio's own `__init__`.

    It has no context: nothing that is played here has context variables.
    """

    __slots__ = ()

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True


class SeededLoop(asyncio.AbstractEventLoop):
    """One life of a small world. `slowness` is how often time passes while answers are on their way."""

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
        """What nobody caught."""

    @classmethod
    def of(cls, random: Random, *, slowness: float = 0.0, began_at: float = BEGINNING) -> Self:
        """A loop. (To a type checker one is abstract that has no sockets, whoever asks for them.)"""
        return cls(random, slowness=slowness, began_at=began_at)

    # --- what a simulation asks for -----------------------------------------------------------------------------------

    @coroutine
    def turn(self) -> Generator[None, None, None]:
        """Give way: the task goes on when it is its turn among all that are on their way."""
        self._gives_way = True  # a task that yields nothing asks for its next step at once: see `call_soon`
        yield

    def run_until_complete(self, future: Generator[Any, None, T] | Any) -> T:
        """Live until this is done."""
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
        """Go on to the next moment at which something is due."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if timers:
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            self._ready.append(heappop(timers)[2])

    # --- what asyncio asks for ----------------------------------------------------------------------------------------

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
        """Whoever is asked aside has done it when it is his turn."""
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
