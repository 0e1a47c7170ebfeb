"""Executions, their events and nodes as rows and lines of text. Prints nothing.

An execution that is followed has the form of a run (tasks, records), so that both are drawn alike.
"""

from __future__ import annotations

from typing import Any

from pyoco_server.cli.client.run_view import as_object, joined, run_status, task_row, took_sec
from pyoco_server.cli.tables import Json, Row, Table, duration, inline_json, moment, stamp, text, unix_sec
from pyoco_server.cli.terminal_escape import escape_line

NODE_HEAD = ("", "NODE", "STATUS", "TIME", "WORKER", "DETAIL")
LIVE_HEAD = ("", "NODE", "STATUS", "TIME", "DETAIL")

_NODE_STATUS = {
    "NODE_CREATED": "IDLE",
    "NODE_READY": "READY",
    "NODE_STARTED": "RUNNING",
    "NODE_PROGRESS_REPORTED": "RUNNING",
    "NODE_WAITING": "WAITING",
    "NODE_RESUMED": "RUNNING",
    "NODE_SUCCEEDED": "SUCCEEDED",
    "NODE_FAILED": "FAILED",
    "NODE_CANCELED": "CANCELED",
}
_ENDS = {"EXECUTION_COMPLETED": "COMPLETED", "EXECUTION_FAILED": "FAILED", "EXECUTION_CANCELED": "CANCELED"}
_FINISHED = ("SUCCEEDED", "FAILED", "CANCELED")


def apply_event(view: Json, event: Json) -> dict[str, Any]:
    """The view after one more event; an unknown event changes nothing."""
    kind, payload, at = str(event.get("type")), as_object(event.get("payload")), unix_sec(event.get("occurredAt"))
    after = {**view}
    if kind == "EXECUTION_CREATED":
        nodes = as_object(payload.get("graph")).get("nodes")
        after |= {"status": "ACTIVE", "flow_name": as_object(payload.get("request")).get("flowName")}
        after["tasks"] = {str(as_object(node).get("id")): "IDLE" for node in _as_list(nodes)}
    elif kind == "EXECUTION_STARTED":
        after |= {"start_time": view.get("start_time") or at, "worker_id": payload.get("workerId")}
    elif kind in _ENDS:
        after |= {"status": _ENDS[kind], "end_time": at, "error": _failure(payload.get("error")) or None}
        after["tasks"] = {
            name: status if status in _FINISHED else "CANCELED" for name, status in as_object(view.get("tasks")).items()
        }
    elif kind in _NODE_STATUS and payload.get("nodeId") is not None:
        node_id = str(payload["nodeId"])
        after["tasks"] = {**as_object(view.get("tasks")), node_id: _NODE_STATUS[kind]}
        records = as_object(view.get("task_records"))
        after["task_records"] = {**records, node_id: _record(as_object(records.get(node_id)), kind, payload, at)}
    return after


def _record(before: Json, kind: str, payload: Json, at: float | None) -> dict[str, Any]:
    after = {**before}
    if kind == "NODE_STARTED":
        after = {"started_at": at, "attempt": payload.get("attempt")}
    elif kind == "NODE_PROGRESS_REPORTED":
        after |= {name: payload[name] for name in ("progress", "message") if payload.get(name) is not None}
    elif kind == "NODE_WAITING":
        after["message"] = f"waits for {payload.get('waitKey')}"
    elif kind in ("NODE_RESUMED", "NODE_SUCCEEDED", "NODE_FAILED", "NODE_CANCELED"):
        after.pop("message", None)
        after |= {name: payload[name] for name in ("choice", "reason") if payload.get(name) is not None}
        after["error"] = _failure(payload.get("error")) if kind == "NODE_FAILED" else None
        started_at = before.get("started_at")
        if kind != "NODE_RESUMED" and at is not None and isinstance(started_at, int | float):
            after["duration_ms"] = (at - started_at) * 1000
    return after


def node_rows(execution: Json, now: float | None = None) -> list[Row]:
    """One row per node of a snapshot, in the order of the graph."""
    return [_node_row(as_object(node), now) for node in _as_list(execution.get("nodes"))]


def _node_row(node: Json, now: float | None) -> Row:
    started, ended = unix_sec(node.get("startedAt")), unix_sec(node.get("endedAt"))
    record: dict[str, Any] = {name: node.get(name) for name in ("progress", "message", "attempt", "choice", "reason")}
    record |= {"started_at": started, "error": _failure(node.get("error")) or None}
    if started is not None and ended is not None:
        record["duration_ms"] = (ended - started) * 1000
    if node.get("status") == "WAITING":
        record["message"] = f"waits for {node.get('waitKey')} {_json_or_nothing(node.get('prompt'))}".rstrip()
    mark, name, status, time, detail = task_row(str(node.get("nodeId")), str(node.get("status")), record, now)
    return (mark, name, status, time, text(node.get("workerId")), detail)


def _graph(execution: Json) -> str:
    version = f" (version {text(execution['graphVersion'])})" if execution.get("graphVersion") else ""
    return f"{text(execution.get('graphId'))}{version}"


def as_run(item: Json, started: str = "startedAt", ended: str = "endedAt") -> dict[str, Any]:
    """An execution or a job with its times as a run has them."""
    return {**item, "start_time": unix_sec(item.get(started)), "end_time": unix_sec(item.get(ended))}


EXECUTION_FACTS = Table(
    ("execution", "executionId"),
    ("status", run_status),
    ("graph", _graph),
    ("input", "input", inline_json),
    ("worker", "workerId"),
    ("created", "createdAt", moment),
    ("started", "startedAt", moment),
    ("ended", "endedAt", moment),
    ("took", lambda execution: took_sec(as_run(execution)), duration),
    ("error", lambda execution: _failure(execution.get("error"))),
    ("cancel", lambda execution: joined(execution.get("cancel"), "requestedBy", "reason")),
    ("archived", "archivedAt", moment),
)


def _event_detail(event: Json) -> str:
    payload = as_object(event.get("payload"))
    parts = [f"{payload['progress']:g}%"] if isinstance(payload.get("progress"), int | float) else []
    parts += [str(payload[name]) for name in ("message", "reason", "how", "tag") if payload.get(name)]
    parts += [f"by {payload[name]}" for name in ("requestedBy", "workerId") if payload.get(name)]
    parts += [f"waits for {payload['waitKey']}"] if payload.get("waitKey") else []
    parts += [_failure(payload["error"])] if payload.get("error") else []
    parts += [
        _json_or_nothing(payload[name]) for name in ("prompt", "answer", "output") if payload.get(name) is not None
    ]
    if isinstance(payload.get("attempt"), int) and payload["attempt"] > 1:
        parts.append(f"(attempt {payload['attempt']})")
    return " ".join(parts)


EVENTS = Table(
    ("WHEN", "occurredAt", stamp),
    ("EVENT", "type"),
    ("NODE", lambda event: as_object(event.get("payload")).get("nodeId")),
    ("WHO", lambda event: joined(event.get("actor"), "kind", "id", separator="/")),
    ("DETAIL", _event_detail, escape_line),
)


def _json_or_nothing(value: Any) -> str:
    return "" if value is None or value == {} else inline_json(value)


def _failure(error: object) -> str:
    return joined(error, "code", "message", separator=": ")


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
