"""What a runner reported → commands to the core: pure translation, with the words a person reads when it went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from pyoco_server.errors import ExecutionFailedError, FlowNotFound
from pyoco_server.worker.steps import (
    EXIT_CUT_OFF,
    Died,
    Ended,
    NodeBegan,
    NodeFailed,
    NodeProgressed,
    NodesDeclared,
    NodeSucceeded,
    Step,
)

# Of a run's error and of each of its last lines: the snapshot is read by people, and often.
MESSAGE_CHARS = 1_000
LINE_CHARS = 300
LAST_LINES_BYTES = 8 * 1024
# How Python begins its report of a crash (faulthandler).
CRASH_REPORT = "Fatal Python error: "


def commands_of(steps: Iterable[Step], base: Mapping[NodeId, int], worker_id: WorkerId) -> tuple[AttemptStep, ...]:
    """Steps as node commands. `base` has the attempts each node had before this worker began: ours count on from it."""
    return tuple(_command(step, base, worker_id) for step in steps)


def _command(step: Step, base: Mapping[NodeId, int], worker_id: WorkerId) -> AttemptStep:
    match step:
        case NodesDeclared():
            return DeclareNodes(at=step.at, node_ids=tuple(NodeId(name) for name in step.nodes))
        case NodeBegan():
            node_id = NodeId(step.node)
            return StartNode(at=step.at, node_id=node_id, attempt=base.get(node_id, 0) + step.nth, worker_id=worker_id)
        case NodeProgressed():
            node_id = NodeId(step.node)
            attempt = base.get(node_id, 0) + step.nth
            return ReportNodeProgress(
                at=step.at, node_id=node_id, attempt=attempt, progress=step.percent, message=step.message
            )
        case NodeSucceeded():
            node_id = NodeId(step.node)
            attempt = base.get(node_id, 0) + step.nth
            return SucceedNode(at=step.at, node_id=node_id, attempt=attempt, output=step.output)
        case NodeFailed():
            node_id = NodeId(step.node)
            failure = Failure(code=step.error_type, message=step.message, traceback=step.traceback)
            return FailNode(at=step.at, node_id=node_id, attempt=base.get(node_id, 0) + step.nth, error=failure)
        case _:
            assert_never(step)


def at_work(held: Iterable[str], steps: Iterable[Step]) -> list[str]:
    """The nodes that were being worked on: those known to be, and those that steps not yet recorded tell of."""
    names = dict.fromkeys(held)
    for step in steps:
        if isinstance(step, NodeBegan):
            names[step.node] = None
        elif isinstance(step, NodeSucceeded):
            names.pop(step.node, None)
    return list(names)


def failure_of(end: Ended | Died, flow_name: str) -> Failure:
    """Why the run failed, for its snapshot and its event: short, since the record of the task has all its words."""
    if isinstance(end, Died):
        return Failure(code=ExecutionFailedError.err_id, message=_death(end))
    if end.how == "flow_not_found":
        message = f"no flow named {flow_name!r} on this worker"
        return Failure(code=FlowNotFound.err_id, message=f"{FlowNotFound.message()}: {message}")
    kind, message = end.error_type or "Error", end.message or ""
    told = _cut(f"{kind}: {message}" if message else kind, MESSAGE_CHARS)
    return Failure(code=ExecutionFailedError.err_id, message=told, traceback=end.traceback)


def last_words(lines: Iterable[str]) -> tuple[str, ...]:
    """What a run wrote last, as a snapshot can hold it: where it is too much, the newest stay."""
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


def _death(end: Died) -> str:
    if end.signal_name == "SIGKILL":
        why = (
            "the runner process was ended by SIGKILL, and not by its worker:"
            " most likely the system ran out of memory, or somebody killed it"
        )
    elif end.signal_name is not None:
        why = f"the runner process was ended by {end.signal_name}"
    elif end.exit_code == EXIT_CUT_OFF:
        why = "the runner process lost its connection to the worker: a task has closed file descriptors not its own"
    elif end.exit_code is not None:
        why = f"the runner process exited with code {end.exit_code} in the middle of the run"
    else:
        why = "the runner process was lost"
    said = _said_last(end.last_lines)
    return f"{why}; its last line was: {_cut(said, LINE_CHARS)}" if said else why


def _said_last(lines: tuple[str, ...]) -> str | None:
    """The last line of the flow's own: what Python says of a crash follows it."""
    crash = next((place for place, line in enumerate(lines) if line.startswith(CRASH_REPORT)), len(lines))
    return next((line for line in reversed(lines[:crash]) if line.strip()), None)
