"""Checks that a log follows the rules: `decide` must return the stored events for every commit. Pure.

A log contains events, not commands, so each command is reconstructed from its events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pyoco_server.domain.execution.commands import (
    AddTag,
    ArchiveExecution,
    AttemptStep,
    CancelExecution,
    Command,
    CompleteExecution,
    ConfirmCanceled,
    CreateExecution,
    DeclareNodes,
    ExpireNode,
    FailExecution,
    FailNode,
    PutNodeWaiting,
    RecordAttempt,
    RemoveTag,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import decide
from pyoco_server.domain.execution.events import (
    Commit,
    Event,
    Events,
    ExecutionArchived,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    ExecutionStarted,
    ExecutionTagAdded,
    ExecutionTagRemoved,
    NodeCanceled,
    NodeCreated,
    NodeFailed,
    NodeProgressReported,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
    StoredCommit,
)
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import InstanceId, RunId

# Commands to a single node; in a worker's report they are steps.
NODE_COMMANDS = (
    "StartNode",
    "ReportNodeProgress",
    "PutNodeWaiting",
    "ResumeNode",
    "SucceedNode",
    "FailNode",
    "StopNode",
    "ExpireNode",
)
ALLOWED_AFTER_END = (ExecutionArchived, ExecutionTagAdded, ExecutionTagRemoved)


def rule_violations(run_id: str, log: Sequence[StoredCommit]) -> Iterator[str]:
    """The violations of the rules in the history of a run."""
    execution = empty_execution(RunId(run_id))
    for stored in log:
        commit = stored.commit
        position = f"sequence {stored.sequence}, {commit.command}"
        if execution.status.is_terminal and not all(isinstance(event, ALLOWED_AFTER_END) for event in commit.events):
            yield f"{position}: the execution was {execution.status.value} already"
        if commit.command == RecordAttempt.__name__ and not _is_holder(execution, commit):
            yield f"{position}: written by {commit.actor.id}, who did not hold the execution"
        command = command_of(execution, commit)
        if command is None:
            yield f"{position}: no command produces {_names(commit.events)}"
        elif (decided := decide(execution, command)) != commit.events:
            yield f"{position}: stored {_names(commit.events)}, but the rules say {decided}"
        execution = replace(fold(commit.events, execution), version=stored.sequence)


def command_of(execution: Execution, commit: Commit) -> Command | None:
    """The command that produced these events."""
    if commit.command == RecordAttempt.__name__:
        holder = execution.holder
        return RecordAttempt(
            at=commit.occurred_at,
            attempt=execution.attempt,
            instance_id=(holder.instance_id if holder else None) or InstanceId(""),
            steps=tuple(_steps(commit.events)),
        )
    if commit.command in NODE_COMMANDS:
        return _node_command(execution, commit)
    match commit.events:
        case (ExecutionCreated() as event, *_):
            return CreateExecution(at=event.at, request=event.request, labels=event.labels, graph=event.graph)
        case (ExecutionStarted() as event, *_):
            return StartExecution(
                at=event.at,
                attempt=event.attempt,
                worker_id=event.worker_id,
                instance_id=event.instance_id,
                return_to=event.return_to,
                wheels=event.wheels,
            )
        case (ExecutionCancelRequested() as event,):
            return CancelExecution(at=event.at, reason=event.reason, requested_by=event.requested_by)
        case (ExecutionCanceled() as event,):
            return ConfirmCanceled(
                at=event.at, how=event.how, delivered_at=event.delivered_at, stopped_at=event.stopped_at
            )
        case (*_, ExecutionFailed() as event):
            return FailExecution(at=event.at, error=event.error, timeout=event.timeout, last_lines=event.last_lines)
        case _:
            return _label_command(commit.events)


def _label_command(events: Events) -> Command | None:
    match events:
        case (ExecutionArchived() as event,):
            return ArchiveExecution(at=event.at)
        case (ExecutionTagAdded() as event,):
            return AddTag(at=event.at, tag=event.tag)
        case (ExecutionTagRemoved() as event,):
            return RemoveTag(at=event.at, tag=event.tag)
        case _:
            return None


def _node_command(execution: Execution, commit: Commit) -> Command | None:
    """The command to one node, identified by its first event; the others are its consequences."""
    match commit.command, commit.events[0]:
        case "StartNode", NodeStarted() as event:
            return StartNode(
                at=event.at,
                node_id=event.node_id,
                attempt=event.attempt,
                worker_id=event.worker_id,
                lease_until=event.lease_until,
                from_outside=True,
            )
        case "ReportNodeProgress", NodeProgressReported() as event:
            return ReportNodeProgress(
                at=event.at,
                node_id=event.node_id,
                attempt=event.attempt,
                progress=event.progress,
                message=event.message,
                lease_until=event.lease_until,
                from_outside=True,
            )
        case "StopNode", NodeCanceled() as event:
            return StopNode(at=event.at, node_id=event.node_id, from_outside=True)
        case "ExpireNode", NodeFailed() as event:
            return ExpireNode(at=event.at, node_id=event.node_id, attempt=event.attempt)
        case "SucceedNode" | "FailNode", event:
            return _step(event)
        case _, event:
            return _wait_command(execution, event)


def _wait_command(execution: Execution, event: Event) -> Command | None:
    match event:
        case NodeWaiting():
            return PutNodeWaiting(
                at=event.at,
                node_id=event.node_id,
                attempt=event.attempt,
                wait_key=event.wait_key,
                prompt=event.prompt,
                deadline_at=event.deadline_at,
                from_outside=True,
            )
        case NodeResumed() if (node := execution.nodes.get(event.node_id)) is not None:
            # The key is not stored with the answer; an accepted one was right.
            return ResumeNode(
                at=event.at,
                node_id=event.node_id,
                attempt=event.attempt,
                resume_key=node.wait_key or "",
                answer=event.answer,
                from_outside=True,
            )
        case _:
            return None


def _steps(events: Events) -> Iterator[AttemptStep]:
    declared = [event for event in events if isinstance(event, NodeCreated)]
    if declared:
        yield DeclareNodes(at=declared[0].at, node_ids=tuple(event.node_id for event in declared))
    for event in events:
        if (step := _step(event)) is not None:
            yield step


def _step(event: Event) -> AttemptStep | None:
    match event:
        case NodeStarted():
            return StartNode(at=event.at, node_id=event.node_id, attempt=event.attempt, worker_id=event.worker_id)
        case NodeSucceeded():
            return SucceedNode(at=event.at, node_id=event.node_id, attempt=event.attempt, output=event.output)
        case NodeFailed():
            return FailNode(at=event.at, node_id=event.node_id, attempt=event.attempt, error=event.error)
        case ExecutionCompleted() | ExecutionCanceled():
            return CompleteExecution(at=event.at)  # after a cancel request, a completion becomes CANCELED
        case ExecutionFailed():
            return FailExecution(at=event.at, error=event.error, timeout=event.timeout, last_lines=event.last_lines)
        case _:
            return None  # a consequence of other events


def _is_holder(execution: Execution, commit: Commit) -> bool:
    return execution.holder is not None and commit.actor.id == execution.holder.worker_id


def _names(events: Events) -> str:
    return ", ".join(type(event).__name__ for event in events)
