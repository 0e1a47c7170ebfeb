"""The effect of events on an execution. Total: the log is the truth, so nothing here raises.

`decide` and compare-and-set keep logs consistent. In an inconsistent log the higher rank wins regardless of order, and
events after a cancel request or after the end change nothing but the end itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import assert_never, cast, get_args

from msgspec.structs import replace

from pyoco_server.domain.execution.choices import choices_of
from pyoco_server.domain.execution.events import (
    Event,
    ExecutionArchived,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    ExecutionQueued,
    ExecutionStarted,
    ExecutionTagAdded,
    ExecutionTagRemoved,
    NodeCanceled,
    NodeCreated,
    NodeEvent,
    NodeFailed,
    NodeProgressReported,
    NodeReady,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
    StoredCommit,
)
from pyoco_server.domain.execution.result import result_nodes
from pyoco_server.domain.execution.state import CancelReceipt, Execution, Holder, Node, NodeStatus, Status, stronger

_NODE_EVENTS = frozenset(get_args(NodeEvent))


def evolve(execution: Execution, event: Event) -> Execution:
    """The execution after one more event; the same object if the event changes nothing."""
    match event:
        case ExecutionCreated():
            return _created(execution, event)
        case ExecutionQueued():
            return _queued(execution, event)
        case ExecutionStarted():
            return _started(execution, event)
        case ExecutionCancelRequested():
            return _cancel_requested(execution, event)
        case ExecutionCanceled():
            return _canceled(execution, event)
        case ExecutionCompleted(result_nodes=named):
            return _ended(execution, event, Status.COMPLETED, result_nodes=result_nodes(execution, named))
        case ExecutionFailed():
            return _failed(execution, event)
        case ExecutionArchived():
            return execution if execution.archived_at is not None else _after(event, execution, archived_at=event.at)
        case ExecutionTagAdded(tag=tag):
            return execution if tag in execution.labels else _after(event, execution, labels=(*execution.labels, tag))
        case ExecutionTagRemoved(tag=tag):
            kept = tuple(label for label in execution.labels if label != tag)
            return execution if kept == execution.labels else _after(event, execution, labels=kept)
        case _:
            return _node_events(execution, (event,))


def fold(events: Iterable[Event], execution: Execution) -> Execution:
    """The execution after all these events; the caller sets its version."""
    for is_node_event, group in groupby(events, key=_is_node_event):
        if is_node_event:
            execution = _node_events(execution, cast(Iterable[NodeEvent], group))
        else:
            for event in group:
                execution = evolve(execution, event)
    return execution


def fold_commits(commits: Iterable[StoredCommit], execution: Execution) -> Execution:
    """The execution after these stored commits, at the version of the last one."""
    for stored in commits:
        execution = replace(fold(stored.commit.events, execution), version=stored.sequence)
    return execution


def _created(execution: Execution, event: ExecutionCreated) -> Execution:
    if execution.created_at is not None:
        return execution
    labels = event.labels + tuple(label for label in execution.labels if label not in event.labels)
    return _after(event, execution, request=event.request, labels=labels, graph=event.graph, created_at=event.at)


def _queued(execution: Execution, event: ExecutionQueued) -> Execution:
    if execution.queued_at is not None or execution.status.is_terminal or execution.cancel is not None:
        return execution
    return _after(event, execution, queued_at=event.at)


def _started(execution: Execution, event: ExecutionStarted) -> Execution:
    if event.attempt <= execution.attempt or execution.status.is_terminal or execution.cancel is not None:
        return execution
    holder = Holder(
        attempt=event.attempt,
        worker_id=event.worker_id,
        instance_id=event.instance_id,
        return_to=event.return_to,
        wheels=event.wheels,
        code_version=event.code_version,
    )
    started_at = event.at if execution.started_at is None else min(execution.started_at, event.at)
    return _after(event, execution, holder=holder, started_at=started_at)


def _cancel_requested(execution: Execution, event: ExecutionCancelRequested) -> Execution:
    if execution.cancel is not None or execution.status.is_terminal:
        return execution
    receipt = CancelReceipt(requested_at=event.at, requested_by=event.requested_by, reason=event.reason)
    return _after(event, execution, cancel=receipt)


def _canceled(execution: Execution, event: ExecutionCanceled) -> Execution:
    if execution.status is Status.CANCELED:
        return execution
    receipt = replace(
        execution.cancel or CancelReceipt(requested_at=event.at),
        how=event.how,
        delivered_at=event.delivered_at,
        stopped_at=event.stopped_at if event.stopped_at is not None else event.at,
    )
    nodes = {
        node_id: node
        if node.status.is_terminal
        else _end(node, NodeStatus.CANCELED, event.at, canceled_by_execution=True)
        for node_id, node in execution.nodes.items()
    }
    return _after(
        event,
        execution,
        status=Status.CANCELED,
        cancel=receipt,
        nodes=nodes,
        ended_at=execution.ended_at if execution.ended_at is not None else event.at,
    )


def _failed(execution: Execution, event: ExecutionFailed) -> Execution:
    details = {"error": event.error, "timeout": event.timeout, "last_lines": event.last_lines}
    return _ended(execution, event, Status.FAILED, **details if execution.error is None else {})


def _ended(execution: Execution, event: Event, status: Status, **also: object) -> Execution:
    # Cancel wins: once a cancel is in the log, the verdict comes too late. Comparing times would make the result
    # depend on clocks of different machines.
    if execution.cancel is not None or stronger(execution.status, status) is execution.status:
        return execution
    ended_at = execution.ended_at if execution.ended_at is not None else event.at
    return _after(event, execution, status=status, ended_at=ended_at, **also)


def _is_node_event(event: Event) -> bool:
    return type(event) in _NODE_EVENTS


def _node_events(execution: Execution, events: Iterable[NodeEvent]) -> Execution:
    """Apply consecutive node events together: copying a thousand nodes per event would be expensive."""
    if execution.status.is_terminal:
        return execution
    nodes, updated_at, is_changed = dict(execution.nodes), execution.updated_at, False
    for event in events:
        if execution.cancel is not None and not isinstance(event, NodeCanceled):
            continue
        before = nodes.get(event.node_id)
        after = _evolve_node(before or Node(node_id=event.node_id), event)
        if after is not before:
            nodes[event.node_id] = after
            updated_at, is_changed = max(updated_at, event.at), True
    return replace(execution, nodes=nodes, updated_at=updated_at) if is_changed else execution


def _evolve_node(node: Node, event: NodeEvent) -> Node:
    match event:
        case NodeCreated():
            return node
        case NodeReady():
            return _raised(node, NodeStatus.READY)
        case NodeCanceled(by_execution=by_execution, reason=reason):
            if node.status.is_terminal:
                return node
            return _end(node, NodeStatus.CANCELED, event.at, canceled_by_execution=by_execution, reason=reason)
        case NodeStarted():
            return _node_started(node, event)
        case _:
            if event.attempt < node.attempt:
                return node
            # The start of this attempt is not in the log: trust the later event and reset the node.
            current = node if event.attempt == node.attempt else Node(node_id=node.node_id, attempt=event.attempt)
            return _evolve_attempt(current, event)


def _node_started(node: Node, event: NodeStarted) -> Node:
    if event.attempt > node.attempt:
        return Node(
            node_id=node.node_id,
            status=NodeStatus.RUNNING,
            attempt=event.attempt,
            worker_id=event.worker_id,
            started_at=event.at,
            lease_until=event.lease_until,
            lease_sec=None if event.lease_until is None else event.lease_until - event.at,
        )
    if event.attempt == node.attempt and node.started_at is None:
        return replace(_raised(node, NodeStatus.RUNNING), started_at=event.at, worker_id=event.worker_id)
    return node


def _evolve_attempt(
    node: Node, event: NodeProgressReported | NodeWaiting | NodeResumed | NodeSucceeded | NodeFailed
) -> Node:
    match event:
        case NodeProgressReported():
            if node.status.is_terminal:
                return node
            return replace(
                _raised(node, NodeStatus.RUNNING),
                progress=event.progress if event.progress is not None else node.progress,
                message=event.message if event.message is not None else node.message,
                lease_until=event.lease_until if event.lease_until is not None else node.lease_until,
            )
        case NodeWaiting():
            if node.status.rank >= NodeStatus.WAITING.rank:
                return node
            return replace(
                node,
                status=NodeStatus.WAITING,
                wait_key=event.wait_key,
                prompt=event.prompt,
                choices=choices_of(event.prompt),
                deadline_at=event.deadline_at,
                waiting_since=event.at,
                lease_until=None,
            )
        case NodeResumed():
            if node.status is not NodeStatus.WAITING:
                return _raised(node, NodeStatus.RUNNING)
            return replace(
                node,
                status=NodeStatus.RUNNING,
                wait_key=None,
                prompt=None,
                choices=(),
                deadline_at=None,
                waiting_since=None,
                lease_until=event.lease_until,
                answer=event.answer,
                choice=event.choice if event.choice is not None else node.choice,
            )
        case NodeSucceeded(output=output):
            if node.status.rank >= NodeStatus.SUCCEEDED.rank:
                return node
            return _end(node, NodeStatus.SUCCEEDED, event.at, output=output)
        case NodeFailed(error=error):
            if node.status.rank >= NodeStatus.FAILED.rank:
                return node
            return _end(node, NodeStatus.FAILED, event.at, error=error)
        case _:
            assert_never(event)


def _raised(node: Node, status: NodeStatus) -> Node:
    return node if node.status.rank >= status.rank else replace(node, status=status)


def _end(node: Node, status: NodeStatus, at: float, **also: object) -> Node:
    return replace(node, status=status, ended_at=at, lease_until=None, lease_sec=None, **also)


def _after(event: Event, execution: Execution, **changes: object) -> Execution:
    return replace(execution, updated_at=max(execution.updated_at, event.at), **changes)
