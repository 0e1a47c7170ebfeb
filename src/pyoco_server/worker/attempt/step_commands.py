"""Reported steps → commands, and the end of a run → failure, log fields and last lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from pyoco_server.domain.execution.commands import (
    AttemptStep,
    DeclareNodes,
    FailNode,
    ReportNodeProgress,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.state import Failure
from pyoco_server.domain.ids import NodeId, WorkerId
from pyoco_server.domain.secret_params import SecretMask
from pyoco_server.errors import ExecutionFailedError, FlowNotFound
from pyoco_server.trace import Step, TaskFailed, TaskProgressed, TasksDeclared, TaskStarted, TaskSucceeded
from pyoco_server.worker.runner_process.protocol import EXIT_CUT_OFF, RunEnded, RunnerDied, RunUpdate

# Bounds of a run's error and of each last line: both are part of the snapshot.
MESSAGE_CHARS = 1_000
LINE_CHARS = 300
LAST_LINES_BYTES = 8 * 1024
# The first words of faulthandler's crash report.
CRASH_REPORT = "Fatal Python error: "


def to_commands(steps: Iterable[Step], base: Mapping[NodeId, int], worker_id: WorkerId) -> tuple[AttemptStep, ...]:
    """Steps as node commands. `base` has the number of attempts of each node before this one."""
    return tuple(_command(step, base, worker_id) for step in steps)


def _command(step: Step, base: Mapping[NodeId, int], worker_id: WorkerId) -> AttemptStep:
    at = step.at
    if isinstance(step, TasksDeclared):
        edges = tuple((NodeId(source), NodeId(target)) for source, target in step.edges)
        return DeclareNodes(at=at, node_ids=tuple(NodeId(name) for name in step.nodes), edges=edges)
    node_id = NodeId(step.node)
    attempt = base.get(node_id, 0) + step.nth
    match step:
        case TaskStarted():
            return StartNode(at=at, node_id=node_id, attempt=attempt, worker_id=worker_id)
        case TaskProgressed(percent=percent, message=message):
            return ReportNodeProgress(at=at, node_id=node_id, attempt=attempt, progress=percent, message=message)
        case TaskSucceeded(output=output):
            return SucceedNode(at=at, node_id=node_id, attempt=attempt, output=output)
        case TaskFailed():
            failure = Failure(code=step.error_type, message=step.message, traceback=step.traceback)
            return FailNode(at=at, node_id=node_id, attempt=attempt, error=failure)
        case _:
            assert_never(step)


def running_nodes(held: Iterable[str], steps: Iterable[Step]) -> list[str]:
    """The nodes that were running: those known to be, corrected by steps that are not recorded yet."""
    names = dict.fromkeys(held)
    for step in steps:
        if isinstance(step, TaskStarted):
            names[step.node] = None
        elif isinstance(step, TaskSucceeded):
            names.pop(step.node, None)
    return list(names)


def to_failure(end: RunEnded | RunnerDied, flow_name: str) -> Failure:
    """Why the run failed, for its snapshot and event. Short, because the task record has the full message."""
    if isinstance(end, RunnerDied):
        return Failure(code=ExecutionFailedError.err_id, message=_death(end))
    if end.how == "flow_not_found":
        message = f"no flow named {flow_name!r} on this worker"
        return Failure(code=FlowNotFound.err_id, message=f"{FlowNotFound.message()}: {message}")
    kind, message = end.error_type or "Error", end.message or ""
    short = _cut(f"{kind}: {message}" if message else kind, MESSAGE_CHARS)
    return Failure(code=ExecutionFailedError.err_id, message=short, traceback=end.traceback)


def exception_fields(end: RunEnded | RunnerDied | None) -> dict[str, object]:
    """The log fields of the exception that ended the run; none if there was no exception."""
    if not isinstance(end, RunEnded) or end.error_type is None:
        return {}
    fields = {
        "exc_type": end.error_type,
        "exc_message": end.message,
        "exc_traceback": end.traceback,
        "exc_origin": end.origin,
    }
    return {name: value for name, value in fields.items() if value is not None}


def mask_lines(last: RunUpdate, mask: SecretMask) -> RunUpdate:
    """Without secrets in the last lines; the runner has masked what it describes itself."""
    lines, end = tuple(map(mask, last.last_lines)), last.end
    if isinstance(end, RunnerDied):
        end = replace(end, last_lines=tuple(map(mask, end.last_lines)))
    return replace(last, last_lines=lines, end=end)


def bounded_last_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The last lines of a run, bounded for its snapshot; the newest ones are kept."""
    kept: list[str] = []
    room = LAST_LINES_BYTES
    for line in reversed([_cut(line, LINE_CHARS) for line in lines]):
        room -= len(line.encode())
        if room < 0:
            break
        kept.append(line)
    return tuple(reversed(kept))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _death(end: RunnerDied) -> str:
    if end.signal_name == "SIGKILL":
        why = (
            "the runner process was ended by SIGKILL, and not by its worker:"
            " most likely the system ran out of memory, or the process was killed from outside"
        )
    elif end.signal_name is not None:
        why = f"the runner process was ended by {end.signal_name}"
    elif end.exit_code == EXIT_CUT_OFF:
        why = "the runner process lost its connection to the worker: a task has closed file descriptors not its own"
    elif end.exit_code is not None:
        why = f"the runner process exited with code {end.exit_code} in the middle of the run"
    else:
        why = "the runner process was lost"
    last = _last_line(end.last_lines)
    return f"{why}; its last line was: {_cut(last, LINE_CHARS)}" if last else why


def _last_line(lines: tuple[str, ...]) -> str | None:
    """The last line that the flow wrote: Python's crash report follows it."""
    crash = next((index for index, line in enumerate(lines) if line.startswith(CRASH_REPORT)), len(lines))
    return next((line for line in reversed(lines[:crash]) if line.strip()), None)
