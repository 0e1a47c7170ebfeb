"""pyoco's Engine without a new thread pool for each run.

The engine creates a thread pool for each run and shuts it down afterwards, which takes longer than a short task. Here
threads are reused across runs, and a flow whose tasks form a chain runs in the engine's own thread.

The engine imports its pool inside one of its methods. That method is rebound with an import function that returns ours;
user code still gets the real `concurrent.futures`. Its context of a run, which knows the folder of artifacts, is made
by another method, which is rebound in the same way. The version of pyoco is pinned, and tests check both.
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
from pyoco.core.context import Context
from pyoco.core.models import Flow


class _ThreadState(threading.local):
    runs_chain = False
    artifact_dir: str | None = None


_thread = _ThreadState()


class ReusedThreadPool:
    """Replaces the ThreadPoolExecutor of a run; reuses the threads of the last run that has ended."""

    _idle: futures.ThreadPoolExecutor | None = None

    def __init__(self, max_workers: int) -> None:
        # Taken, not shared: a run that never ends (an abandoned thread) keeps its threads.
        pool, ReusedThreadPool._idle = ReusedThreadPool._idle, None
        self._pool = pool or futures.ThreadPoolExecutor(max_workers, thread_name_prefix="pyoco-task")
        self._futures: list[futures.Future[Any]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        # As in a new thread: without the context variables of earlier tasks.
        future = self._pool.submit(contextvars.Context().run, work, *args, **kwargs)
        self._futures.append(future)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        futures.wait(self._futures)
        ReusedThreadPool._idle = self._pool


class InlinePool:
    """Replaces a ThreadPoolExecutor: runs each task when it is submitted, in the calling thread."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        future: futures.Future[Any] = futures.Future()
        try:
            future.set_result(contextvars.Context().run(work, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # as a pool does; the engine reads the future
            future.set_exception(error)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to wait for."""


def _pool(max_workers: int) -> ReusedThreadPool | InlinePool:
    return InlinePool() if _thread.runs_chain else ReusedThreadPool(max_workers)


_CONCURRENT = SimpleNamespace(futures=SimpleNamespace(**(vars(futures) | {"ThreadPoolExecutor": _pool})))


def _import(name: str, *rest: Any) -> Any:
    return _CONCURRENT if name == "concurrent.futures" else builtins.__import__(name, *rest)


class _Context(Context):  # type: ignore[misc]  # pyoco is not typed
    """A context that makes no folder of artifacts; pyoco makes one for each run, `TaskContext` when a task uses it."""

    def __post_init__(self) -> None:
        """Nothing is made yet."""


def _context(**fields: Any) -> Context:
    return _Context(artifact_dir=_thread.artifact_dir or "./artifacts", **fields)


def _rebind(method: Any) -> FunctionType:
    ours = {"__builtins__": {**vars(builtins), "__import__": _import}, "Context": _context}
    namespace = {**method.__globals__, **ours}
    copy = FunctionType(method.__code__, namespace, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    return copy


class PooledEngine(engine.Engine):  # type: ignore[misc]  # pyoco is not typed
    """An Engine whose runs, one after the other, share the threads of the process."""

    _run = _rebind(engine.Engine.run)
    _run_flow = _rebind(engine.Engine._run_flow)

    def __init__(self, trace_backend: Any, artifact_dir: str | None = None) -> None:
        super().__init__(trace_backend)
        self._artifact_dir = artifact_dir

    def run(self, flow: Flow, *args: Any, **kwargs: Any) -> Any:
        _thread.runs_chain, _thread.artifact_dir = _is_chain(flow), self._artifact_dir
        try:
            return self._run(flow, *args, **kwargs)
        finally:
            _thread.runs_chain, _thread.artifact_dir = False, None


def _is_chain(flow: Flow) -> bool:
    """Whether its tasks form a chain without deadlines, which the engine would have to watch meanwhile."""
    before = [dependency for task in flow.tasks for dependency in task.dependencies]
    return (
        len(before) == len(flow.tasks) - 1
        and len(set(before)) == len(before)
        and all(len(task.dependencies) <= 1 and not task.timeout_sec for task in flow.tasks)
    )
