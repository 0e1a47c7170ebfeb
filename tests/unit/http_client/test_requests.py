"""Which request each method sends, and what is refused before anything is sent."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client import AsyncPyocoHttpClient
from pyoco_server.http_client import requests as build

ARRAYS = ("list_runs", "list_workers", "list_wheels", "list_wheel_history", "job_tags", "add_job_tag")
EMPTY = ("delete_job", "remove_job_tag")
PAGE: dict[str, list[Any]] = {"items": [], "jobs": [], "tags": [], "entries": []}


async def sent(method: str, *arguments: Any, **named: Any) -> httpx.Request:
    """The request of a method, answered with what it expects."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if method in EMPTY:
            return httpx.Response(204, stream=httpx.ByteStream(b""))
        body = [] if method in ARRAYS else PAGE
        return httpx.Response(200, stream=httpx.ByteStream(json.dumps(body).encode()))

    async with AsyncPyocoHttpClient("http://gateway", transport=httpx.MockTransport(answer), retries=0) as client:
        result = getattr(client, method)(*arguments, **named)
        if inspect.isasyncgen(result):
            assert [item async for item in result] == []
        else:
            await result
    (request,) = requests
    return request


def target(request: httpx.Request) -> str:
    return f"{request.method} {request.url.raw_path.decode()}"


READS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("health", (), {}, "/health"),
    ("get_run", ("r", ["records", "full"]), {}, "/runs/r?include=records&include=full"),
    ("get_tasks", ("r",), {}, "/runs/r/tasks"),
    ("explain_run", ("r",), {}, "/runs/r/explain"),
    (
        "list_runs",
        ("FAILED",),
        {"tags": ["a", "b"], "limit": 5, "include": "records"},
        "/runs?status=FAILED&tags=a&tags=b&limit=5&include=records",
    ),
    ("list_runs_vnext", (), {}, "/runs?cursor="),
    ("list_workers", (), {"include_hidden": True}, "/workers?include_hidden=true"),
    ("list_dead_letters", ("expired",), {"cursor": "c"}, "/dlq?reason=expired&cursor=c"),
    ("list_wheels", (), {}, "/wheels"),
    ("list_wheel_history", (5, "a.whl", "upload"), {}, "/wheels/history?limit=5&wheel_name=a.whl&action=upload"),
    ("get_metrics", (), {}, "/metrics"),
    ("get_execution", ("e", 7, "graph"), {}, "/executions/e?at=7&include=graph"),
    ("list_executions", ("ACTIVE", "g", False), {}, "/executions?status=ACTIVE&graphId=g&archived=false"),
    ("list_events", ("e", 5, ""), {}, "/executions/e/events?limit=5"),
    ("list_waits", ("g", "e"), {}, "/waits?graphId=g&executionId=e"),
    ("get_graph", ("100% 構",), {}, "/graphs/100%25%20%E6%A7%8B"),
    ("list_graphs", ("rel",), {}, "/graphs?q=rel"),
    ("get_job", ("j",), {}, "/jobs/j"),
    ("list_jobs", (), {}, "/jobs?limit=50"),
    ("list_jobs", (), {"tags": "urgent", "next_token": ""}, "/jobs?tag=urgent&limit=50"),
    (
        "list_jobs",
        (),
        {"tags": ["a", "b,c"], "status": "failed", "limit": 2, "next_token": "t"},
        "/jobs?tag=a&tag=b%2Cc&status=failed&limit=2&nextToken=t",
    ),
    (
        "job_logs",
        ("j",),
        {"since_token": "t-1", "limit": 10, "task": "load", "level": "WARNING", "wait_sec": 5},
        "/jobs/j/logs?sinceToken=t-1&limit=10&task=load&level=WARNING&waitSec=5",
    ),
    ("job_tags", ("j",), {}, "/jobs/j/tags"),
    ("list_tags", (), {}, "/tags?limit=100"),
    ("list_tags", ("urg", 5), {"next_token": "t"}, "/tags?prefix=urg&limit=5&nextToken=t"),
]


@pytest.mark.parametrize(("method", "arguments", "named", "path"), READS)
async def test_a_read_is_a_get_without_a_key(
    method: str, arguments: tuple[Any, ...], named: dict[str, Any], path: str
) -> None:
    request = await sent(method, *arguments, **named)

    assert target(request) == f"GET {path}"
    assert "idempotency-key" not in request.headers


CHANGES: list[tuple[str, tuple[Any, ...], dict[str, Any], str, Any]] = [
    ("submit_run", ("hello",), {}, "POST /runs", {"flow_name": "hello", "params": {}}),
    (
        "submit_run",
        ("hello", {"name": "日本"}, "gpu", ("a", "b"), 90.5),
        {},
        "POST /runs",
        {"flow_name": "hello", "params": {"name": "日本"}, "tag": "gpu", "tags": ["a", "b"], "timeout_sec": 90.5},
    ),
    ("cancel_run", ("r",), {}, "POST /runs/r/cancel", None),
    ("cancel_run", ("r",), {"reason": "no"}, "POST /runs/r/cancel", {"reason": "no"}),
    ("patch_worker", ("w", True), {}, "PATCH /workers/w", {"hidden": True}),
    ("replay_dead_letter", (7,), {}, "POST /dlq/7/replay", None),
    ("delete_wheel", ("a.whl",), {}, "DELETE /wheels/a.whl", None),
    ("create_execution", ("g",), {}, "POST /executions", {"graphId": "g", "input": {}}),
    (
        "create_execution",
        ("g", {"version": "1"}, "gpu"),
        {},
        "POST /executions",
        {"graphId": "g", "input": {"version": "1"}, "tag": "gpu"},
    ),
    ("start_execution", ("e",), {}, "POST /executions/e/start", {}),
    ("cancel_execution", ("e",), {}, "POST /executions/e/cancel", {}),
    ("cancel_execution", ("e", "no"), {}, "POST /executions/e/cancel", {"reason": "no"}),
    ("archive_execution", ("e",), {}, "POST /executions/e/archive", {}),
    ("complete_execution", ("e",), {}, "POST /executions/e/complete", {}),
    (
        "fail_execution",
        ("e", "ERR", "why"),
        {},
        "POST /executions/e/fail",
        {"error": {"code": "ERR", "message": "why"}},
    ),
    (
        "claim_node",
        ("release", "w-1"),
        {},
        "POST /executions:claim",
        {"graphIds": ["release"], "workerId": "w-1", "waitSec": 20.0, "leaseSec": 60.0},
    ),
    ("start_node", ("e", "n"), {"worker_id": "w"}, "POST /executions/e/nodes/n/start", {"workerId": "w"}),
    (
        "report_progress",
        ("e", "n", 42, "half"),
        {"lease_sec": 9},
        "POST /executions/e/nodes/n/progress",
        {"progress": 42, "message": "half", "leaseSec": 9},
    ),
    (
        "put_waiting",
        ("e", "n", "key", {"text": "sure?"}, 60),
        {},
        "POST /executions/e/nodes/n/wait",
        {"waitKey": "key", "prompt": {"text": "sure?"}, "timeoutSec": 60},
    ),
    (
        "resume_node",
        ("e", "n", "key", "yes", 2),
        {},
        "POST /executions/e/nodes/n/resume",
        {"resumeKey": "key", "answer": "yes", "attempt": 2},
    ),
    ("succeed_node", ("e", "n", [1], 2), {}, "POST /executions/e/nodes/n/success", {"output": [1], "attempt": 2}),
    (
        "fail_node",
        ("e", "n", "ERR", "why"),
        {},
        "POST /executions/e/nodes/n/fail",
        {"error": {"code": "ERR", "message": "why"}},
    ),
    ("put_graph", ("g", {"nodes": ["a"], "title": None}, 0), {}, "PUT /graphs/g?expectedVersion=0", ...),
    ("submit_job", (), {}, "POST /jobs", {"parameters": {}}),
    (
        "submit_job",
        ({"input": "data.csv"},),
        {"flow": "report", "tag": "gpu", "tags": "urgent", "timeout_sec": 60.0},
        "POST /jobs",
        {"parameters": {"input": "data.csv"}, "tags": ["urgent"], "flow": "report", "tag": "gpu", "timeout_sec": 60.0},
    ),
    ("delete_job", ("j",), {}, "DELETE /jobs/j", None),
    ("add_job_tag", ("j", "a/b"), {}, "POST /jobs/j/tags", {"tag": "a/b"}),
    ("remove_job_tag", ("j", "a/b c"), {}, "DELETE /jobs/j/tags/a%2Fb%20c", None),
]


@pytest.mark.parametrize(("method", "arguments", "named", "line", "body"), CHANGES)
async def test_a_change_says_only_what_was_given_and_has_a_key(
    method: str, arguments: tuple[Any, ...], named: dict[str, Any], line: str, body: Any
) -> None:
    if body is ...:
        body = arguments[1]  # a document is sent as it is

    first, second = [await sent(method, *arguments, **named) for _ in range(2)]
    given = await sent(method, *arguments, **named, idempotency_key="mine")

    keys = [request.headers["idempotency-key"] for request in (first, second)]
    assert target(first) == line
    assert json.loads(first.content or b"null") == body
    assert [str(UUID(key, version=4)) for key in keys] == keys
    assert keys[0] != keys[1]
    assert given.headers["idempotency-key"] == "mine"


async def test_files_go_as_multipart_beside_their_fields() -> None:
    workflow = await sent("submit_run_yaml", "version: 1\n", "gpu", timeout_sec=90)
    wheel = await sent("upload_wheel", "a.whl", b"bytes", tags=["x", "y"])

    assert [target(request) for request in (workflow, wheel)] == ["POST /runs/yaml", "POST /wheels"]
    for request, fields in (
        (workflow, ['name="flow_name"', "main", 'name="tag"', "gpu", 'name="timeout_sec"', "90", "version: 1"]),
        (wheel, ['name="replace"', "true", 'name="tags"', "x,y", 'name="wheel"; filename="a.whl"', "bytes"]),
    ):
        body = (await request.aread()).decode()
        assert [field for field in fields if field not in body] == []


async def test_a_graph_goes_as_the_yaml_that_it_was_written_in() -> None:
    request = await sent("put_graph", "release", "nodes: [構築]\n")

    assert request.headers["content-type"] == "application/yaml"
    assert request.content == "nodes: [構築]\n".encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), "\ud800"])
async def test_params_that_are_not_json_are_refused_before_they_are_sent(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        await sent("submit_run", "hello", {"x": value})


@pytest.mark.parametrize("key", ["", " a", "a ", "a\nb", "é", "x" * 256])
async def test_an_invalid_key_is_refused_before_it_is_sent(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key must be"):
        await sent("cancel_run", "r", idempotency_key=key)


def test_a_resumed_stream_names_the_last_event() -> None:
    first, resumed = build.get_stream("/runs/r/watch", "", since=5.0), build.get_stream("/runs/r/watch", "7")

    assert "Last-Event-ID" not in first.headers
    assert (first.query, resumed.headers["Last-Event-ID"]) == ((("since", "5.0"),), "7")
    assert {request.headers["Accept"] for request in (first, resumed)} == {"text/event-stream"}
    # Compression could delay events.
    assert {request.headers["Accept-Encoding"] for request in (first, resumed)} == {"identity"}


IDS = ["", ".", "..", "a/b", "../workers", "a\\b", "a?x=1", "a#b", "%2e%2e", "a%2Ftasks", "a\nb", "a\0b", "\u2028"]


@pytest.mark.parametrize("hostile", [*IDS, "a\ud800"])
@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("get_run", "run_id"),
        ("get_job", "job_id"),
        ("get_execution", "execution_id"),
        ("patch_worker", "worker_id"),
        ("delete_wheel", "wheel_name"),
    ],
)
async def test_an_id_that_would_leave_its_segment_is_refused(method: str, name: str, hostile: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is not an id"):
        await sent(method, hostile, *[True] * (method == "patch_worker"))


@pytest.mark.parametrize("hostile", ["", ".", "..", "a/b", "a\nb", "\u2028", "a\ud800"])
async def test_a_name_that_would_leave_its_segment_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="node_id is not a name"):
        await sent("start_node", "e", hostile)
    with pytest.raises(ValueError, match="graph_id is not a name"):
        await sent("get_graph", hostile)


@pytest.mark.parametrize("hostile", ["", ".", "..", "../..", "a/../b", "a\nb", "a\ud800"])
async def test_a_tag_that_would_leave_its_segment_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="tag is not a label"):
        await sent("remove_job_tag", "j", hostile)


@given(st.text(min_size=1, max_size=20))
def test_any_accepted_text_is_one_segment_of_the_path(text: str) -> None:
    def path(make: Callable[[], str]) -> str | None:
        try:
            return make()
        except ValueError:
            return None

    made = {
        "id": path(lambda: build.id_path("/x", "name", text)),
        "name": path(lambda: build.name_path("/x", "name", text)),
        "tag": path(lambda: build.tag_path("/x", text)),
    }

    for found in made.values():
        if found is not None:
            assert found.isascii()
            assert found.split("/")[:2] == ["", "x"]
            assert unquote(found.removeprefix("/x/")) == text
            assert found.count("/") == 2
            assert found.rpartition("/")[2] not in (".", "..")
    if text.isprintable() and not {".", ".."} & set(text.split("/")):
        assert made["tag"] is not None
        assert ("/" in text) is (made["name"] is None)


@pytest.mark.parametrize("body", ["", "[]", "1", "<html>", "nul"])
def test_an_answer_of_another_shape_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError):
        build.read_object(body)


def test_pages_and_empty_answers_are_checked() -> None:
    assert build.read_optional_object("") is None
    assert build.read_nothing("") is None
    for read, body in ((build.read_page(), "{}"), (build.read_nothing, "<html>"), (build.read_array, "{}")):
        with pytest.raises(ValueError, match="expected"):
            read(body)
