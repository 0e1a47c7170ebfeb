"""The rules: a command and the current execution give events, nothing (already so), or a rejection.

One function per command; those for nodes are in `decide_nodes.py`. In order they follow the life of an execution:

    CreateExecution ─▶ StartExecution ─▶ node commands … ─▶ CompleteExecution | FailExecution ─▶ ArchiveExecution
                              └── CancelExecution ─▶ ConfirmCanceled      (at any time before the end)

Cancel wins: once it is requested, commands that would make progress are rejected, and a worker's verdict — success or
failure — becomes EXECUTION_CANCELED. With a graph, `decide` is also the process manager: the successors of a finished
node become ready in the same commit, so no step is lost or doubled between two processes.
"""

from __future__ import annotations

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
    FailExecution,
    RecordAttempt,
    RemoveTag,
    StartExecution,
    StopNode,
)
from pyoco_server.domain.execution.decide_nodes import decide_node, failed, ready, stop_node
from pyoco_server.domain.execution.events import (
    Event,
    ExecutionArchived,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionQueued,
    ExecutionStarted,
    ExecutionTagAdded,
    ExecutionTagRemoved,
    NodeCanceled,
    NodeCreated,
)
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.graph import problems
from pyoco_server.domain.execution.rejection import (
    Rejection,
    RejectionReason,
    Verdict,
    fenced,
    finished,
    no_progress,
    not_current,
    reject,
)
from pyoco_server.domain.execution.state import MAX_LABELS, MAX_NODES, Execution, Status, StopHow, Work
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW

__all__ = ["Rejection", "RejectionReason", "Verdict", "decide", "decide_and_fold"]

_ALLOWED_FROM_API = (StartExecution, CancelExecution, ArchiveExecution, AddTag, RemoveTag)


def decide_and_fold(execution: Execution, command: Command) -> tuple[Verdict, Execution]:
    """The verdict and the execution after it. A report of many steps is folded while it is decided."""
    if isinstance(command, RecordAttempt) and execution.exists and not command.from_outside:
        return _record_attempt(execution, command)
    verdict = decide(execution, command)
    return verdict, execution if isinstance(verdict, Rejection) else fold(verdict, execution)


def decide(execution: Execution, command: Command) -> Verdict:
    """The events of a command, `()` if it changes nothing, or the guard that rejects it."""
    if refused := _inadmissible(execution, command):
        return refused
    match command:
        case CreateExecution():
            return _create(execution, command)
        case StartExecution():
            return _start(execution, command)
        case CancelExecution():
            return _cancel(execution, command)
        case ConfirmCanceled():
            return _confirm_canceled(execution, command)
        case CompleteExecution():
            return _complete(execution, command)
        case FailExecution():
            return _fail(execution, command)
        case ArchiveExecution():
            return _archive(execution, command)
        case AddTag() | RemoveTag():
            return _label(execution, command)
        case RecordAttempt():
            return _record_attempt(execution, command)[0]
        case StopNode():
            return stop_node(execution, command)
        case _:
            refused = no_progress(execution, command)
            return refused or decide_node(execution, command)


# --- the execution as a whole -----------------------------------------------------------------------------------------


def _create(execution: Execution, command: CreateExecution) -> Verdict:
    if execution.created_at is not None:
        return ()
    if len(set(command.labels)) > MAX_LABELS:
        return reject(RejectionReason.TOO_MANY_TAGS)
    labels = tuple(dict.fromkeys(command.labels))
    created = ExecutionCreated(
        at=command.at,
        request=command.request,
        labels=labels,
        graph=command.graph,
        workflow_yaml=command.workflow_yaml,
        node_inputs=command.node_inputs,
    )
    if command.graph is None:
        return _with_nodes(execution, command, created) if command.node_ids else (created,)
    if len(command.graph.nodes) > MAX_NODES:
        return reject(RejectionReason.TOO_MANY_NODES)
    if found := problems(command.graph):
        return reject(RejectionReason.INVALID_GRAPH, "; ".join(found[:10]))
    return (created, *(NodeCreated(at=command.at, node_id=node.node_id) for node in command.graph.nodes))


def _with_nodes(execution: Execution, command: CreateExecution, created: ExecutionCreated) -> Verdict:
    """Also declare the nodes that an engine will report later; duplicates are ignored."""
    declared = decide_node(
        fold((created,), execution), DeclareNodes(at=command.at, node_ids=command.node_ids, edges=command.edges)
    )
    return declared if isinstance(declared, Rejection) else (created, *declared)


def _inadmissible(execution: Execution, command: Command) -> Rejection | None:
    """Reject commands to unknown executions, and API commands that only the running worker may give.

    The batches of a PDCA request are its engine's: a node that is none of them could not even be shown.
    """
    if isinstance(command, CreateExecution):
        return None
    if not execution.exists:
        return reject(RejectionReason.NOT_FOUND)
    if not command.from_outside or isinstance(command, _ALLOWED_FROM_API):
        return None
    if execution.request.work is Work.NODES and execution.request.flow_name != REQUEST_FLOW:
        return None
    if execution.status.is_terminal:
        return finished(execution)
    return reject(RejectionReason.A_WORKER_RUNS_IT)


def _start(execution: Execution, command: StartExecution) -> Verdict:
    if refused := no_progress(execution, command):
        return refused
    if command.instance_id is not None and execution.request.work is Work.NODES:
        return reject(RejectionReason.NOT_FOR_WORKERS)
    if command.from_outside and execution.request.work is not Work.NODES:
        return () if execution.is_queued else (ExecutionQueued(at=command.at),)
    if not execution.is_queued and execution.request.work is Work.ON_START:
        return reject(RejectionReason.NOT_STARTED)
    attempt = command.attempt
    if attempt is None:
        if execution.holder is not None:
            return ()
        attempt = 1
    if attempt < 1:
        return reject(RejectionReason.INVALID_VALUE, "attempt counts from 1")
    if execution.holder is not None and attempt == execution.attempt:
        same = execution.holder.instance_id == command.instance_id
        return () if same else fenced(execution, attempt)
    if attempt < execution.attempt:
        return fenced(execution, attempt)
    started = ExecutionStarted(
        at=command.at,
        attempt=attempt,
        worker_id=command.worker_id,
        instance_id=command.instance_id,
        return_to=command.return_to,
        wheels=command.wheels,
        code_version=command.code_version,
    )
    if execution.graph is None or execution.holder is not None:
        return (started,)
    return (started, *(event for root in execution.graph.roots() for event in ready(root, command.at)))


def _cancel(execution: Execution, command: CancelExecution) -> Verdict:
    if execution.status is Status.CANCELED or (execution.cancel is not None and not execution.status.is_terminal):
        return ()
    if execution.status.is_terminal:
        return finished(execution)
    return (ExecutionCancelRequested(at=command.at, reason=command.reason, requested_by=command.requested_by),)


def _confirm_canceled(execution: Execution, command: ConfirmCanceled) -> Verdict:
    if execution.status is Status.CANCELED:
        return ()
    if execution.status.is_terminal:
        return finished(execution)
    without_holder = command.how in (StopHow.BEFORE_START, StopHow.IDLE, StopHow.SUBMIT_FAILED)
    taken_back_too_late = command.how is StopHow.SUBMIT_FAILED and execution.started_at is not None
    if taken_back_too_late or (without_holder and execution.is_worked_on(command.at)):
        return reject(RejectionReason.HELD)
    if execution.cancel is None and command.how is not StopHow.SUBMIT_FAILED:
        return reject(RejectionReason.NO_CANCEL_REQUESTED)
    if refused := not_current(execution, command.attempt, None):
        return refused
    return (
        ExecutionCanceled(
            at=command.at, how=command.how, delivered_at=command.delivered_at, stopped_at=command.stopped_at
        ),
    )


def _complete(execution: Execution, command: CompleteExecution) -> Verdict:
    if execution.status is Status.COMPLETED:
        return ()
    if refused := _no_verdict(execution, command):
        return refused
    if execution.cancel is not None:
        return (ExecutionCanceled(at=command.at, how=StopHow.COOPERATIVE, stopped_at=command.at),)
    if execution.started_at is None:
        return reject(RejectionReason.NOT_STARTED)
    if execution.graph is not None:
        return reject(RejectionReason.GRAPH_DECIDES)
    # Nodes of a lost attempt, or nodes that never ended, must not stay RUNNING for ever.
    left = (NodeCanceled(at=command.at, node_id=n.node_id) for n in execution.nodes.values() if n.status.is_held)
    return (*left, ExecutionCompleted(at=command.at, result_nodes=command.result_nodes))


def _fail(execution: Execution, command: FailExecution) -> Verdict:
    if execution.status is Status.FAILED:
        return ()
    if refused := _no_verdict(execution, command):
        return refused
    if execution.cancel is not None:
        return (ExecutionCanceled(at=command.at, how=StopHow.COOPERATIVE, stopped_at=command.at),)
    *left, end = failed(execution, command.error, command.at)
    return (*left, replace(end, timeout=command.timeout, last_lines=command.last_lines))


def _archive(execution: Execution, command: ArchiveExecution) -> Verdict:
    if not execution.status.is_terminal:
        return reject(RejectionReason.NOT_FINISHED, "only a finished execution can be archived; cancel it first")
    return () if execution.archived_at is not None else (ExecutionArchived(at=command.at),)


def _label(execution: Execution, command: AddTag | RemoveTag) -> Verdict:
    if isinstance(command, RemoveTag):
        return (ExecutionTagRemoved(at=command.at, tag=command.tag),) if command.tag in execution.labels else ()
    if command.tag in execution.labels:
        return ()
    if len(execution.labels) >= MAX_LABELS:
        return reject(RejectionReason.TOO_MANY_TAGS)
    return (ExecutionTagAdded(at=command.at, tag=command.tag),)


def _record_attempt(execution: Execution, command: RecordAttempt) -> tuple[Verdict, Execution]:
    if execution.status.is_terminal:
        return finished(execution), execution
    if refused := not_current(execution, command.attempt, command.instance_id):
        return refused, execution
    events: list[Event] = []
    now = execution
    for step in command.steps:
        verdict = decide(now, _by_holder(step, command))
        if isinstance(verdict, Rejection):
            continue  # too late: something stronger ended the node, or a cancel stops all progress
        events += verdict
        now = fold(verdict, now)
    return tuple(events), now


def _by_holder(step: AttemptStep, command: RecordAttempt) -> AttemptStep:
    """A verdict inside a report is the holder's: a requested cancel turns it into CANCELED instead of rejecting it."""
    if isinstance(step, CompleteExecution | FailExecution):
        return replace(step, attempt=command.attempt, instance_id=command.instance_id)
    return step


def _no_verdict(execution: Execution, command: CompleteExecution | FailExecution) -> Rejection | None:
    if execution.status.is_terminal:
        return finished(execution)
    if refused := not_current(execution, command.attempt, command.instance_id):
        return refused
    if execution.cancel is not None and command.instance_id is None:
        name = type(command).__name__
        return reject(RejectionReason.CANCEL_REQUESTED, f"{name} rejected because execution is cancel-requested")
    return None
