"""Translates between `/executions` and the core. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.events import type_name
from pyoco_server.domain.execution.graph import Edge
from pyoco_server.domain.execution.state import Execution, Failure, Node
from pyoco_server.domain.graphs import edges_to_plain
from pyoco_server.domain.queries.steps import WaitingNode
from pyoco_server.errors import CommandRejected, InvalidRequest, NodeNotFound, NotAChoice, RunNotFound
from pyoco_server.http_api.protocol.times import moment
from pyoco_server.services.claims.claim_node import Claimed
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions.command_handler import CommandResult
from pyoco_server.services.projections.event_history import EventEntry, EventPosition

MAX_PLACE_DIGITS = 18
# The index has the statuses of `/runs`.
RUN_STATUSES = {
    "ACTIVE": ("PENDING", "RUNNING", "CANCELLING"),
    "COMPLETED": ("COMPLETED",),
    "FAILED": ("FAILED",),
    "CANCELED": ("CANCELLED",),
}
_STATUSES = {run: status for status, runs in RUN_STATUSES.items() for run in runs}


def raise_rejection(handled: CommandResult, command: str) -> None:
    """Raise the rejection of a command as the error that names the violated guard."""
    refused, run_id = handled.refused, handled.execution.execution_id
    if refused is None:
        return
    if refused.why is RejectionReason.NOT_FOUND:
        raise RunNotFound(f"there is no execution {run_id}", run_id=run_id)
    detail = refused.detail
    if not detail.startswith(f"{command} rejected"):
        detail = f"{command} rejected because {detail}"
    if refused.why is RejectionReason.INVALID_VALUE:
        raise InvalidRequest(detail, run_id=run_id, guard=refused.why.name)
    if refused.why is RejectionReason.NOT_A_CHOICE:
        raise NotAChoice(detail, run_id=run_id, guard=refused.why.name, choices=list(refused.choices))
    error = NodeNotFound if refused.why is RejectionReason.UNKNOWN_NODE else CommandRejected
    raise error(detail, run_id=run_id, guard=refused.why.name, status=handled.execution.status.value)


def accepted_out(handled: CommandResult, command: str, context: CommandContext, **more: Any) -> bytes:
    shown = {
        "executionId": handled.execution.execution_id,
        "command": command,
        "accepted": True,
        "correlationId": context.correlation_id,
        "idempotencyKey": context.idempotency_key,
        "version": handled.version,
    }
    return orjson.dumps(shown | more)


def claimed_out(claimed: Claimed, lease_sec: float, context: CommandContext) -> bytes:
    execution, started = claimed.execution, claimed.started
    return accepted_out(
        claimed.handled,
        "StartNode",
        context,
        graphId=execution.request.flow_name,
        nodeId=started.node_id,
        attempt=started.attempt,
        leaseUntil=moment(started.lease_until),
        leaseSec=lease_sec,
        input=execution.request.input,
        params=claimed.params,
        outputs=claimed.before,
    )


def execution_out(execution: Execution, edges: Sequence[Edge] | None = None) -> bytes:
    """With `edges` also its graph. Flows without edges, or whose edges are not known, have none."""
    request, cancel = execution.request, execution.cancel
    shown: dict[str, Any] = {
        "executionId": execution.execution_id,
        "status": execution.status.value,
        "cancelRequestedAt": moment(execution.cancel_requested_at),
        "nodes": [_node_out(node) for node in execution.nodes.values()],
        "graphId": request.flow_name,
        "graphVersion": request.graph_version,
        "input": request.input,
        "version": execution.version,
        "createdAt": moment(execution.created_at),
        "queuedAt": moment(execution.queued_at),
        "startedAt": moment(execution.started_at),
        "endedAt": moment(execution.ended_at),
        "updatedAt": moment(execution.updated_at),
        "archivedAt": moment(execution.archived_at),
        "attempt": execution.attempt,
        "workerId": execution.holder.worker_id if execution.holder else None,
        "tag": request.tag or None,
        "tags": execution.labels,
        "error": _failure_out(execution.error),
        "nodesTruncated": execution.records_truncated,
    }
    if cancel is not None:
        shown["cancel"] = {
            "requestedBy": cancel.requested_by,
            "reason": cancel.reason,
            "stoppedAt": moment(cancel.stopped_at),
            "how": cancel.how.value if cancel.how else None,
        }
    if edges is not None and execution.graph is not None:
        nodes = codec.graph_to_wire(execution.graph)["nodes"]
        shown["graph"] = {"nodes": nodes, "edges": edges_to_plain(execution.graph)}
    elif edges:
        shown["graph"] = {"nodes": [{"id": node_id} for node_id in execution.nodes], "edges": edges}
    return orjson.dumps(shown)


def listed_out(summary: bytes) -> dict[str, Any]:
    run = orjson.loads(summary)
    return {
        "executionId": run["run_id"],
        "status": _STATUSES.get(run["status"], "ACTIVE"),
        "graphId": run["flow_name"],
        "cancelRequestedAt": moment(run.get("cancel_requested_at")),
        "createdAt": moment(run["submitted_at"]),
        "startedAt": moment(run["start_time"]),
        "endedAt": moment(run["end_time"]),
        "updatedAt": moment(run["updated_at"]),
        "version": run["version"],
        "tags": run["tags"],
        "error": run["error"],
    }


def event_out(item: EventEntry) -> dict[str, Any]:
    commit = item.commit
    payload = codec.payload_of(item.event)
    return {
        "eventId": codec.event_id(commit.commit_id, item.place.number),
        "type": type_name(item.event),
        "occurredAt": moment(item.event.at),
        "version": item.place.sequence,
        "payload": {name: value for name, value in payload.items() if name != "at"},
        "command": commit.command,
        "commitId": commit.commit_id,
        "actor": {"kind": commit.actor.kind, "id": commit.actor.id},
        "correlationId": commit.correlation_id,
        "requestId": commit.request_id,
        "idempotencyKey": commit.idempotency_key,
    }


def place_out(place: EventPosition) -> str:
    """A position as a cursor, and as the id of a server-sent event."""
    return f"{place.sequence}.{place.number}"


def place_in(text: str | None) -> EventPosition | None:
    """The position of a cursor; None for any other text."""
    sequence, _, index = (text or "").partition(".")
    numbers = [
        part for part in (sequence, index) if part.isascii() and part.isdigit() and len(part) <= MAX_PLACE_DIGITS
    ]
    return EventPosition(int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else None


def wait_out(wait: WaitingNode, prompt: Any) -> dict[str, Any]:
    return {
        "executionId": wait.run_id,
        "graphId": wait.graph_id,
        "nodeId": wait.node_id,
        "attempt": wait.attempt,
        "waitKey": wait.wait_key,
        "prompt": prompt,
        "waitingSince": moment(wait.since),
        "deadlineAt": moment(wait.due_at),
        "workerId": wait.worker_id,
    }


def _node_out(node: Node) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "nodeId": node.node_id,
        "status": node.status.value,
        "canceledByExecution": node.canceled_by_execution,
        "attempt": node.attempt,
    }
    optional: Mapping[str, Any] = {
        "workerId": node.worker_id,
        "progress": node.progress,
        "message": node.message,
        "waitKey": node.wait_key,
        "prompt": node.prompt,
        "waitingSince": moment(node.waiting_since),
        "deadlineAt": moment(node.deadline_at),
        "leaseUntil": moment(node.lease_until),
        "startedAt": moment(node.started_at),
        "endedAt": moment(node.ended_at),
        "answer": node.answer,
        "choice": node.choice,
        "reason": node.reason,
        "output": node.output,
        "error": _failure_out(node.error),
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


def _failure_out(error: Failure | None) -> dict[str, Any] | None:
    if error is None:
        return None
    traceback = {"traceback": error.traceback} if error.traceback is not None else {}
    return {"code": error.code, "message": error.message} | traceback


def page_out(items: Sequence[Mapping[str, Any]], next_cursor: str | None, **more: Any) -> bytes:
    return orjson.dumps({**more, "items": items, "nextCursor": next_cursor})
