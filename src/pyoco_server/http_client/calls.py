"""What to ask of a gateway, one function per endpoint: method, path, query, body, and how to read the answer.

Nothing here sends anything, and nothing here knows which library does. What is asked about executions is next door.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

from pyoco_server.http_client import call_parts as parts
from pyoco_server.http_client.call_parts import Call, Words
from pyoco_server.http_client.shapes import (
    DeadLetterPage,
    Health,
    Replayed,
    RunAccepted,
    RunExplanation,
    RunLogs,
    RunPage,
    RunSnapshot,
    RunSummary,
    RunTasks,
    WheelArtifact,
    WheelDeleted,
    WheelHistoryEvent,
    WorkerPatched,
    WorkerRecord,
)

MAX_WATCH_SEC = 600


def health() -> Call[Health]:
    return Call(method="GET", path="/health", read=parts.read_object)


def submit_run(
    flow_name: str,
    params: Mapping[str, Any] | None,
    tag: str | None,
    tags: Iterable[str] | None,
    timeout_sec: float | None = None,
    idempotency_key: str | None = None,
) -> Call[RunAccepted]:
    body: dict[str, Any] = {"flow_name": flow_name, "params": dict(params or {})}
    if tag is not None:
        body["tag"] = tag
    if tags is not None:
        body["tags"] = parts.words(tags)
    if timeout_sec is not None:
        body["timeout_sec"] = timeout_sec
    key = parts.key(idempotency_key)
    return Call(
        method="POST", path="/runs", read=parts.read_object, idempotency_key=key, makes=True, **parts.json_body(body)
    )


def submit_run_yaml(
    workflow_yaml: str | bytes,
    tag: str | None,
    flow_name: str,
    timeout_sec: float | None = None,
    idempotency_key: str | None = None,
) -> Call[RunAccepted]:
    text = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
    optional = {"tag": tag, "timeout_sec": None if timeout_sec is None else repr(timeout_sec)}
    return Call(
        method="POST",
        path="/runs/yaml",
        read=parts.read_object,
        idempotency_key=parts.key(idempotency_key),
        makes=True,
        fields={"flow_name": flow_name} | {name: value for name, value in optional.items() if value is not None},
        files={"workflow": ("flow.yaml", text, "application/yaml")},
    )


def get_run(run_id: str, include: Words = None) -> Call[RunSnapshot]:
    return Call(method="GET", path=_run(run_id), read=parts.read_object, query=parts.query(include=include))


def get_tasks(run_id: str) -> Call[RunTasks]:
    return Call(method="GET", path=f"{_run(run_id)}/tasks", read=parts.read_object)


def explain_run(run_id: str) -> Call[RunExplanation]:
    return Call(method="GET", path=f"{_run(run_id)}/explain", read=parts.read_object)


def list_runs(**filters: Any) -> Call[list[RunSummary]]:
    return Call(method="GET", path="/runs", read=parts.read_array, query=parts.query(**filters))


def list_runs_page(*, cursor: str | None, **filters: Any) -> Call[RunPage]:
    # An empty cursor asks for the first page; without any the gateway would answer with a bare list.
    return Call(method="GET", path="/runs", read=parts.read_page, query=parts.query(cursor=cursor or "", **filters))


def cancel_run(run_id: str, reason: str | None = None, idempotency_key: str | None = None) -> Call[RunSnapshot]:
    body = {} if reason is None else parts.json_body({"reason": reason})
    key = parts.key(idempotency_key)
    return Call(method="POST", path=f"{_run(run_id)}/cancel", read=parts.read_object, idempotency_key=key, **body)


def watch_run(
    run_id: str, include: Words, since: float | None, timeout_sec: int | None, last_event_id: str
) -> Call[str]:
    """The stream of a run. Once an event has been heard its id says where to go on, and `since` has had its time."""
    headers = dict(parts.EVENT_STREAM)
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
        since = None
    query = parts.query(include=include, since=since, timeout_sec=timeout_sec)
    return Call(method="GET", path=f"{_run(run_id)}/watch", read=parts.read_text, query=query, headers=headers)


def get_run_logs(
    run_id: str,
    since_token: str | None = None,
    limit: int | None = None,
    tail: int | None = None,
    wait_sec: float | None = None,
) -> Call[RunLogs]:
    query = parts.query(since_token=since_token or None, limit=limit, tail=tail, wait_sec=wait_sec)
    return Call(method="GET", path=f"{_run(run_id)}/logs", read=parts.read_page, query=query)


def list_workers(**filters: Any) -> Call[list[WorkerRecord]]:
    return Call(method="GET", path="/workers", read=parts.read_array, query=parts.query(**filters))


def patch_worker(worker_id: str, hidden: bool, idempotency_key: str | None = None) -> Call[WorkerPatched]:
    path = f"/workers/{parts.segment('worker_id', worker_id)}"
    key = parts.key(idempotency_key)
    return Call(
        method="PATCH", path=path, read=parts.read_object, idempotency_key=key, **parts.json_body({"hidden": hidden})
    )


def list_dead_letters(**filters: Any) -> Call[DeadLetterPage]:
    return Call(method="GET", path="/dlq", read=parts.read_page, query=parts.query(**filters))


def replay_dead_letter(seq: int, idempotency_key: str | None = None) -> Call[Replayed]:
    path = f"/dlq/{parts.segment('seq', str(seq))}/replay"
    return Call(
        method="POST", path=path, read=parts.read_object, idempotency_key=parts.key(idempotency_key), makes=True
    )


def list_wheels() -> Call[list[WheelArtifact]]:
    return Call(method="GET", path="/wheels", read=parts.read_array)


def list_wheel_history(**filters: Any) -> Call[list[WheelHistoryEvent]]:
    return Call(method="GET", path="/wheels/history", read=parts.read_array, query=parts.query(**filters))


def upload_wheel(
    filename: str, file: IO[bytes], replace: bool, tags: Words, idempotency_key: str | None = None
) -> Call[WheelArtifact]:
    fields = {"replace": "true" if replace else "false", "tags": ",".join(parts.words(tags))}
    files = {"wheel": (filename, file, "application/octet-stream")}
    key = parts.key(idempotency_key)
    return Call(method="POST", path="/wheels", read=parts.read_object, fields=fields, files=files, idempotency_key=key)


def download_wheel(name: str) -> Call[str]:
    headers = {"Accept": "application/octet-stream", "Accept-Encoding": "identity"}
    return Call(method="GET", path=_wheel(name), read=parts.read_text, headers=headers)


def delete_wheel(name: str, idempotency_key: str | None = None) -> Call[WheelDeleted]:
    return Call(method="DELETE", path=_wheel(name), read=parts.read_object, idempotency_key=parts.key(idempotency_key))


def get_metrics() -> Call[str]:
    return Call(method="GET", path="/metrics", read=parts.read_text, headers={"Accept": "text/plain"})


def _wheel(name: str) -> str:
    return f"/wheels/{parts.segment('wheel_name', name)}"


def _run(run_id: str) -> str:
    return f"/runs/{parts.segment('run_id', run_id)}"
