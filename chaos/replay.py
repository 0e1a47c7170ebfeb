"""Checks that a log follows the rules: `decide` must return the stored events for every commit. Pure.

A log contains events, not commands, so each command is reconstructed from its events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pyoco_server.domain.execution import commands, events
from pyoco_server.domain.execution.commands import (
    CompleteExecution,
    CreateExecution,
    DeclareNodes,
    FailExecution,
    RecordAttempt,
    ResumeNode,
)
from pyoco_server.domain.execution.decide import decide
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.state import Execution, Work, empty_execution
from pyoco_server.domain.ids import InstanceId, NodeId, RunId

# The event that has the values of a command; the other events of a commit are its consequences.
MAIN_EVENTS: Mapping[type[Any], tuple[type[Any], ...]] = {
    CreateExecution: (events.ExecutionCreated,),
    commands.StartExecution: (events.ExecutionStarted,),
    commands.CancelExecution: (events.ExecutionCancelRequested,),
    commands.ConfirmCanceled: (events.ExecutionCanceled,),
    # After a cancel request, both ends become CANCELED.
    CompleteExecution: (events.ExecutionCompleted, events.ExecutionCanceled),
    FailExecution: (events.ExecutionFailed, events.ExecutionCanceled),
    commands.ArchiveExecution: (events.ExecutionArchived,),
    commands.AddTag: (events.ExecutionTagAdded,),
    commands.RemoveTag: (events.ExecutionTagRemoved,),
    commands.StartNode: (events.NodeStarted,),
    commands.ReportNodeProgress: (events.NodeProgressReported,),
    commands.PutNodeWaiting: (events.NodeWaiting,),
    ResumeNode: (events.NodeResumed,),
    commands.SucceedNode: (events.NodeSucceeded,),
    commands.FailNode: (events.NodeFailed,),
    commands.StopNode: (events.NodeCanceled,),
    commands.ExpireNode: (events.NodeFailed,),
}
COMMANDS = {kind.__name__: kind for kind in MAIN_EVENTS}
# The steps of a worker's report; other events in it are consequences.
STEPS: Mapping[type[Any], type[Any]] = {
    events.NodeStarted: commands.StartNode,
    events.NodeSucceeded: commands.SucceedNode,
    events.NodeFailed: commands.FailNode,
    events.ExecutionCompleted: CompleteExecution,
    events.ExecutionCanceled: CompleteExecution,
    events.ExecutionFailed: FailExecution,
}
ALLOWED_AFTER_END = (events.ExecutionArchived, events.ExecutionTagAdded, events.ExecutionTagRemoved)


def rule_violations(run_id: str, log: Sequence[events.StoredCommit]) -> Iterator[str]:
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


def command_of(execution: Execution, commit: events.Commit) -> commands.Command | None:
    """The command that produced these events."""
    if commit.command == RecordAttempt.__name__:
        holder = execution.holder
        return RecordAttempt(
            at=commit.occurred_at,
            attempt=execution.attempt,
            instance_id=(holder.instance_id if holder else None) or InstanceId(""),
            steps=tuple(_steps(commit.events)),
        )
    kind: Any = COMMANDS.get(commit.command)
    event: Any = next((event for event in commit.events if isinstance(event, MAIN_EVENTS.get(kind, ()))), None)
    if event is None:
        return None
    if kind is FailExecution and isinstance(event, events.ExecutionCanceled):
        kind = CompleteExecution  # has the same effect, and the error is not stored
    is_callers = commit.actor.kind == "user" and execution.request.work is Work.NODES
    more: dict[str, Any] = {"from_outside": is_callers}
    if kind is CreateExecution and event.graph is None:
        more["node_ids"] = tuple(created.node_id for created in _created(commit.events))
        more["edges"] = _edges(commit.events)
    elif kind is ResumeNode:
        # The key is not stored with the answer; an accepted one was right.
        node = execution.nodes.get(event.node_id)
        more["resume_key"] = node.wait_key if node is not None else None
    command: commands.Command = _from_event(kind, event, **more)
    return command


def _from_event(kind: type[Any], event: Any, **more: Any) -> Any:
    """The command with the values that its event has under the same names."""
    names = kind.__struct_fields__
    return kind(**{name: getattr(event, name) for name in names if hasattr(event, name)} | more)


def _steps(stored: events.Events) -> Iterator[commands.AttemptStep]:
    if created := _created(stored):
        node_ids = tuple(event.node_id for event in created)
        yield DeclareNodes(at=created[0].at, node_ids=node_ids, edges=_edges(stored))
    for event in stored:
        if (kind := STEPS.get(type(event))) is not None:
            yield _from_event(kind, event)


def _created(stored: events.Events) -> list[events.NodeCreated]:
    return [event for event in stored if isinstance(event, events.NodeCreated)]


def _edges(stored: events.Events) -> tuple[tuple[NodeId, NodeId], ...]:
    return tuple((before, event.node_id) for event in _created(stored) for before in event.before)


def _is_holder(execution: Execution, commit: events.Commit) -> bool:
    return execution.holder is not None and commit.actor.id == execution.holder.worker_id


def _names(stored: events.Events) -> str:
    return ", ".join(type(event).__name__ for event in stored)
