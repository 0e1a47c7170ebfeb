"""pyoco's Engine with threads that outlive a run; what it does with them is the engine's business.

The engine makes a pool of threads for each run and ends it afterwards, which takes more time than a short task. It
finds its pool by an import inside one of its methods; so that method is bound anew here, with an import that gives it
ours. Nothing outside of it changes: what user code finds under `concurrent.futures` is the real thing. The version of
pyoco is pinned, and a test sees to it that the pool is used.
"""

from __future__ import annotations

import builtins
import contextvars
from collections.abc import Callable
from concurrent import futures
from types import FunctionType, SimpleNamespace
from typing import Any, Self

from pyoco.core import engine


class LastingPool:
    """Stands for a ThreadPoolExecutor of one run; its threads are those of the last run, if that has let go of them."""

    _idle: futures.ThreadPoolExecutor | None = None

    def __init__(self, max_workers: int) -> None:
        # Taken out: a run that never ends (a thread that was given up) keeps its threads to itself.
        pool, LastingPool._idle = LastingPool._idle, None
        self._pool = pool or futures.ThreadPoolExecutor(max_workers, thread_name_prefix="pyoco-task")
        self._given: list[futures.Future[Any]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        # As in a new thread: context variables that an earlier task has set are not there.
        future = self._pool.submit(contextvars.Context().run, work, *args, **kwargs)
        self._given.append(future)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        futures.wait(self._given)
        LastingPool._idle = self._pool


_CONCURRENT = SimpleNamespace(futures=SimpleNamespace(**(vars(futures) | {"ThreadPoolExecutor": LastingPool})))


def _import(name: str, *rest: Any) -> Any:
    return _CONCURRENT if name == "concurrent.futures" else builtins.__import__(name, *rest)


def _bound_anew(method: Any) -> FunctionType:
    surroundings = {**method.__globals__, "__builtins__": {**vars(builtins), "__import__": _import}}
    copy = FunctionType(method.__code__, surroundings, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    return copy


class PooledEngine(engine.Engine):  # type: ignore[misc]  # pyoco is not typed
    """An Engine; in one process they share their threads, one run after the other."""

    _run_flow = _bound_anew(engine.Engine._run_flow)
