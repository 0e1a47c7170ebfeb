"""pyoco's Engine without a pool of threads for each run; what it does with its threads is the engine's business.

The engine makes a pool of threads for each run and ends it afterwards, which takes more time than a short task. Here
threads outlive the run, and a flow whose tasks can only follow each other needs none: they run where the engine does.

The engine finds its pool by an import inside one of its methods; so that method is bound anew, with an import that
gives it ours. Nothing outside of it changes: what user code finds under `concurrent.futures` is the real thing. The
version of pyoco is pinned, and a test sees to it that the pool is used.
"""

from __future__ import annotations

import builtins
import contextvars
import threading
from collections.abc import Callable
from concurrent import futures
from types import FunctionType, SimpleNamespace
from typing import Any, Self

from pyoco.core import engine
from pyoco.core.models import Flow


class _Here(threading.local):
    one_at_a_time = False


_here = _Here()


class LastingPool:
    """Stands for the ThreadPoolExecutor of a run; its threads are the last run's, if that has let go of them."""

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


class NoPool:
    """Stands for a ThreadPoolExecutor that is given one thing after the other: each is done when it is given."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        future: futures.Future[Any] = futures.Future()
        try:
            future.set_result(contextvars.Context().run(work, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # as a thread of a pool does; the engine asks the future
            future.set_exception(error)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to wait for."""


def _pool(max_workers: int) -> LastingPool | NoPool:
    return NoPool() if _here.one_at_a_time else LastingPool(max_workers)


_CONCURRENT = SimpleNamespace(futures=SimpleNamespace(**(vars(futures) | {"ThreadPoolExecutor": _pool})))


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

    def run(self, flow: Flow, *args: Any, **kwargs: Any) -> Any:
        _here.one_at_a_time = _is_chain(flow)
        try:
            return super().run(flow, *args, **kwargs)
        finally:
            _here.one_at_a_time = False


def _is_chain(flow: Flow) -> bool:
    """Whether its tasks can only follow each other, with no deadline that the engine would have to watch meanwhile."""
    before = [dependency for task in flow.tasks for dependency in task.dependencies]
    return (
        len(before) == len(flow.tasks) - 1
        and len(set(before)) == len(before)
        and all(len(task.dependencies) <= 1 and not task.timeout_sec for task in flow.tasks)
    )
