"""Runs one flow in one pyoco Engine and emits its steps. Knows no process, socket or queue.

A guard around each task's function closes gaps of the engine: coroutines are awaited, a cancel also stops retries and
async tasks, `sys.exit` is an ordinary failure, a forked copy of the process does not continue the run, tasks can report
progress, and outputs are captured where they are returned.
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

from pyoco_server.domain.secret_params import SecretMask
from pyoco_server.trace import (
    NatsKvTraceBackend,
    Step,
    TaskFailed,
    TasksDeclared,
    TaskStarted,
    TaskSucceeded,
    describe_error,
    encodable,
)
from pyoco_server.worker.runner_process.flow_announcement import names_in_order, result_tasks, storable_edges
from pyoco_server.worker.runner_process.flow_loader import Resolver, load_flow_yaml
from pyoco_server.worker.runner_process.pooled_engine import PooledEngine
from pyoco_server.worker.runner_process.progress import ProgressReporter, ProgressThrottle, TaskContext
from pyoco_server.worker.runner_process.protocol import RunEnded, RunJob
from pyoco_server.worker.runner_process.task_result import to_storable
from pyoco_server.worker.runner_process.task_trace_context import TaskTraceContext, task_context_of

Emit = Callable[[Step], None]


class TaskExited(RuntimeError):
    """user code tried to end the process it runs in"""


class RunCancelled(BaseException):
    """The run was cancelled. Not an Exception, so that neither the engine's retries nor a task's `except` take it."""


class CancelSwitch:
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
        """Calls `listener` when the switch is set within the block, or at once if it is set."""
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
    job: RunJob
    task_context: TaskTraceContext | None


class _ThreadState(threading.local):
    run: _CurrentRun | None = None
    report: ProgressReporter | None = None
    is_in_task: bool = False


_thread = _ThreadState()


class _StepSink:
    """Passes the engine's steps on, in order with the progress of tasks; stops the run at a cancel."""

    def __init__(self, emit: Emit, cancel: CancelSwitch, progress: ProgressThrottle) -> None:
        self.run: _CurrentRun | None = None
        self._emit = emit
        self._cancel = cancel
        self._progress = progress

    def __call__(self, step: Step) -> None:
        if isinstance(step, TaskStarted):
            if self._cancel.is_set():
                raise RunCancelled
            # The engine calls the task in the thread in which it reports the start.
            _thread.run, _thread.report = self.run, functools.partial(self._progress.report, step.node, step.nth)
        elif isinstance(step, TaskSucceeded | TaskFailed):
            self._progress.end(step.node)
            if isinstance(step, TaskSucceeded) and self._cancel.is_set():
                return  # it returned because of the cancel: not a success
        self._emit(step)


def run_job(resolver: Resolver, job: RunJob, emit: Emit, cancel: CancelSwitch) -> RunEnded:
    """Finds the job's flow and runs it. A KeyError of the resolver, or None, means that there is no such flow."""
    try:
        flow = resolver(job.flow_name) if job.workflow_yaml is None else load_flow_yaml(job)
    except KeyError as error:
        if job.workflow_yaml is not None:
            return _failed(error, SecretMask(job.params, job.secret_params))
        flow = None
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # around the user's flow
        return _failed(error, SecretMask(job.params, job.secret_params))
    if flow is None:
        message = encodable(f"no flow named {job.flow_name!r} is served here")
        return RunEnded(at=time.time(), how="flow_not_found", error_type="FlowNotFound", message=message)
    if not isinstance(flow, Flow):
        kind = type(flow).__name__
        no_flow = TypeError(f"the resolver returned a {kind} for {job.flow_name!r}, not a pyoco Flow")
        return _failed(no_flow, SecretMask(job.params, job.secret_params))
    return run_flow(flow, job, emit, cancel)


def run_flow(flow: Flow, job: RunJob, emit: Emit, cancel: CancelSwitch) -> RunEnded:
    """Runs the flow to its end. A cancel requested before that end wins over the engine's result."""
    streams = sys.stdout, sys.stderr
    failure: BaseException | None = None
    mask = SecretMask(job.params, job.secret_params)
    try:
        _check_dependencies(flow)
        _run_engine(flow, job, emit, cancel, mask)
    except RunCancelled as cancelled:
        failure = cancelled
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # around the user's flow
        failure = error
    finally:
        sys.stdout, sys.stderr = streams
        _thread.run = None
    if cancel.is_set():
        return RunEnded(at=time.time(), how="cancelled")
    if failure is not None:
        return _failed(failure, mask)
    return RunEnded(at=time.time(), how="completed", results=result_tasks(flow))


class SharedTask(RuntimeError):
    """a task waits for one that its flow does not have"""


def _check_dependencies(flow: Flow) -> None:
    """A task object that is in several flows has the dependencies of all of them; the engine calls that a deadlock."""
    if flow.has_control_flow():
        return
    for task in sorted(flow.tasks, key=lambda one: str(one.name)):
        missing = sorted(str(before.name) for before in task.dependencies - flow.tasks)
        if missing and task.trigger_policy != "ANY":
            raise SharedTask(
                f"task {task.name!r} waits for {missing[0]!r}, which the flow {flow.name!r} does not have: the same "
                "task is in several flows, and has the dependencies of all. Make one for each flow: task(function)"
            )


def _failed(error: BaseException, mask: SecretMask) -> RunEnded:
    described = describe_error(error, hide_frames_of=__file__, mask=mask)
    return RunEnded(
        at=time.time(),
        how="failed",
        error_type=described.error_type,
        message=described.message,
        traceback=described.traceback,
        origin=described.origin,
    )


def _run_engine(flow: Flow, job: RunJob, emit: Emit, cancel: CancelSwitch, mask: SecretMask) -> None:
    if cancel.is_set():
        raise RunCancelled
    emit(TasksDeclared(at=time.time(), nodes=names_in_order(flow), edges=storable_edges(flow)))
    for task in flow.tasks:
        if not getattr(task.func, "guarded_by_pyoco_server", False):
            task.func = _guarded(task.func)

    # In a flow with loops or branches the engine has no deadlines, and every failure ends the run.
    limits = {t.name: t.timeout_sec for t in flow.tasks if t.timeout_sec}
    isolated = () if flow.has_control_flow() else [t.name for t in flow.tasks if t.fail_policy == "isolate"]
    stopping = {name: limit_sec for name, limit_sec in limits.items() if name not in isolated}
    progress = ProgressThrottle(emit)
    sink = _StepSink(emit, cancel, progress)
    watched = {} if flow.has_control_flow() else limits
    trace = NatsKvTraceBackend(
        sink, time_limits_sec=watched, stop_limits_sec=stopping, hide_frames_of=__file__, mask=mask
    )
    task_context = task_context_of(job.traceparent, job.tracestate)
    sink.run = _CurrentRun(trace=trace, cancel=cancel, pid=os.getpid(), job=job, task_context=task_context)
    context = RunContext(run_id=job.run_id)

    def cancel_engine() -> None:
        # FAILED: the engine has failed the run at a task's deadline and waits for that task.
        if context.status in (RunStatus.RUNNING, RunStatus.FAILED):
            context.status = RunStatus.CANCELLING

    with cancel.calls(cancel_engine):
        try:
            PooledEngine(trace, job.artifact_dir).run(flow, dict(job.params), context)
        except Exception as error:
            if not cancel.is_set():
                trace.fail_open_nodes(error)
            raise
        finally:
            progress.close()


def _guarded(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        run = _thread.run
        if run is None:
            return func(*args, **kwargs)
        if run.cancel.is_set():
            raise RunCancelled
        if _thread.is_in_task:
            return func(*args, **kwargs)  # a task that calls the function of another one
        run.trace.note_call()
        _thread.is_in_task = True
        try:
            if run.task_context is None:
                result = _called(func, args, kwargs, run)
            else:
                with run.task_context.entered(run.trace.current_start()):
                    result = _called(func, args, kwargs, run)
            run.trace.keep_output(to_storable(result))
        except (Exception, RunCancelled):
            raise
        except BaseException as error:
            if run.cancel.is_set():
                raise RunCancelled from error
            raise TaskExited(_exit_message(error)) from error
        finally:
            _thread.is_in_task = False
        return result

    guarded.guarded_by_pyoco_server = True  # type: ignore[attr-defined]  # flows are reused: guard once
    try:
        # pyoco reads the signature at each call; computing it once makes later calls cheaper.
        guarded.__signature__ = inspect.signature(func)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return guarded  # a builtin without a signature: pyoco reports that at the call
    return guarded


def _called(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], run: _CurrentRun) -> Any:
    if isinstance(context := kwargs.get("ctx"), Context) and _thread.report is not None:
        job = run.job
        kwargs["ctx"] = TaskContext.wrap(
            context, _thread.report, request_id=job.request_id, correlation_id=job.correlation_id
        )
    try:
        result = func(*args, **kwargs)
        return asyncio.run(_awaited(result, run.cancel)) if inspect.isawaitable(result) else result
    finally:
        if os.getpid() != run.pid:
            _exit_forked_child(sys.exc_info()[1])


def _exit_forked_child(error: BaseException | None) -> NoReturn:
    """Ends a child that a task has forked: the run belongs to its parent."""
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
