"""What to ask about executions, nodes, waits and graphs, one function per endpoint. Nothing here sends anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyoco_server.http_client import call_parts as parts
from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.execution_shapes import (
    Claim,
    CommandAccepted,
    EventPage,
    ExecutionPage,
    ExecutionSnapshot,
    GraphDocument,
    GraphPage,
    WaitPage,
)

Input = Mapping[str, Any] | None
Document = Mapping[str, Any] | str | bytes


def create_execution(
    graph_id: str, input: Input, tag: str | None, idempotency_key: str | None = None
) -> Call[CommandAccepted]:
    body = {"graphId": graph_id, "input": dict(input or {})} | _given(tag=tag)
    return _post("/executions", body, idempotency_key, makes=True)


def command(execution_id: str, word: str, idempotency_key: str | None, /, **body: Any) -> Call[CommandAccepted]:
    """`start`, `cancel`, `archive`, `complete`, `fail`: what is asked of an execution as a whole."""
    return _post(f"{_execution(execution_id)}/{word}", _given(**body), idempotency_key)


def node_command(
    execution_id: str, node_id: str, word: str, idempotency_key: str | None, /, **body: Any
) -> Call[CommandAccepted]:
    """`start`, `progress`, `wait`, `resume`, `success`, `fail`: what is said about one node."""
    path = f"{_execution(execution_id)}/nodes/{parts.name_segment('node_id', node_id)}/{word}"
    return _post(path, _given(**body), idempotency_key)


def claim_node(
    graph_ids: Iterable[str], worker_id: str, wait_sec: float, lease_sec: float, idempotency_key: str | None = None
) -> Call[Claim | None]:
    body = {
        "graphIds": parts.words(graph_ids),
        "workerId": worker_id,
        "waitSec": wait_sec,
        "leaseSec": lease_sec,
    }
    return Call(
        method="POST",
        path="/executions:claim",
        read=parts.read_object_or_nothing,
        idempotency_key=parts.key(idempotency_key),
        **parts.json_body(body),
    )


def get_execution(execution_id: str, at: int | None = None, include: str | None = None) -> Call[ExecutionSnapshot]:
    query = parts.query(at=at, include=include)
    return Call(method="GET", path=_execution(execution_id), read=parts.read_object, query=query)


def list_executions(**filters: Any) -> Call[ExecutionPage]:
    return Call(method="GET", path="/executions", read=parts.read_page, query=parts.query(**filters))


def list_events(execution_id: str, limit: int | None = None, cursor: str | None = None) -> Call[EventPage]:
    query = parts.query(limit=limit, cursor=cursor or None)
    return Call(method="GET", path=f"{_execution(execution_id)}/events", read=parts.read_page, query=query)


def follow_events(execution_id: str, last_event_id: str) -> Call[str]:
    """The events as a stream, from the beginning or behind the one that was heard last."""
    headers = parts.EVENT_STREAM | ({"Last-Event-ID": last_event_id} if last_event_id else {})
    path = f"{_execution(execution_id)}/events"
    return Call(method="GET", path=path, read=parts.read_text, headers=headers)


def list_waits(**filters: Any) -> Call[WaitPage]:
    return Call(method="GET", path="/waits", read=parts.read_page, query=parts.query(**filters))


def put_graph(
    graph_id: str, document: Document, expected_version: int | None = None, idempotency_key: str | None = None
) -> Call[GraphDocument]:
    """A mapping goes as JSON; a text is YAML."""
    return Call(
        method="PUT",
        path=_graph(graph_id),
        read=parts.read_object,
        query=parts.query(expectedVersion=expected_version),
        idempotency_key=parts.key(idempotency_key),
        **(parts.json_body(document) if isinstance(document, Mapping) else _yaml_body(document)),
    )


def get_graph(graph_id: str) -> Call[GraphDocument]:
    return Call(method="GET", path=_graph(graph_id), read=parts.read_object)


def list_graphs(**filters: Any) -> Call[GraphPage]:
    return Call(method="GET", path="/graphs", read=parts.read_page, query=parts.query(**filters))


def error_body(code: str, message: str) -> dict[str, str]:
    """Why something fails, as the commands that say so have it."""
    return {"code": code, "message": message}


def _post(path: str, body: Mapping[str, Any], idempotency_key: str | None, *, makes: bool = False) -> Call[Any]:
    key = parts.key(idempotency_key)
    return Call(
        method="POST", path=path, read=parts.read_object, idempotency_key=key, makes=makes, **parts.json_body(body)
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _yaml_body(document: str | bytes) -> dict[str, Any]:
    content = document.encode() if isinstance(document, str) else document
    return {"content": content, "headers": {"Content-Type": "application/yaml"}}


def _execution(execution_id: str) -> str:
    return f"/executions/{parts.segment('execution_id', execution_id)}"


def _graph(graph_id: str) -> str:
    return f"/graphs/{parts.name_segment('graph_id', graph_id)}"
