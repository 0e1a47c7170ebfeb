"""Execution ⇄ snapshot: the public view of a run (contract, appendix F) plus `state`, which `decide` needs.

Only the public view is truncated: `task_records` first (`task_records_truncated: true`), `tasks` never. `state` is
always complete, because decisions depend on it; the limits on nodes, edges and labels bound it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import orjson
from msgspec.structs import asdict

from pyoco_server.domain.execution.choices import choices_of
from pyoco_server.domain.execution.codec import graph_from_wire, graph_to_wire
from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.state import (
    CancelReceipt,
    Execution,
    Failure,
    Holder,
    Node,
    NodeStatus,
    Request,
    Status,
    StopHow,
    TimeoutReceipt,
    WheelUsed,
    Work,
)
from pyoco_server.domain.ids import NodeId, RunId

Snapshot = dict[str, Any]

_NODE_STATUSES = tuple(NodeStatus)
_NODE_CODES = {status: code for code, status in enumerate(_NODE_STATUSES)}
_TASK_STATUS = {
    NodeStatus.IDLE: "PENDING",
    NodeStatus.READY: "PENDING",
    NodeStatus.RUNNING: "RUNNING",
    NodeStatus.WAITING: "RUNNING",
    NodeStatus.SUCCEEDED: "SUCCEEDED",
    NodeStatus.FAILED: "FAILED",
    NodeStatus.CANCELED: "CANCELLED",
}
# Dropped first from records when the snapshot is too large; times and states are kept longest.
_BULKY = ("output", "traceback", "prompt", "answer")

# Fields that most nodes do not have, read at once: a snapshot of a wide graph has a thousand nodes.
_SHOWN = ("output", "progress", "message", "prompt", "answer", "choice", "reason")
_read_shown = attrgetter(*_SHOWN)
_NONE_SHOWN = (None,) * len(_SHOWN)
_RARE = {
    "w": "worker_id",
    "l": "lease_until",
    "L": "lease_sec",
    "k": "wait_key",
    "d": "deadline_at",
    "s": "waiting_since",
    "h": "choice",
    "r": "reason",
    "c": "canceled_by_execution",
}
_read_rare = attrgetter(*_RARE.values())
_NO_RARE = (*(None,) * (len(_RARE) - 1), False)

# Fields of the request with the same name in a snapshot, left out while they are None.
_REQUEST = (
    "tenant_id",
    "api_key_id",
    "timeout_sec",
    "workflow_yaml_sha256",
    "workflow_yaml_bytes",
    "replay_of",
    "graph_version",
    "rerun_of",
)

# Marks the stored bytes of a snapshot whose records were dropped.
TRUNCATED = b'"task_records_truncated":true'

TERMINAL_RUN_STATUSES = ("COMPLETED", "FAILED", "CANCELLED")
RUN_STATUSES = ("PENDING", "RUNNING", "CANCELLING", *TERMINAL_RUN_STATUSES)


def run_status(execution: Execution) -> str:
    """The status in the vocabulary of `/runs`."""
    if execution.status is Status.CANCELED:
        return "CANCELLED"
    if execution.status is not Status.ACTIVE:
        return str(execution.status.value)
    if execution.cancel is not None:
        return "CANCELLING"
    return "PENDING" if execution.started_at is None else "RUNNING"


def to_snapshot(execution: Execution, *, heartbeat_at: float | None = None) -> Snapshot:
    """The complete snapshot. Without `heartbeat_at` the last commit counts as the heartbeat."""
    request, holder = execution.request, execution.holder
    snapshot: Snapshot = {
        "run_id": execution.execution_id,
        "flow_name": request.flow_name,
        "status": run_status(execution),
        "params": request.input,
        "tag": request.tag,
        "tags": execution.labels,
        "tasks": {node_id: _TASK_STATUS[node.status] for node_id, node in execution.nodes.items()},
        "task_records": {node_id: _record(node) for node_id, node in execution.nodes.items()},
        "task_records_truncated": execution.records_truncated,
        "submitted_at": execution.created_at,
        "start_time": execution.started_at,
        "end_time": execution.ended_at,
        "updated_at": execution.updated_at,
        "heartbeat_at": execution.updated_at if heartbeat_at is None else max(heartbeat_at, execution.updated_at),
        "worker_id": holder.worker_id if holder else None,
        "attempt": holder.attempt if holder else 0,
        "error": execution.error.message if execution.error else None,
        "version": execution.version,
    }
    _put_optional(snapshot, execution)
    snapshot["state"] = _state(execution)
    return snapshot


def encode_snapshot(execution: Execution, max_public_bytes: int, *, heartbeat_at: float | None = None) -> bytes:
    """The stored bytes; records are dropped to keep the public part within `max_public_bytes`."""
    snapshot = to_snapshot(execution, heartbeat_at=heartbeat_at)
    if execution.graph is not None:
        snapshot["state"]["graph"] = execution.graph.once(_written)
    whole = orjson.dumps(snapshot)
    if len(whole) <= max_public_bytes:
        return whole
    state = snapshot.pop("state")
    return orjson.dumps(compact_run_snapshot(snapshot, max_public_bytes, execution.result_nodes) | {"state": state})


def _written(graph: Graph) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(graph_to_wire(graph)))


def bounded_snapshot(execution: Execution, max_public_bytes: int, *, heartbeat_at: float | None = None) -> Snapshot:
    """The snapshot as it would be stored, to show it before it is written."""
    snapshot: Snapshot = orjson.loads(encode_snapshot(execution, max_public_bytes, heartbeat_at=heartbeat_at))
    return snapshot


def compact_run_snapshot(snapshot: Snapshot, max_bytes: int, results: Collection[str] = ()) -> Snapshot:
    """The public snapshot within `max_bytes`: drops outputs first, those in `results` after the others, then whole
    records, never `tasks`."""
    records = snapshot.get("task_records", {})
    if not records or len(orjson.dumps(snapshot)) <= max_bytes:
        return snapshot
    slim = {
        name: {key: value for key, value in record.items() if key not in _BULKY} for name, record in records.items()
    }
    kept = {name: slim[name] | {"output": records[name].get("output")} for name in results if name in slim}
    for fewer in ({**slim, **kept}, slim):
        smaller = snapshot | {"task_records": fewer, "task_records_truncated": True}
        if len(orjson.dumps(smaller)) <= max_bytes:
            return smaller
    return snapshot | {"task_records": {}, "task_records_truncated": True}


def from_snapshot(snapshot: Mapping[str, Any]) -> Execution:
    """The execution of a snapshot; equal to the folded one except for dropped records."""
    state, _ = snapshot["state"], snapshot["status"]  # the index and the lists need the second one
    timeout = snapshot.get("timeout")
    graph = graph_from_wire(state["graph"]) if "graph" in state else None
    return Execution(
        execution_id=RunId(snapshot["run_id"]),
        version=snapshot["version"],
        status=Status(state["status"]),
        request=_request(snapshot),
        labels=tuple(snapshot["tags"]),
        graph=graph,
        nodes=_nodes(snapshot, state["nodes"], graph),
        created_at=snapshot["submitted_at"],
        queued_at=snapshot.get("queued_at"),
        started_at=snapshot["start_time"],
        ended_at=snapshot["end_time"],
        updated_at=snapshot["updated_at"],
        archived_at=snapshot.get("archived_at"),
        holder=_holder(snapshot) if "holder" in state else None,
        cancel=msgspec.convert(snapshot["cancel"], CancelReceipt) if "cancel" in snapshot else None,
        error=Failure(**state["error"]) if "error" in state else None,
        timeout=TimeoutReceipt(**timeout | {"how": StopHow(timeout["how"])}) if timeout else None,
        last_lines=tuple(snapshot.get("last_lines", ())),
        result_nodes=_named(snapshot, state.get("result", ())),
        records_truncated=snapshot["task_records_truncated"],
    )


def public_view(snapshot: Mapping[str, Any], *, records: bool) -> Snapshot:
    """The public part of a stored snapshot."""
    hidden = ("state",) if records else ("state", "task_records")
    return {key: value for key, value in snapshot.items() if key not in hidden}


def _put_optional(snapshot: Snapshot, execution: Execution) -> None:
    optional = {name: getattr(execution.request, name) for name in _REQUEST}
    optional |= {"queued_at": execution.queued_at, "archived_at": execution.archived_at}
    snapshot.update((key, value) for key, value in optional.items() if value is not None)
    # Small, and shown also without records: the progress of running nodes.
    progress = {n.node_id: n.progress for n in execution.nodes.values() if n.progress is not None and n.status.is_held}
    if progress:
        snapshot["progress"] = progress
    if execution.error is not None:
        snapshot["error_code"] = execution.error.code
    if execution.last_lines:
        snapshot["last_lines"] = execution.last_lines
    if execution.timeout is not None:
        receipt = asdict(execution.timeout)
        snapshot["timeout"] = msgspec.to_builtins({name: value for name, value in receipt.items() if value is not None})
    if execution.holder is not None and execution.holder.wheels:
        snapshot["wheels"] = msgspec.to_builtins(execution.holder.wheels)
    if execution.holder is not None and execution.holder.code_version is not None:
        snapshot["code_version"] = execution.holder.code_version
    if execution.cancel is not None:
        snapshot["cancel_requested_at"] = execution.cancel.requested_at
        snapshot["cancel"] = msgspec.to_builtins(execution.cancel)


def _record(node: Node) -> Snapshot:
    record: Snapshot = {"state": _TASK_STATUS[node.status], "attempt": node.attempt}
    if node.started_at is not None:
        record["started_at"] = node.started_at
    if node.ended_at is not None:
        record["ended_at"] = node.ended_at
        if node.started_at is not None:
            record["duration_ms"] = round((node.ended_at - node.started_at) * 1000, 3)
    if node.status is NodeStatus.WAITING:
        record["waiting_since"] = node.waiting_since
    if node.error is not None:
        record["error"] = node.error.message
        record["error_code"] = node.error.code
        if node.error.traceback is not None:
            record["traceback"] = node.error.traceback
    shown = _read_shown(node)
    if shown != _NONE_SHOWN:
        record.update((key, value) for key, value in zip(_SHOWN, shown, strict=True) if value is not None)
    return record


def _state(execution: Execution) -> Snapshot:
    state: Snapshot = {
        "status": execution.status.value,
        "nodes": [_node_state(node, execution.graph) for node in execution.nodes.values()],
    }
    if execution.holder is not None:
        state["holder"] = (execution.holder.attempt, execution.holder.worker_id, execution.holder.instance_id)
        if execution.holder.return_to is not None:
            state["return_to"] = execution.holder.return_to
    if execution.request.work is not Work.QUEUED:
        state["work"] = execution.request.work.value
    if execution.graph is not None:
        state["graph"] = execution.graph.once(graph_to_wire)
    if execution.error is not None:
        state["error"] = asdict(execution.error)
    if execution.result_nodes:
        places = {node_id: place for place, node_id in enumerate(execution.nodes)}
        state["result"] = [places[node_id] for node_id in execution.result_nodes]
    return state


def _node_state(node: Node, graph: Graph | None) -> list[Any]:
    """[status, attempt, optional fields], in the order of `tasks`: names are not repeated."""
    head: list[Any] = [_NODE_CODES[node.status], node.attempt]
    rare = _read_rare(node)
    if rare == _NO_RARE:
        return head
    known = {key: value for key, value in zip(_RARE, rare, strict=True) if value is not None and value is not False}
    if node.choices and _prompt_in(graph, node.node_id) is None:
        known["C"] = node.choices
    return [*head, known]


def _prompt_in(graph: Graph | None, node_id: NodeId) -> Any:
    """The prompt that the graph has for a node: its choices need not be repeated."""
    drawn = graph.node(node_id) if graph is not None else None
    return None if drawn is None else drawn.prompt


def _nodes(snapshot: Mapping[str, Any], states: list[Any], graph: Graph | None) -> dict[NodeId, Node]:
    records, progress = snapshot["task_records"], snapshot.get("progress", {})
    return {
        NodeId(name): _node(NodeId(name), state, records.get(name, {}), progress.get(name), graph)
        for name, state in zip(snapshot["tasks"], states, strict=True)
    }


def _named(snapshot: Mapping[str, Any], places: Sequence[int]) -> tuple[NodeId, ...]:
    names = list(snapshot["tasks"]) if places else []
    return tuple(NodeId(names[place]) for place in places)


def _choices(node_id: NodeId, known: Mapping[str, Any], record: Mapping[str, Any], graph: Graph | None) -> Any:
    """The choices of a waiting node. Snapshots of earlier releases have only its prompt."""
    if "k" not in known:
        return ()
    return tuple(known["C"]) if "C" in known else choices_of(record.get("prompt", _prompt_in(graph, node_id)))


def _node(
    node_id: NodeId, state: list[Any], record: Mapping[str, Any], progress: float | None, graph: Graph | None
) -> Node:
    known = state[2] if len(state) > 2 else {}
    failure = None
    if "error" in record:
        failure = Failure(code=record.get("error_code", ""), message=record["error"], traceback=record.get("traceback"))
    return Node(
        node_id=node_id,
        status=_NODE_STATUSES[state[0]],
        attempt=state[1],
        worker_id=known.get("w"),
        started_at=record.get("started_at"),
        ended_at=record.get("ended_at"),
        progress=record.get("progress", progress),
        message=record.get("message"),
        wait_key=known.get("k"),
        prompt=record.get("prompt"),
        answer=record.get("answer"),
        deadline_at=known.get("d"),
        waiting_since=known.get("s"),
        lease_until=known.get("l"),
        lease_sec=known.get("L"),
        output=record.get("output"),
        error=failure,
        canceled_by_execution=known.get("c", False),
        choices=_choices(node_id, known, record, graph),
        choice=known.get("h"),
        reason=known.get("r"),
    )


def _request(snapshot: Mapping[str, Any]) -> Request:
    return Request(
        flow_name=snapshot["flow_name"],
        tag=snapshot["tag"],
        input=snapshot["params"],
        work=Work(snapshot["state"].get("work", Work.QUEUED.value)),
        **{name: snapshot.get(name) for name in _REQUEST},
    )


def _holder(snapshot: Mapping[str, Any]) -> Holder:
    attempt, worker_id, instance_id = snapshot["state"]["holder"]
    return Holder(
        attempt=attempt,
        worker_id=worker_id,
        instance_id=instance_id,
        return_to=snapshot["state"].get("return_to"),
        wheels=msgspec.convert(snapshot.get("wheels", ()), tuple[WheelUsed, ...]),
        code_version=snapshot.get("code_version"),
    )
