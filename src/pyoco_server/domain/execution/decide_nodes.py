"""The rules for nodes, and the process manager: the successors of a node become ready in the same commit."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import assert_never

import orjson

from pyoco_server.domain.execution import choices
from pyoco_server.domain.execution.commands import (
    DeclareNodes,
    ExpireNode,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.events import (
    Event,
    Events,
    ExecutionCanceled,
    ExecutionCompleted,
    ExecutionFailed,
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
from pyoco_server.domain.execution.evolve import evolve
from pyoco_server.domain.execution.graph import GraphNode
from pyoco_server.domain.execution.rejection import Rejection, RejectionReason, Verdict, reject
from pyoco_server.domain.execution.state import (
    MAX_NAMES_BYTES,
    MAX_NODE_ATTEMPTS,
    MAX_NODES,
    SKIPPED,
    Execution,
    Failure,
    Node,
    NodeStatus,
    StopHow,
    Work,
)
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId

NodeCommand = (
    DeclareNodes | StartNode | ReportNodeProgress | PutNodeWaiting | ResumeNode | SucceedNode | FailNode | ExpireNode
)

# Codes of failures that the server itself records; stable, as all codes.
WAIT_TIMED_OUT = "WAIT_TIMED_OUT"
LEASE_EXPIRED = "LEASE_EXPIRED"


def decide_node(execution: Execution, command: NodeCommand) -> Verdict:
    """The verdict on a command to one node, given that the execution may make progress."""
    match command:
        case DeclareNodes():
            return _declare_nodes(execution, command)
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
        case ExpireNode():
            return _expire(execution, command)
        case _:
            assert_never(command)


def _declare_nodes(execution: Execution, command: DeclareNodes) -> Verdict:
    fresh = [node_id for node_id in dict.fromkeys(command.node_ids) if node_id not in execution.nodes]
    if not fresh:
        return ()
    for node_id in fresh:
        if refused := _cannot_add(execution, node_id, adding=len(fresh)):
            return refused
    before: defaultdict[NodeId, list[NodeId]] = defaultdict(list)
    for source, target in command.edges:
        before[target].append(source)
    return tuple(NodeCreated(at=command.at, node_id=node_id, before=tuple(before[node_id])) for node_id in fresh)


def _start_node(execution: Execution, command: StartNode) -> Verdict:
    if execution.started_at is None:
        return reject(RejectionReason.NOT_STARTED)
    node = execution.nodes.get(command.node_id)
    if node is None:
        if refused := _cannot_add(execution, command.node_id) or _too_long(execution, command.node_id):
            return refused
        node = Node(node_id=command.node_id)
    if execution.graph is not None and (refused := _graph_forbids_start(node)):
        return refused
    attempt = command.attempt
    if attempt is None:
        attempt = node.attempt if node.status.is_held else node.attempt + 1
    if attempt < 1:
        return reject(RejectionReason.INVALID_VALUE, "attempt counts from 1")
    if attempt < node.attempt:
        return _fenced_node(node, attempt)
    if attempt == node.attempt:
        return _start_again(node, command, attempt)
    if command.from_outside and attempt > node.attempt + 1:
        return reject(RejectionReason.INVALID_ATTEMPT, f"the next attempt of the node is {node.attempt + 1}")
    if node.status.is_held and _lease_protects(node, command):
        return reject(RejectionReason.NODE_HELD)
    if execution.graph is not None and node.attempt >= max_attempts(execution, node):
        return reject(RejectionReason.NO_MORE_ATTEMPTS, f"the node was begun {node.attempt} times, which is its limit")
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
        return reject(RejectionReason.NODE_FINISHED, f"attempt {attempt} of the node has ended {node.status.value}")
    if node.worker_id != command.worker_id:
        return reject(RejectionReason.NODE_HELD)
    return ()


def _report_progress(execution: Execution, command: ReportNodeProgress) -> Verdict:
    if command.progress is not None and not (math.isfinite(command.progress) and 0 <= command.progress <= 100):
        return reject(RejectionReason.INVALID_VALUE, "progress must be from 0 to 100")
    node = _running(execution, command.node_id, command.attempt)
    if isinstance(node, Rejection):
        return node
    return (
        NodeProgressReported(
            at=command.at,
            node_id=command.node_id,
            attempt=node.attempt,
            progress=command.progress,
            message=command.message,
            lease_until=_renewed(node, command.at) if command.lease_until is None else command.lease_until,
        ),
    )


def _put_waiting(execution: Execution, command: PutNodeWaiting) -> Verdict:
    waiting = _node_with_status(execution, command, NodeStatus.WAITING)
    if waiting and waiting.wait_key == command.wait_key:
        return ()
    node = _running(execution, command.node_id, command.attempt)
    if isinstance(node, Rejection):
        return node
    if problem := choices.problem_of_prompt(command.prompt):
        return reject(RejectionReason.INVALID_VALUE, f"choices of the prompt: {problem}")
    if refused := _too_long(execution, command.wait_key, *choices.choices_of(command.prompt)):
        return refused
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
        return reject(RejectionReason.UNKNOWN_NODE)
    if node.status is not NodeStatus.WAITING:
        return reject(RejectionReason.NODE_NOT_WAITING, f"the node is {node.status.value}, not WAITING")
    if command.attempt is not None and command.attempt != node.attempt:
        return _fenced_node(node, command.attempt)
    if node.wait_key != command.resume_key:
        return reject(RejectionReason.WRONG_RESUME_KEY)
    choice = choices.chosen(command.answer) if node.choices else None
    if node.choices and choice not in node.choices:
        detail = f"the answer must be one of the choices: {choices.shown(node.choices)}"
        return Rejection(why=RejectionReason.NOT_A_CHOICE, detail=detail, choices=node.choices)
    resumed = NodeResumed(
        at=command.at,
        node_id=command.node_id,
        attempt=node.attempt,
        lease_until=_renewed(node, command.at),
        answer=command.answer,
        choice=choice,
    )
    defined = execution.graph.node(command.node_id) if execution.graph else None
    if defined is None or not defined.is_wait:
        return (resumed,)
    now = evolve(execution, resumed)
    return (resumed, *_succeeded(now, now.nodes[command.node_id], command.answer, command.at))


def _succeed(execution: Execution, command: SucceedNode) -> Verdict:
    if _node_with_status(execution, command, NodeStatus.SUCCEEDED):
        return ()
    node = _running(execution, command.node_id, command.attempt)
    if isinstance(node, Rejection):
        return node
    return _succeeded(execution, node, command.output, command.at)


def _fail_node(execution: Execution, command: FailNode) -> Verdict:
    if _node_with_status(execution, command, NodeStatus.FAILED):
        return ()
    waiting = _node_with_status(execution, command, NodeStatus.WAITING)
    node = waiting or _running(execution, command.node_id, command.attempt)
    if isinstance(node, Rejection):
        return node
    return _failed_node(execution, node, command.error, command.at)


def _expire(execution: Execution, command: ExpireNode) -> Verdict:
    """The sender may have read an older state, so a node that is no longer overdue is left alone."""
    node = execution.nodes.get(command.node_id)
    if node is None or node.attempt != command.attempt:
        return ()
    if node.status is NodeStatus.WAITING and node.deadline_at is not None and node.deadline_at <= command.at:
        message = f"not resumed within {node.deadline_at - (node.waiting_since or node.deadline_at):g} s"
        return _failed_node(execution, node, Failure(code=WAIT_TIMED_OUT, message=message), command.at)
    silent = node.status is NodeStatus.RUNNING and node.lease_until is not None and node.lease_until <= command.at
    if silent and execution.graph is not None and node.attempt >= max_attempts(execution, node):
        message = f"started {node.attempt} times, and each time the lease expired"
        return _failed_node(execution, node, Failure(code=LEASE_EXPIRED, message=message), command.at)
    return ()


def stop_node(execution: Execution, command: StopNode) -> Verdict:
    """The holder has stopped because of the cancel; the last one to stop ends the execution."""
    if execution.status.is_terminal:
        return ()
    if execution.cancel is None:
        return reject(RejectionReason.NO_CANCEL_REQUESTED)
    node = execution.nodes.get(command.node_id)
    if node is None:
        return reject(RejectionReason.UNKNOWN_NODE)
    if command.attempt is not None and command.attempt != node.attempt:
        return _fenced_node(node, command.attempt)
    if node.status is not NodeStatus.RUNNING:
        return ()
    stopped = NodeCanceled(at=command.at, node_id=command.node_id)
    if evolve(execution, stopped).is_worked_on(command.at):
        return (stopped,)
    return (stopped, ExecutionCanceled(at=command.at, how=StopHow.COOPERATIVE, stopped_at=command.at))


def max_attempts(execution: Execution, node: Node) -> int:
    defined = execution.graph.node(node.node_id) if execution.graph else None
    return MAX_NODE_ATTEMPTS if defined is None or defined.max_attempts is None else defined.max_attempts


# --- follow-up events ------------------------------------------------------------------------------------------------


def ready(node: GraphNode, at: float) -> Events:
    """The node is ready; a wait node begins to wait at once."""
    ready = NodeReady(at=at, node_id=node.node_id)
    if node.wait_key is None:
        return (ready,)
    waiting = NodeWaiting(
        at=at,
        node_id=node.node_id,
        attempt=1,
        wait_key=node.wait_key,
        prompt=node.prompt,
        deadline_at=None if node.timeout_sec is None else at + node.timeout_sec,
    )
    return (ready, waiting)


def _succeeded(execution: Execution, node: Node, output: object, at: float) -> Events:
    """NODE_SUCCEEDED and, in a graph, the events that follow from it, in one commit.

    Nodes that can no longer be reached are canceled as skipped; a graph of succeeded and skipped nodes is complete.
    """
    succeeded = NodeSucceeded(at=at, node_id=node.node_id, attempt=node.attempt, output=output)
    graph, nodes = execution.graph, execution.nodes
    if graph is None:
        return (succeeded,)

    def is_followed(source: NodeId, when: tuple[str, ...]) -> bool | None:
        known = nodes.get(source) or Node(node_id=source)
        if source == node.node_id or known.status is NodeStatus.SUCCEEDED:
            return not when or known.choice in when
        return False if known.is_skipped else None

    ready_nodes, skipped = graph.follow(node.node_id, is_followed)
    left_out = tuple(NodeCanceled(at=at, node_id=name, by_execution=False, reason=SKIPPED) for name in skipped)
    finished = {node.node_id, *skipped}

    def is_finished(node_id: NodeId) -> bool:
        known = nodes.get(node_id) or Node(node_id=node_id)
        return node_id in finished or known.status is NodeStatus.SUCCEEDED or known.is_skipped

    if not ready_nodes and graph.is_complete(is_finished):
        return (succeeded, *left_out, ExecutionCompleted(at=at))
    return (succeeded, *left_out, *(event for successor in ready_nodes for event in ready(successor, at)))


def _failed_node(execution: Execution, node: Node, error: Failure, at: float) -> Events:
    """NODE_FAILED and, in a graph, the end of the execution."""
    node_failed = NodeFailed(at=at, node_id=node.node_id, attempt=node.attempt, error=error)
    if execution.graph is None:
        return (node_failed,)
    why = Failure(code=error.code, message=f"node {node.node_id} failed: {error.message}")
    return (node_failed, *failed(evolve(execution, node_failed), why, at))


def failed(execution: Execution, error: Failure, at: float) -> tuple[*tuple[Event, ...], ExecutionFailed]:
    """EXECUTION_FAILED, and an end for the nodes that were still running or waiting."""
    held = [node for node in execution.nodes.values() if node.status.is_held]
    if execution.graph is not None:
        left: Events = tuple(NodeCanceled(at=at, node_id=node.node_id) for node in held)
    else:
        left = tuple(NodeFailed(at=at, node_id=node.node_id, attempt=node.attempt, error=error) for node in held)
    return (*left, ExecutionFailed(at=at, error=error))


# --- guards -----------------------------------------------------------------------------------------------------------


def _node_with_status(
    execution: Execution, command: PutNodeWaiting | SucceedNode | FailNode, status: NodeStatus
) -> Node | None:
    """The node, if the attempt of the command has this status already."""
    node = execution.nodes.get(command.node_id)
    return node if node and node.status is status and command.attempt in (None, node.attempt) else None


def _running(execution: Execution, node_id: NodeId, attempt: int | None) -> Node | Rejection:
    node = execution.nodes.get(node_id)
    if node is None:
        return reject(RejectionReason.UNKNOWN_NODE)
    if attempt is not None and attempt != node.attempt:
        return _fenced_node(node, attempt)
    if node.status is not NodeStatus.RUNNING:
        return reject(RejectionReason.NODE_NOT_RUNNING, f"the node is {node.status.value}, not RUNNING")
    return node


def _graph_forbids_start(node: Node) -> Rejection | None:
    if node.status is NodeStatus.IDLE:
        return reject(RejectionReason.NODE_NOT_READY)
    if node.status is NodeStatus.WAITING:
        return reject(RejectionReason.NODE_NOT_RUNNING, "the node is WAITING: resume it")
    if node.status.is_terminal:
        skipped = " (skipped)" if node.is_skipped else ""
        return reject(RejectionReason.NODE_FINISHED, f"the node is {node.status.value}{skipped}")
    return None


def _renewed(node: Node, at: float) -> float | None:
    return None if node.lease_sec is None else at + node.lease_sec


def _lease_protects(node: Node, command: StartNode) -> bool:
    """Until its lease expires, a node belongs to its holder."""
    return node.lease_until is not None and command.at < node.lease_until and node.worker_id != command.worker_id


def _cannot_add(execution: Execution, node_id: NodeId, adding: int = 1) -> Rejection | None:
    if execution.graph is not None:
        return reject(RejectionReason.UNKNOWN_NODE)
    if not 1 <= len(node_id) <= MAX_NODE_ID_CHARS:
        return reject(RejectionReason.INVALID_VALUE, f"a node id has 1 to {MAX_NODE_ID_CHARS} characters")
    if len(execution.nodes) + adding > MAX_NODES:
        return reject(RejectionReason.TOO_MANY_NODES)
    return None


def _too_long(execution: Execution, *added: str) -> Rejection | None:
    """Whether these names would exceed the limit of a snapshot. Names from workers and graphs are bounded elsewhere."""
    if execution.request.work is not Work.NODES:
        return None
    graph, nodes = execution.graph, execution.nodes
    known = {node.node_id for node in graph.nodes if node.wait_key is not None} if graph else ()
    asked = (node for node in nodes.values() if node.node_id not in known)
    kept = (name for node in asked for name in (node.wait_key, *node.choices, node.choice) if name is not None)
    names = [*added, *kept, *(nodes if graph is None else ())]
    if len(orjson.dumps(names)) > MAX_NAMES_BYTES:
        return reject(RejectionReason.NAMES_TOO_LONG)
    return None


def _fenced_node(node: Node, attempt: int) -> Rejection:
    return reject(RejectionReason.FENCED, f"attempt {attempt} of the node is not the current one ({node.attempt})")
