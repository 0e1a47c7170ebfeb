"""An execution as its events show it; executions, events, waits and graphs as rows. Nothing is printed here.

The view has the form of a run (tasks, records), so that it is drawn as runs are. Whatever comes from a server may be
missing, may be of a newer version, and may have been named by somebody unkind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyoco_server.cli.client.render import Json, Row, duration, moment, stamp, task_row, text, took_sec
from pyoco_server.cli.plain import line

NODE_HEAD = ("", "NODE", "STATUS", "TIME", "WORKER", "DETAIL")
LIVE_HEAD = ("", "NODE", "STATUS", "TIME", "DETAIL")
EVENT_HEAD = ("WHEN", "EVENT", "NODE", "WHO", "DETAIL")
WAIT_HEAD = ("EXECUTION_ID", "GRAPH", "NODE", "SINCE", "DEADLINE", "PROMPT")
GRAPH_HEAD = ("GRAPH", "VERSION", "SOURCE", "NODES", "UPDATED", "BY", "TITLE")

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


def unix_sec(rfc3339: object) -> float | None:
    """A time of the server's; None for what is none."""
    try:
        return datetime.fromisoformat(str(rfc3339)).timestamp() if rfc3339 else None
    except (ValueError, OverflowError, OSError):
        return None


def seen(view: Json, event: Json) -> dict[str, Any]:
    """The view after one more event; one that it does not know changes nothing."""
    kind, payload, at = str(event.get("type")), _object(event.get("payload")), unix_sec(event.get("occurredAt"))
    after = {**view}
    if kind == "EXECUTION_CREATED":
        nodes = _object(payload.get("graph")).get("nodes")
        after |= {"status": "ACTIVE", "flow_name": _object(payload.get("request")).get("flowName")}
        named = nodes if isinstance(nodes, list) else []
        after["tasks"] = {str(_object(node).get("id")): "IDLE" for node in named}
    elif kind == "EXECUTION_STARTED":
        after |= {"start_time": view.get("start_time") or at, "worker_id": payload.get("workerId")}
    elif kind in _ENDS:
        error = _object(payload.get("error"))
        after |= {"status": _ENDS[kind], "end_time": at, "error": _failure(error) if error else None}
        after["tasks"] = {name: _ended(status) for name, status in _object(view.get("tasks")).items()}
    elif kind in _NODE_STATUS and payload.get("nodeId") is not None:
        node_id = str(payload["nodeId"])
        after["tasks"] = {**_object(view.get("tasks")), node_id: _NODE_STATUS[kind]}
        records = _object(view.get("task_records"))
        after["task_records"] = {**records, node_id: _record(_object(records.get(node_id)), kind, payload, at)}
    return after


def _ended(status: str) -> str:
    return status if status in _FINISHED else "CANCELED"


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
        after["error"] = _failure(_object(payload.get("error"))) if kind == "NODE_FAILED" else None
        started_at = before.get("started_at")
        if kind != "NODE_RESUMED" and at is not None and isinstance(started_at, int | float):
            after["duration_ms"] = (at - started_at) * 1000
    return after


def node_rows(execution: Json, now: float | None = None) -> list[Row]:
    """One row per node of a snapshot, in the order of the graph."""
    nodes = execution.get("nodes")
    return [_node_row(_object(node), now) for node in nodes] if isinstance(nodes, list) else []


def _node_row(node: Json, now: float | None) -> Row:
    started, ended = unix_sec(node.get("startedAt")), unix_sec(node.get("endedAt"))
    record: dict[str, Any] = {
        "started_at": started,
        "progress": node.get("progress"),
        "message": node.get("message"),
        "attempt": node.get("attempt"),
        "error": _failure(_object(node.get("error"))) if node.get("error") else None,
    }
    if started is not None and ended is not None:
        record["duration_ms"] = (ended - started) * 1000
    if node.get("status") == "WAITING":
        record["message"] = " ".join(
            part for part in (f"waits for {node.get('waitKey')}", shown(node.get("prompt"))) if part
        )
    mark, name, status, time, detail = task_row(str(node.get("nodeId")), str(node.get("status")), record, now)
    return (mark, name, status, time, text(node.get("workerId")), detail)


def execution_facts(execution: Json) -> list[tuple[str, str]]:
    """What is worth knowing of one execution, as name and value; what it does not say is left out."""
    cancel, error = _object(execution.get("cancel")), _object(execution.get("error"))
    run = {"start_time": unix_sec(execution.get("startedAt")), "end_time": unix_sec(execution.get("endedAt"))}
    version = f" (version {text(execution['graphVersion'])})" if execution.get("graphVersion") else ""
    facts = [
        ("execution", text(execution.get("executionId"))),
        ("status", text(execution.get("status"))),
        ("graph", f"{text(execution.get('graphId'))}{version}"),
        ("input", shown(execution.get("input")) or "-"),
        ("worker", text(execution.get("workerId"))),
        ("created", moment(unix_sec(execution.get("createdAt")))),
        ("started", moment(run["start_time"])),
        ("ended", moment(run["end_time"])),
        ("took", duration(took_sec(run))),
        ("error", text(_failure(error)) if error else "-"),
        ("cancel", text(" ".join(str(cancel[key]) for key in ("requestedBy", "reason") if cancel.get(key)))),
        ("archived", moment(unix_sec(execution.get("archivedAt")))),
    ]
    return [(name, value) for name, value in facts if value != "-"]


def event_row(event: Json) -> Row:
    """Who did what, when."""
    payload, actor = _object(event.get("payload")), _object(event.get("actor"))
    who = "/".join(str(actor[key]) for key in ("kind", "id") if actor.get(key))
    when = stamp(unix_sec(event.get("occurredAt")))
    return (when, text(event.get("type")), text(payload.get("nodeId")), text(who), _event_detail(payload))


def _event_detail(payload: Json) -> str:
    parts = [f"{payload['progress']:g}%"] if isinstance(payload.get("progress"), int | float) else []
    parts += [str(payload[name]) for name in ("message", "reason", "how", "tag") if payload.get(name)]
    parts += [f"by {payload[name]}" for name in ("requestedBy", "workerId") if payload.get(name)]
    parts += [f"waits for {payload['waitKey']}"] if payload.get("waitKey") else []
    parts += [_failure(_object(payload["error"]))] if payload.get("error") else []
    parts += [shown(payload[name]) for name in ("prompt", "answer", "output") if payload.get(name) is not None]
    if isinstance(payload.get("attempt"), int) and payload["attempt"] > 1:
        parts.append(f"(attempt {payload['attempt']})")
    return line(" ".join(parts))


def wait_row(wait: Json) -> Row:
    return (
        text(wait.get("executionId")),
        text(wait.get("graphId")),
        text(wait.get("nodeId")),
        moment(unix_sec(wait.get("waitingSince"))),
        moment(unix_sec(wait.get("deadlineAt"))),
        shown(wait.get("prompt")) or "-",
    )


def graph_row(graph: Json) -> Row:
    return (
        text(graph.get("graphId")),
        text(graph.get("version")),
        text(graph.get("source")),
        text(graph.get("nodeCount")),
        moment(unix_sec(graph.get("updatedAt"))),
        text(graph.get("updatedBy")),
        text(graph.get("title")),
    )


def last_line(execution_id: str, view: Json) -> str:
    """What is left to say of an execution that was watched."""
    statuses = list(_object(view.get("tasks")).values())
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    took = took_sec(view)
    told = f"execution {line(execution_id)} {text(view.get('status'))}"
    told += f" in {duration(took)}" if took is not None else ""
    told += f" ({line(counts)})" if counts else ""
    return f"{told}: {line(view['error'])}" if view.get("error") else told


def shown(value: Any) -> str:
    """Any JSON on one line; a text as it is, and nothing for nothing."""
    if value is None or value == {}:
        return ""
    return line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _failure(error: Json) -> str:
    return ": ".join(str(error[name]) for name in ("code", "message") if error.get(name))


def _object(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}
