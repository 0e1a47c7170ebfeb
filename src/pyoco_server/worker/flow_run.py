"""Runs one flow in one pyoco Engine and tells its steps; it knows no process, no socket and no queue.

The engine leaves gaps that are closed here by a guard around each task's function: coroutines are awaited, a cancel
also stops retries and async tasks, `sys.exit` is a failure like any other, a forked copy of the process does not go on
as if it were the runner, tasks can say how far they are, and outputs are caught where they appear.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, RunStatus

from pyoco_server.trace import (
    NatsKvTraceBackend,
    NodeBegan,
    NodeFailed,
    NodesDeclared,
    NodeSucceeded,
    Step,
    describe_error,
    encodable,
)
from pyoco_server.worker.file_flow import flow_from_file
from pyoco_server.worker.flow_shape import names_in_order
from pyoco_server.worker.outputs import storable
from pyoco_server.worker.pooled_engine import PooledEngine
from pyoco_server.worker.progress import ProgressDesk, Report, TaskContext
from pyoco_server.worker.steps import Ended, RunJob

Emit = Callable[[Step], None]
Resolver = Callable[[str], Flow]


class TaskExited(RuntimeError):
    """user code tried to end the process it runs in"""


class RunCancelled(BaseException):
    """The run was cancelled. Not an Exception, so that neither the engine's retries nor a task's `except` take it."""


class CancelSwitch:
    """Says once and for all, from any thread, that a run is to stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._listeners: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._lock:
            if not self._is_set:
                self._is_set = True
                for listener in self._listeners:
                    listener()

    @contextmanager
    def calls(self, listener: Callable[[], None]) -> Iterator[None]:
        """Within the block `listener` is called when the switch is set, at once if it is already."""
        with self._lock:
            self._listeners.append(listener)
            if self._is_set:
                listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CurrentRun:
    trace: NatsKvTraceBackend
    cancel: CancelSwitch
    pid: int


class _Here(threading.local):
    run: _CurrentRun | None = None
    report: Report | None = None


_here = _Here()


class _Telling:
    """What the engine reports on its way out: stopped where the run is to stop, and in order with what tasks say."""

    def __init__(self, emit: Emit, cancel: CancelSwitch, desk: ProgressDesk) -> None:
        self.run: _CurrentRun | None = None
        self._emit = emit
        self._cancel = cancel
        self._desk = desk

    def __call__(self, step: Step) -> None:
        if isinstance(step, NodeBegan):
            if self._cancel.is_set():
                raise RunCancelled
            # The engine calls the task in the thread in which it told its beginning.
            _here.run, _here.report = self.run, functools.partial(self._desk.report, step.node, step.nth)
        elif isinstance(step, NodeSucceeded | NodeFailed):
            self._desk.end(step.node)
            if isinstance(step, NodeSucceeded) and self._cancel.is_set():
                return  # it came back because it was told to stop: that is no success
        self._emit(step)


def run_job(resolver: Resolver, job: RunJob, emit: Emit, cancel: CancelSwitch) -> Ended:
    """Find the job's flow and run it. A KeyError of the resolver, or None, means that there is no such flow."""
    try:
        flow = resolver(job.flow_name) if job.workflow_yaml is None else flow_from_file(job)
    except KeyError as error:
        if job.workflow_yaml is not None:
            return _failed(error)
        flow = None
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # around the user's flow
        return _failed(error)
    if flow is None:
        message = encodable(f"no flow named {job.flow_name!r} is served here")
        return Ended(at=time.time(), how="flow_not_found", error_type="FlowNotFound", message=message)
    if not isinstance(flow, Flow):
        kind = type(flow).__name__
        return _failed(TypeError(f"the resolver returned a {kind} for {job.flow_name!r}, not a pyoco Flow"))
    return run_flow(flow, job, emit, cancel)


def run_flow(flow: Flow, job: RunJob, emit: Emit, cancel: CancelSwitch) -> Ended:
    """Run the flow to its end. A cancel requested before that end wins over whatever the engine says."""
    streams = sys.stdout, sys.stderr
    failure: BaseException | None = None
    try:
        _run_engine(flow, job, emit, cancel)
    except RunCancelled as cancelled:
        failure = cancelled
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # around the user's flow
        failure = error
    finally:
        sys.stdout, sys.stderr = streams
        _here.run = None
    if cancel.is_set():
        return Ended(at=time.time(), how="cancelled")
    return Ended(at=time.time(), how="completed") if failure is None else _failed(failure)


def _failed(error: BaseException) -> Ended:
    told = describe_error(error, hide_frames_of=__file__)
    return Ended(
        at=time.time(), how="failed", error_type=told.error_type, message=told.message, traceback=told.traceback
    )


def _run_engine(flow: Flow, job: RunJob, emit: Emit, cancel: CancelSwitch) -> None:
    if cancel.is_set():
        raise RunCancelled
    emit(NodesDeclared(at=time.time(), nodes=names_in_order(flow)))
    for task in flow.tasks:
        if not getattr(task.func, "guarded_by_pyoco_server", False):
            task.func = _guarded(task.func)

    # In a flow with loops or branches the engine has no deadlines.
    limits = {} if flow.has_control_flow() else {t.name: t.timeout_sec for t in flow.tasks if t.timeout_sec}
    desk = ProgressDesk(emit)
    telling = _Telling(emit, cancel, desk)
    trace = NatsKvTraceBackend(telling, time_limits_sec=limits, hide_frames_of=__file__)
    telling.run = _CurrentRun(trace=trace, cancel=cancel, pid=os.getpid())
    context = RunContext(run_id=job.run_id)

    def tell_engine() -> None:
        if context.status == RunStatus.RUNNING:
            context.status = RunStatus.CANCELLING

    with cancel.calls(tell_engine):
        try:
            PooledEngine(trace_backend=trace).run(flow, dict(job.params), context)
        except Exception as error:
            if not cancel.is_set():
                trace.fail_open_nodes(error)
            raise
        finally:
            desk.close()


def _guarded(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        run = _here.run
        if run is None:
            return func(*args, **kwargs)
        if run.cancel.is_set():
            raise RunCancelled
        try:
            result = _called(func, args, kwargs, run)
            run.trace.keep_output(storable(result))
        except (Exception, RunCancelled):
            raise
        except BaseException as error:
            if run.cancel.is_set():
                raise RunCancelled from error
            raise TaskExited(_exit_message(error)) from error
        return result

    guarded.guarded_by_pyoco_server = True  # type: ignore[attr-defined]  # flows are reused: never guard a guard
    try:
        # pyoco asks for the signature at each call; computing it once makes every later call cheaper.
        guarded.__signature__ = inspect.signature(func)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return guarded  # a builtin without a signature: pyoco reports that at the call
    return guarded


def _called(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], run: _CurrentRun) -> Any:
    if isinstance(context := kwargs.get("ctx"), Context) and _here.report is not None:
        kwargs["ctx"] = TaskContext.seen_by(context, _here.report)
    try:
        result = func(*args, **kwargs)
        return asyncio.run(_awaited(result, run.cancel)) if inspect.isawaitable(result) else result
    finally:
        if os.getpid() != run.pid:
            _leave_copy(sys.exc_info()[1])


def _leave_copy(error: BaseException | None) -> NoReturn:
    """A task has forked and this is the child: it must not go on with a run that is its parent's."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


async def _awaited(awaitable: Awaitable[Any], cancel: CancelSwitch) -> Any:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    with cancel.calls(stop):
        return await awaitable


def _exit_message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the task called sys.exit({'' if error.code is None else repr(error.code)})"
    return f"the task raised {type(error).__name__}"
