"""The rules: what comes of a command on an execution as it is now — events, nothing (it is so already), or a refusal.

One small function per command. Who reads them in order reads the life of an execution:

    CreateExecution ─▶ StartExecution ─▶ node commands … ─▶ CompleteExecution | FailExecution ─▶ ArchiveExecution
                              └── CancelExecution ─▶ ConfirmCanceled      (from the moment of creation until the end)

Cancel wins: once it is requested, commands that would make progress are refused, and a worker's verdict — success or
failure — becomes EXECUTION_CANCELED. With a graph, `decide` is the process manager too: what a finished node sets off
is part of the same commit, so no step can be lost or doubled between two processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from pyoco_server.execution.commands import (
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
    FailNode,
    MarkNodeReady,
    PutNodeWaiting,
    RecordAttempt,
    RemoveTag,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.execution.events import (
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
    NodeReady,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
)
from pyoco_server.execution.evolve import evolve, fold
from pyoco_server.execution.graph import GraphNode, problems
from pyoco_server.execution.ids import MAX_NODE_ID_CHARS, InstanceId, NodeId
from pyoco_server.execution.state import MAX_LABELS, MAX_NODES, Execution, Failure, Node, NodeStatus, Status, StopHow


class Why(Enum):
    """The guard that a refused command ran into."""

    NOT_FOUND = "there is no such execution"
    FINISHED = "the execution is finished"
    NOT_FINISHED = "the execution is not finished"
    NOT_STARTED = "the execution is not started"
    CANCEL_REQUESTED = "a cancel was requested"
    NO_CANCEL_REQUESTED = "no cancel was requested"
    HELD = "somebody may still be working on it"
    FENCED = "another attempt has taken over"
    GRAPH_DECIDES = "the graph decides when it is complete"
    INVALID_GRAPH = "the graph cannot be run"
    UNKNOWN_NODE = "there is no such node in the graph"
    NODE_NOT_READY = "it is not the node's turn yet"
    NODE_NOT_RUNNING = "the node is not running"
    NODE_NOT_WAITING = "the node is not waiting"
    NODE_FINISHED = "the node is finished"
    NODE_HELD = "another worker holds the node"
    WRONG_RESUME_KEY = "the resume key does not fit"
    INVALID_VALUE = "a value is out of range"
    TOO_MANY_NODES = f"an execution has at most {MAX_NODES} nodes"
    TOO_MANY_TAGS = f"an execution has at most {MAX_LABELS} tags"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The command does not fit the state; `detail` says what is so."""

    why: Why
    detail: str


Verdict = Events | Refused


def decide(execution: Execution, command: Command) -> Verdict:
    """What comes of `command`: events, `()` when it is so already, or the guard it ran into."""
    match command:
        case CreateExecution():
            return _create(execution, command)
        case _ if not execution.exists:
            return Refused(why=Why.NOT_FOUND, detail=Why.NOT_FOUND.value)
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
        case AddTag():
            return _add_tag(execution, command)
        case RemoveTag():
            return (ExecutionTagRemoved(at=command.at, tag=command.tag),) if command.tag in execution.labels else ()
        case RecordAttempt():
            return _record_attempt(execution, command)
        case _:
            refused = _no_progress(execution, command)
            return refused or _decide_node(execution, command)


_NodeCommand = (
    DeclareNodes | MarkNodeReady | StartNode | ReportNodeProgress | PutNodeWaiting | ResumeNode | SucceedNode | FailNode
)


def _decide_node(execution: Execution, command: _NodeCommand) -> Verdict:
    match command:
        case DeclareNodes():
            return _declare_nodes(execution, command)
        case MarkNodeReady():
            return _mark_ready(execution, command)
        case StartNode():
            return _start_node(execution, command)
        case ReportNodeProgress():
            return _report_progress(execution, command)
        case PutNodeWaiting():
            return _put_waiting(execution, command)
        case ResumeNode():
            return _resume(execution, command)
        case SucceedNode():
            return _succeed(execution, command)
        case FailNode():
            return _fail_node(execution, command)
        case _:
            assert_never(command)


# --- the execution as a whole -----------------------------------------------------------------------------------------


def _create(execution: Execution, command: CreateExecution) -> Verdict:
    if execution.exists:
        return ()
    if len(set(command.labels)) > MAX_LABELS:
        return Refused(why=Why.TOO_MANY_TAGS, detail=Why.TOO_MANY_TAGS.value)
    labels = tuple(dict.fromkeys(command.labels))
    created = ExecutionCreated(at=command.at, request=command.request, labels=labels, graph=command.graph)
    if command.graph is None:
        return (created,)
    if len(command.graph.nodes) > MAX_NODES:
        return Refused(why=Why.TOO_MANY_NODES, detail=Why.TOO_MANY_NODES.value)
    if found := problems(command.graph):
        return Refused(why=Why.INVALID_GRAPH, detail="; ".join(found[:10]))
    return (created, *(NodeCreated(at=command.at, node_id=node.node_id) for node in command.graph.nodes))


def _start(execution: Execution, command: StartExecution) -> Verdict:
    if refused := _no_progress(execution, command):
        return refused
    attempt = command.attempt
    if attempt is None:
        if execution.holder is not None:
            return ()
        attempt = 1
    if attempt < 1:
        return Refused(why=Why.INVALID_VALUE, detail="attempt counts from 1")
    if execution.holder is not None and attempt == execution.attempt:
        same = execution.holder.instance_id == command.instance_id
        return () if same else _fenced(execution, attempt)
    if attempt < execution.attempt:
        return _fenced(execution, attempt)
    started = ExecutionStarted(
        at=command.at, attempt=attempt, worker_id=command.worker_id, instance_id=command.instance_id
    )
    if execution.graph is None or execution.holder is not None:
        return (started,)
    return (started, *(event for root in execution.graph.roots() for event in _ready(root, command.at)))


def _cancel(execution: Execution, command: CancelExecution) -> Verdict:
    if execution.status is Status.CANCELED or (execution.cancel is not None and not execution.status.is_terminal):
        return ()
    if execution.status.is_terminal:
        return _finished(execution)
    return (ExecutionCancelRequested(at=command.at, reason=command.reason, requested_by=command.requested_by),)


def _confirm_canceled(execution: Execution, command: ConfirmCanceled) -> Verdict:
    if execution.status is Status.CANCELED:
        return ()
    if execution.status.is_terminal:
        return _finished(execution)
    if command.how in (StopHow.BEFORE_START, StopHow.SUBMIT_FAILED) and execution.is_held:
        return Refused(why=Why.HELD, detail=Why.HELD.value)
    if execution.cancel is None and command.how is not StopHow.SUBMIT_FAILED:
        return Refused(why=Why.NO_CANCEL_REQUESTED, detail=Why.NO_CANCEL_REQUESTED.value)
    if refused := _not_current(execution, command.attempt, None):
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
        return Refused(why=Why.NOT_STARTED, detail=Why.NOT_STARTED.value)
    if execution.graph is not None:
        return Refused(why=Why.GRAPH_DECIDES, detail=Why.GRAPH_DECIDES.value)
    # Left over from an attempt that was lost, or simply never ended: they must not say RUNNING for ever.
    left = (NodeCanceled(at=command.at, node_id=n.node_id) for n in execution.nodes.values() if n.status.is_held)
    return (*left, ExecutionCompleted(at=command.at))


def _fail(execution: Execution, command: FailExecution) -> Verdict:
    if execution.status is Status.FAILED:
        return ()
    if refused := _no_verdict(execution, command):
        return refused
    if execution.cancel is not None:
        return (ExecutionCanceled(at=command.at, how=StopHow.COOPERATIVE, stopped_at=command.at),)
    return _failed(execution, command.error, command.at)


def _archive(execution: Execution, command: ArchiveExecution) -> Verdict:
    if not execution.status.is_terminal:
        return Refused(why=Why.NOT_FINISHED, detail="only a finished execution can be archived; cancel it first")
    return () if execution.archived_at is not None else (ExecutionArchived(at=command.at),)


def _add_tag(execution: Execution, command: AddTag) -> Verdict:
    if command.tag in execution.labels:
        return ()
    if len(execution.labels) >= MAX_LABELS:
        return Refused(why=Why.TOO_MANY_TAGS, detail=Why.TOO_MANY_TAGS.value)
    return (ExecutionTagAdded(at=command.at, tag=command.tag),)


def _record_attempt(execution: Execution, command: RecordAttempt) -> Verdict:
    if execution.status.is_terminal:
        return _finished(execution)
    if refused := _not_current(execution, command.attempt, command.instance_id):
        return refused
    events: list[Event] = []
    now = execution
    for step in command.steps:
        verdict = decide(now, _by_holder(step, command))
        if isinstance(verdict, Refused):
            continue  # too late: something stronger ended the node, or a cancel stops all progress
        events += verdict
        now = fold(verdict, now)
    return tuple(events)


def _by_holder(step: AttemptStep, command: RecordAttempt) -> AttemptStep:
    """A verdict inside a report is the holder's: a requested cancel must turn it into CANCELED, not refuse it."""
    if isinstance(step, CompleteExecution | FailExecution):
        return replace(step, attempt=command.attempt, instance_id=command.instance_id)
    return step


# --- nodes ------------------------------------------------------------------------------------------------------------


def _declare_nodes(execution: Execution, command: DeclareNodes) -> Verdict:
    fresh = [node_id for node_id in dict.fromkeys(command.node_ids) if node_id not in execution.nodes]
    if not fresh:
        return ()
    for node_id in fresh:
        if refused := _cannot_add(execution, node_id, adding=len(fresh)):
            return refused
    return tuple(NodeCreated(at=command.at, node_id=node_id) for node_id in fresh)


def _mark_ready(execution: Execution, command: MarkNodeReady) -> Verdict:
    node = execution.nodes.get(command.node_id)
    ready = NodeReady(at=command.at, node_id=command.node_id)
    if node is None:
        refused = _cannot_add(execution, command.node_id)
        return refused or (NodeCreated(at=command.at, node_id=command.node_id), ready)
    if node.status is not NodeStatus.IDLE:
        return ()
    if execution.graph is not None:
        return Refused(why=Why.NODE_NOT_READY, detail=Why.NODE_NOT_READY.value)
    return (ready,)


def _start_node(execution: Execution, command: StartNode) -> Verdict:
    if execution.started_at is None:
        return Refused(why=Why.NOT_STARTED, detail=Why.NOT_STARTED.value)
    node = execution.nodes.get(command.node_id)
    if node is None:
        if refused := _cannot_add(execution, command.node_id):
            return refused
        node = Node(node_id=command.node_id)
    if execution.graph is not None and (refused := _graph_forbids_start(node)):
        return refused
    attempt = command.attempt
    if attempt is None:
        attempt = node.attempt if node.status.is_held else node.attempt + 1
    if attempt < 1:
        return Refused(why=Why.INVALID_VALUE, detail="attempt counts from 1")
    if attempt < node.attempt:
        return _fenced_node(node, attempt)
    if attempt == node.attempt:
        return _start_again(node, command, attempt)
    if node.status.is_held and _lease_protects(node, command):
        return Refused(why=Why.NODE_HELD, detail=Why.NODE_HELD.value)
    started = NodeStarted(
        at=command.at,
        node_id=command.node_id,
        attempt=attempt,
        worker_id=command.worker_id,
        lease_until=command.lease_until,
    )
    known = command.node_id in execution.nodes
    return (started,) if known else (NodeCreated(at=command.at, node_id=command.node_id), started)


def _start_again(node: Node, command: StartNode, attempt: int) -> Verdict:
    if not node.status.is_held:
        return Refused(why=Why.NODE_FINISHED, detail=f"attempt {attempt} of the node has ended {node.status.value}")
    if node.worker_id != command.worker_id:
        return Refused(why=Why.NODE_HELD, detail=Why.NODE_HELD.value)
    return ()


def _report_progress(execution: Execution, command: ReportNodeProgress) -> Verdict:
    if command.progress is not None and not (math.isfinite(command.progress) and 0 <= command.progress <= 100):
        return Refused(why=Why.INVALID_VALUE, detail="progress must be from 0 to 100")
    node = _running(execution, command.node_id, command.attempt)
    if isinstance(node, Refused):
        return node
    return (
        NodeProgressReported(
            at=command.at,
            node_id=command.node_id,
            attempt=node.attempt,
            progress=command.progress,
            message=command.message,
            lease_until=command.lease_until,
        ),
    )


def _put_waiting(execution: Execution, command: PutNodeWaiting) -> Verdict:
    known = execution.nodes.get(command.node_id)
    waiting = known is not None and known.status is NodeStatus.WAITING and command.attempt in (None, known.attempt)
    if waiting and known is not None and known.wait_key == command.wait_key:
        return ()
    node = _running(execution, command.node_id, command.attempt)
    if isinstance(node, Refused):
        return node
    return (
        NodeWaiting(
            at=command.at,
            node_id=command.node_id,
            attempt=node.attempt,
            wait_key=command.wait_key,
            prompt=command.prompt,
            deadline_at=command.deadline_at,
        ),
    )


def _resume(execution: Execution, command: ResumeNode) -> Verdict:
    node = execution.nodes.get(command.node_id)
    if node is None:
        return Refused(why=Why.UNKNOWN_NODE, detail=Why.UNKNOWN_NODE.value)
    if node.status is not NodeStatus.WAITING:
        return Refused(why=Why.NODE_NOT_WAITING, detail=f"the node is {node.status.value}, not WAITING")
    if command.attempt is not None and command.attempt != node.attempt:
        return _fenced_node(node, command.attempt)
    if node.wait_key != command.resume_key:
        return Refused(why=Why.WRONG_RESUME_KEY, detail=Why.WRONG_RESUME_KEY.value)
    resumed = NodeResumed(at=command.at, node_id=command.node_id, attempt=node.attempt)
    drawn = execution.graph.node(command.node_id) if execution.graph else None
    if drawn is None or not drawn.is_wait:
        return (resumed,)
    return (resumed, *_succeeded(evolve(execution, resumed), node, None, command.at))


def _succeed(execution: Execution, command: SucceedNode) -> Verdict:
    known = execution.nodes.get(command.node_id)
    if known is not None and known.status is NodeStatus.SUCCEEDED and command.attempt in (None, known.attempt):
        return ()
    node = _running(execution, command.node_id, command.attempt)
    if isinstance(node, Refused):
        return node
    return _succeeded(execution, node, command.output, command.at)


def _fail_node(execution: Execution, command: FailNode) -> Verdict:
    known = execution.nodes.get(command.node_id)
    if known is not None and known.status is NodeStatus.FAILED and command.attempt in (None, known.attempt):
        return ()
    waiting = known is not None and known.status is NodeStatus.WAITING
    node = known if waiting and known is not None else _running(execution, command.node_id, command.attempt)
    if isinstance(node, Refused):
        return node
    if command.attempt is not None and command.attempt != node.attempt:
        return _fenced_node(node, command.attempt)
    failed = NodeFailed(at=command.at, node_id=command.node_id, attempt=node.attempt, error=command.error)
    if execution.graph is None:
        return (failed,)
    error = Failure(code=command.error.code, message=f"node {command.node_id} failed: {command.error.message}")
    return (failed, *_failed(evolve(execution, failed), error, command.at))


# --- what a step sets off ---------------------------------------------------------------------------------------------


def _ready(node: GraphNode, at: float) -> Events:
    ready = NodeReady(at=at, node_id=node.node_id)
    if node.wait_key is None:
        return (ready,)
    return (ready, NodeWaiting(at=at, node_id=node.node_id, attempt=1, wait_key=node.wait_key, prompt=node.prompt))


def _succeeded(execution: Execution, node: Node, output: object, at: float) -> Events:
    """NODE_SUCCEEDED and, in a graph, everything that follows from it: one commit, so nothing falls in between."""
    succeeded = NodeSucceeded(at=at, node_id=node.node_id, attempt=node.attempt, output=output)
    if execution.graph is None:
        return (succeeded,)
    done = [n.node_id for n in execution.nodes.values() if n.status is NodeStatus.SUCCEEDED]
    if len({*done, node.node_id}) == len(execution.nodes):
        return (succeeded, ExecutionCompleted(at=at))
    follow = execution.graph.ready_after(node.node_id, done)
    return (succeeded, *(event for successor in follow for event in _ready(successor, at)))


def _failed(execution: Execution, error: Failure, at: float) -> Events:
    """EXECUTION_FAILED, with an end for whatever was still going on."""
    held = [node for node in execution.nodes.values() if node.status.is_held]
    if execution.graph is not None:
        left: Events = tuple(NodeCanceled(at=at, node_id=node.node_id) for node in held)
    else:
        left = tuple(NodeFailed(at=at, node_id=node.node_id, attempt=node.attempt, error=error) for node in held)
    return (*left, ExecutionFailed(at=at, error=error))


# --- guards -----------------------------------------------------------------------------------------------------------


def _no_progress(execution: Execution, command: StartExecution | _NodeCommand) -> Refused | None:
    if execution.status.is_terminal:
        return _finished(execution)
    if execution.cancel is not None:
        name = type(command).__name__
        return Refused(why=Why.CANCEL_REQUESTED, detail=f"{name} rejected because execution is cancel-requested")
    return None


def _no_verdict(execution: Execution, command: CompleteExecution | FailExecution) -> Refused | None:
    if execution.status.is_terminal:
        return _finished(execution)
    if refused := _not_current(execution, command.attempt, command.instance_id):
        return refused
    if execution.cancel is not None and command.instance_id is None:
        name = type(command).__name__
        return Refused(why=Why.CANCEL_REQUESTED, detail=f"{name} rejected because execution is cancel-requested")
    return None


def _not_current(execution: Execution, attempt: int | None, instance_id: InstanceId | None) -> Refused | None:
    """The fence: whoever was overtaken must not write."""
    if attempt is not None and attempt != execution.attempt:
        return _fenced(execution, attempt)
    if instance_id is not None and (execution.holder is None or execution.holder.instance_id != instance_id):
        return _fenced(execution, execution.attempt if attempt is None else attempt)
    return None


def _running(execution: Execution, node_id: NodeId, attempt: int | None) -> Node | Refused:
    node = execution.nodes.get(node_id)
    if node is None:
        return Refused(why=Why.UNKNOWN_NODE, detail=Why.UNKNOWN_NODE.value)
    if attempt is not None and attempt != node.attempt:
        return _fenced_node(node, attempt)
    if node.status is not NodeStatus.RUNNING:
        return Refused(why=Why.NODE_NOT_RUNNING, detail=f"the node is {node.status.value}, not RUNNING")
    return node


def _graph_forbids_start(node: Node) -> Refused | None:
    if node.status is NodeStatus.IDLE:
        return Refused(why=Why.NODE_NOT_READY, detail=Why.NODE_NOT_READY.value)
    if node.status is NodeStatus.WAITING:
        return Refused(why=Why.NODE_NOT_RUNNING, detail="the node is WAITING: resume it")
    if node.status.is_terminal:
        return Refused(why=Why.NODE_FINISHED, detail=f"the node is {node.status.value}")
    return None


def _lease_protects(node: Node, command: StartNode) -> bool:
    """A held node with a lease is its holder's until the lease ends."""
    return node.lease_until is not None and command.at < node.lease_until and node.worker_id != command.worker_id


def _cannot_add(execution: Execution, node_id: NodeId, adding: int = 1) -> Refused | None:
    if execution.graph is not None:
        return Refused(why=Why.UNKNOWN_NODE, detail=Why.UNKNOWN_NODE.value)
    if not 1 <= len(node_id) <= MAX_NODE_ID_CHARS:
        return Refused(why=Why.INVALID_VALUE, detail=f"a node id has 1 to {MAX_NODE_ID_CHARS} characters")
    if len(execution.nodes) + adding > MAX_NODES:
        return Refused(why=Why.TOO_MANY_NODES, detail=Why.TOO_MANY_NODES.value)
    return None


def _finished(execution: Execution) -> Refused:
    return Refused(why=Why.FINISHED, detail=f"the execution is {execution.status.value}")


def _fenced(execution: Execution, attempt: int) -> Refused:
    if attempt == execution.attempt:
        return Refused(why=Why.FENCED, detail=f"attempt {attempt} belongs to another worker instance")
    return Refused(why=Why.FENCED, detail=f"attempt {attempt} is not the current one ({execution.attempt})")


def _fenced_node(node: Node, attempt: int) -> Refused:
    return Refused(why=Why.FENCED, detail=f"attempt {attempt} of the node is not the current one ({node.attempt})")
