"""A client of `/executions`: every command with the body of the contract and a key of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import orjson

NODE, NEXT = "build", "deploy"
WORKER = "worker-1"
WAIT_KEY = "approval-123"
PAIR: dict[str, Any] = {"nodes": [NODE, NEXT], "edges": [[NODE, NEXT]]}
ERROR = {"error": {"code": "ERR_TIMEOUT", "message": "timeout"}}
# The bodies of the contract.
BODIES: dict[str, Any] = {
    "start": None,
    "cancel": None,
    "archive": None,
    "complete": None,
    "fail": ERROR,
    "node start": {"attempt": 1, "workerId": WORKER},
    "node progress": {"progress": 42, "message": "processing..."},
    "node wait": {"waitKey": WAIT_KEY, "prompt": {}},
    "node resume": {"resumeKey": WAIT_KEY},
    "node success": {"output": {}},
    "node fail": ERROR,
}
NAMES = {
    "start": "StartExecution",
    "cancel": "CancelExecution",
    "archive": "ArchiveExecution",
    "complete": "CompleteExecution",
    "fail": "FailExecution",
    "node start": "StartNode",
    "node progress": "ReportNodeProgress",
    "node wait": "PutNodeWaiting",
    "node resume": "ResumeNode",
    "node success": "SucceedNode",
    "node fail": "FailNode",
}
SUCCEEDED = ("node start", "node success")
MISSING = "00000000-0000-7000-8000-000000000000"
_AS_SHOWN: Any = object()
_numbers = itertools.count(1)


def new_key() -> str:
    return f"key-{next(_numbers)}"


def path_of(execution_id: str, command: str, node: str = NODE) -> str:
    """The path of a command."""
    *about_node, verb = command.split()
    return f"/executions/{execution_id}/nodes/{node}/{verb}" if about_node else f"/executions/{execution_id}/{verb}"


def guard_of(response: httpx.Response) -> str:
    """The guard that refused the command."""
    body = response.json()["error"]
    guard = str(body["details"]["guard"])
    # A missing node is a 404, too.
    expected = (404, "NODE_NOT_FOUND") if guard == "UNKNOWN_NODE" else (409, "COMMAND_REJECTED")
    assert (response.status_code, body["code"]) == expected, response.text
    return guard


def code_of(response: httpx.Response) -> tuple[int, str]:
    """Status and code of an error of `/executions`, which has no other fields."""
    body = response.json()
    assert list(body) == ["error"], response.text
    assert set(body["error"]) == {"code", "message", "details"}, response.text
    return response.status_code, body["error"]["code"]


class Caller:
    """A client of one gateway."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def put(self, graph_id: str, graph: Mapping[str, Any] = PAIR) -> None:
        self.http.put(f"/graphs/{graph_id}", json=graph).raise_for_status()

    def create(self, graph_id: str, *commands: str, **more: Any) -> str:
        """A new execution to which these commands were given."""
        response = self.post("/executions", {"graphId": graph_id, **more})
        assert response.status_code == 202, response.text
        execution_id: str = response.json()["executionId"]
        self.done(execution_id, *commands)
        return execution_id

    def done(self, execution_id: str, *commands: str, node: str = NODE) -> None:
        """Sends commands that are accepted."""
        for command in commands:
            response = self.ask(execution_id, command, node=node)
            assert response.status_code == 202, response.text

    def ask(
        self, execution_id: str, command: str, body: Any = _AS_SHOWN, *, node: str = NODE, key: str | None = None
    ) -> httpx.Response:
        """Sends a command; without a body, with that of the contract."""
        sent = BODIES[command] if body is _AS_SHOWN else body
        return self.post(path_of(execution_id, command, node), sent, key=key)

    def post(
        self, path: str, body: Any = None, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Sends this body as JSON, bytes unchanged, and None as no body."""
        content = body if isinstance(body, bytes) else None if body is None else orjson.dumps(body)
        sent = {"Idempotency-Key": key or new_key(), "Content-Type": "application/json", **(headers or {})}
        return self.http.post(path, content=content, headers=sent)

    def claim(self, *graph_ids: str, key: str | None = None, worker: str = WORKER, **more: Any) -> httpx.Response:
        return self.post("/executions:claim", {"graphIds": list(graph_ids), "workerId": worker, **more}, key=key)

    def execution(self, execution_id: str, **query: Any) -> dict[str, Any]:
        response = self.http.get(f"/executions/{execution_id}", params=query)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    def node(self, execution_id: str, node: str = NODE) -> dict[str, Any]:
        return next(one for one in self.execution(execution_id)["nodes"] if one["nodeId"] == node)

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        response = self.http.get(f"/executions/{execution_id}/events", params={"limit": 1000})
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items

    def types(self, execution_id: str) -> list[str]:
        return [event["type"] for event in self.events(execution_id)]

    @contextmanager
    def following(self, execution_id: str, last_event_id: str | None = None) -> Iterator[Iterator[dict[str, Any]]]:
        """The events as they are stored, each with its `id`; leaving the block disconnects."""
        resume = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        path, headers = f"/executions/{execution_id}/events", {"Accept": "text/event-stream", **resume}
        with self.http.stream("GET", path, headers=headers) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield _events_in(response.iter_lines())


def _events_in(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    fields: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line:
            if "event" in fields:
                event: dict[str, Any] = orjson.loads(fields["data"])
                assert event["type"] == fields["event"]
                yield event | {"id": fields["id"]}
            fields = {}
