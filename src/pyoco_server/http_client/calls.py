"""What to ask of a gateway, one function per endpoint: method, path, query, body, and how to read the answer.

Nothing here sends anything, and nothing here knows which library does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Generic, TypeVar
from urllib.parse import quote

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

T = TypeVar("T")
Words = str | Iterable[str] | None
Query = tuple[tuple[str, str], ...]

MAX_WATCH_SEC = 600
MAX_KEY_CHARS = 255
_JSON_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request. Whatever changes something has an idempotency key, so that sending it twice is sending it once.

    `makes`: it makes something new; whoever never gets its answer cannot know whether that is there.
    """

    method: str
    path: str
    read: Callable[[str], T]
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, tuple[str, bytes | IO[bytes], str]] = field(default_factory=dict)
    idempotency_key: str | None = None
    makes: bool = False


def health() -> Call[Health]:
    return Call(method="GET", path="/health", read=_object)


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
        body["tags"] = _words(tags)
    if timeout_sec is not None:
        body["timeout_sec"] = timeout_sec
    key = _key(idempotency_key)
    return Call(method="POST", path="/runs", read=_object, idempotency_key=key, makes=True, **_json(body))


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
        read=_object,
        idempotency_key=_key(idempotency_key),
        makes=True,
        fields={"flow_name": flow_name} | {name: value for name, value in optional.items() if value is not None},
        files={"workflow": ("flow.yaml", text, "application/yaml")},
    )


def get_run(run_id: str, include: Words = None) -> Call[RunSnapshot]:
    return Call(method="GET", path=_run(run_id), read=_object, query=_query(include=include))


def get_tasks(run_id: str) -> Call[RunTasks]:
    return Call(method="GET", path=f"{_run(run_id)}/tasks", read=_object)


def explain_run(run_id: str) -> Call[RunExplanation]:
    return Call(method="GET", path=f"{_run(run_id)}/explain", read=_object)


def list_runs(**filters: Any) -> Call[list[RunSummary]]:
    return Call(method="GET", path="/runs", read=_array, query=_query(**filters))


def list_runs_page(*, cursor: str | None, **filters: Any) -> Call[RunPage]:
    # An empty cursor asks for the first page; without any the gateway would answer with a bare list.
    return Call(method="GET", path="/runs", read=_page, query=_query(cursor=cursor or "", **filters))


def cancel_run(run_id: str, reason: str | None = None, idempotency_key: str | None = None) -> Call[RunSnapshot]:
    body = {} if reason is None else _json({"reason": reason})
    key = _key(idempotency_key)
    return Call(method="POST", path=f"{_run(run_id)}/cancel", read=_object, idempotency_key=key, **body)


def watch_run(
    run_id: str, include: Words, since: float | None, timeout_sec: int | None, last_event_id: str
) -> Call[str]:
    """The stream of a run. Once an event has been heard its id says where to go on, and `since` has had its time."""
    headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
        since = None
    query = _query(include=include, since=since, timeout_sec=timeout_sec)
    return Call(method="GET", path=f"{_run(run_id)}/watch", read=_text, query=query, headers=headers)


def get_run_logs(
    run_id: str,
    since_token: str | None = None,
    limit: int | None = None,
    tail: int | None = None,
    wait_sec: float | None = None,
) -> Call[RunLogs]:
    query = _query(since_token=since_token or None, limit=limit, tail=tail, wait_sec=wait_sec)
    return Call(method="GET", path=f"{_run(run_id)}/logs", read=_page, query=query)


def list_workers(**filters: Any) -> Call[list[WorkerRecord]]:
    return Call(method="GET", path="/workers", read=_array, query=_query(**filters))


def patch_worker(worker_id: str, hidden: bool, idempotency_key: str | None = None) -> Call[WorkerPatched]:
    path = f"/workers/{_segment('worker_id', worker_id)}"
    key = _key(idempotency_key)
    return Call(method="PATCH", path=path, read=_object, idempotency_key=key, **_json({"hidden": hidden}))


def list_dead_letters(**filters: Any) -> Call[DeadLetterPage]:
    return Call(method="GET", path="/dlq", read=_page, query=_query(**filters))


def replay_dead_letter(seq: int, idempotency_key: str | None = None) -> Call[Replayed]:
    path = f"/dlq/{_segment('seq', str(seq))}/replay"
    return Call(method="POST", path=path, read=_object, idempotency_key=_key(idempotency_key), makes=True)


def list_wheels() -> Call[list[WheelArtifact]]:
    return Call(method="GET", path="/wheels", read=_array)


def list_wheel_history(**filters: Any) -> Call[list[WheelHistoryEvent]]:
    return Call(method="GET", path="/wheels/history", read=_array, query=_query(**filters))


def upload_wheel(
    filename: str, file: IO[bytes], replace: bool, tags: Words, idempotency_key: str | None = None
) -> Call[WheelArtifact]:
    fields = {"replace": "true" if replace else "false", "tags": ",".join(_words(tags))}
    files = {"wheel": (filename, file, "application/octet-stream")}
    key = _key(idempotency_key)
    return Call(method="POST", path="/wheels", read=_object, fields=fields, files=files, idempotency_key=key)


def download_wheel(name: str) -> Call[str]:
    headers = {"Accept": "application/octet-stream", "Accept-Encoding": "identity"}
    return Call(method="GET", path=_wheel(name), read=_text, headers=headers)


def delete_wheel(name: str, idempotency_key: str | None = None) -> Call[WheelDeleted]:
    return Call(method="DELETE", path=_wheel(name), read=_object, idempotency_key=_key(idempotency_key))


def get_metrics() -> Call[str]:
    return Call(method="GET", path="/metrics", read=_text, headers={"Accept": "text/plain"})


def _key(given: str | None) -> str:
    """The key by which a gateway recognises the call, however often it is sent."""
    if given is None:
        return _random_uuid()
    if not 0 < len(given) <= MAX_KEY_CHARS or not given.isascii() or not given.isprintable() or given != given.strip():
        raise ValueError(
            f"idempotency_key must be 1 to {MAX_KEY_CHARS} printable ASCII characters without spaces at its ends"
        )
    return given


def _random_uuid() -> str:
    """A UUID of version 4. The module for them takes longer to load than the rest of this package."""
    number = int.from_bytes(os.urandom(16), "big") & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _wheel(name: str) -> str:
    return f"/wheels/{_segment('wheel_name', name)}"


def _run(run_id: str) -> str:
    return f"/runs/{_segment('run_id', run_id)}"


def _segment(name: str, value: str) -> str:
    """One segment of a path. Servers decode `%2F` and fold dots before they route, so that quoting alone would let an
    id reach another path than the one that is meant; such an id is nobody's."""
    if value in ("", ".", "..") or not value.isprintable() or any(sign in value for sign in "/\\?#%"):
        raise ValueError(f"{name} is not an id: {value[:80]!r}")
    return quote(value, safe="")


def _query(**values: Any) -> Query:
    """Those that are given; a list is repeated, as in `include=records&include=full`."""
    return tuple((name, word) for name, value in values.items() for word in _words(value))


def _words(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str | int | float):
        return [str(value)]
    return [str(word) for word in value]


def _json(body: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return {"content": text.encode(), "headers": _JSON_HEADERS}


def _text(body: str) -> str:
    return body


def _object(body: str) -> Any:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - one kind of error for every unreadable answer
    return value


def _array(body: str) -> Any:
    value = json.loads(body)
    if not isinstance(value, list):
        raise ValueError("expected a JSON array")  # noqa: TRY004 - as above
    return value


def _page(body: str) -> Any:
    value = _object(body)
    if not isinstance(value.get("items"), list):
        raise ValueError("expected a JSON object with items")  # noqa: TRY004 - as above
    return value
