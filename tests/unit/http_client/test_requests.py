"""Requests of each method, and arguments refused before the request."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client import AsyncPyocoHttpClient, UnexpectedAnswer
from pyoco_server.http_client import requests as build

Send = Callable[..., Any]


async def sent(send: Send, **options: Any) -> httpx.Request:
    """The request that `send` makes with a client; any response is accepted."""
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(b"?"))

    async with AsyncPyocoHttpClient("http://gateway", transport=httpx.MockTransport(respond), retries=0) as client:
        with pytest.raises(UnexpectedAnswer):
            await send(client, **options)
    (request,) = requests
    return request


def line(request: httpx.Request) -> str:
    return f"{request.method} {request.url.raw_path.decode()}"


READS: dict[str, Send] = {
    "/health": lambda c: c.health(),
    "/runs/r?include=records&include=full": lambda c: c.get_run("r", ["records", "full"]),
    "/runs/r?at=41": lambda c: c.get_run("r", at=41),
    "/runs/r?at=1771416000.500000000": lambda c: c.get_run("r", at=1771416000.5),
    "/jobs/j?at=2026-02-18": lambda c: c.get_job("j", at="2026-02-18"),
    "/executions/e?at=2026-02-18T21%3A00%3A00%2B09%3A00": lambda c: c.get_execution(
        "e", datetime(2026, 2, 18, 21, tzinfo=timezone(timedelta(hours=9)))
    ),
    "/runs?limit=5&submitted_after=2026-02-18T12%3A00%3A00%2B00%3A00&id_prefix=019a": lambda c: c.list_runs(
        limit=5, submitted_after=datetime(2026, 2, 18, 12, tzinfo=UTC), id_prefix="019a"
    ),
    "/runs?cursor=&submitted_before=1771416000": lambda c: c.list_runs_vnext(submitted_before=1771416000),
    "/jobs?limit=50&submitted_after=2026-02-18T12%3A00%3A00%2B00%3A00&submitted_before=2026-02-19": lambda c: (
        c.list_jobs(submitted_after=datetime(2026, 2, 18, 12), submitted_before="2026-02-19")  # noqa: DTZ001
    ),
    "/runs/r/tasks": lambda c: c.get_tasks("r"),
    "/runs/r/explain": lambda c: c.explain_run("r"),
    "/runs?status=FAILED&tags=a&tags=b&limit=5": lambda c: c.list_runs("FAILED", tags=["a", "b"], limit=5),
    "/runs?cursor=": lambda c: c.list_runs_vnext(),
    "/runs?cursor=c&updated_after=1.5": lambda c: c.list_runs_vnext(updated_after=1.5, cursor="c"),
    "/runs/r/logs?since_token=t&limit=2&wait_sec=5": lambda c: c.get_run_logs("r", "t", limit=2, wait_sec=5),
    "/runs/r/logs?tail=1": lambda c: c.get_run_logs("r", tail=1),
    "/workers?include_hidden=true": lambda c: c.list_workers(include_hidden=True),
    "/dlq?reason=expired&cursor=c": lambda c: c.list_dead_letters("expired", cursor="c"),
    "/wheels": lambda c: c.list_wheels(),
    "/wheels/history?limit=5&action=upload": lambda c: c.list_wheel_history(5, action="upload"),
    "/executions/e?at=7&include=graph": lambda c: c.get_execution("e", 7, "graph"),
    "/executions?status=ACTIVE&graphId=g&archived=false": lambda c: c.list_executions("ACTIVE", "g", False),
    "/executions?limit=5&cursor=c": lambda c: c.list_executions(limit=5, cursor="c"),
    "/executions/e/events?limit=5": lambda c: c.list_events("e", 5, ""),
    "/executions/e/events?order=desc&nodeId=a+b&cursor=c": lambda c: c.list_events(
        "e", cursor="c", order="desc", node_id="a b"
    ),
    "/waits?graphId=g&executionId=e": lambda c: c.list_waits("g", "e"),
    "/graphs/100%25%20%E6%A7%8B": lambda c: c.get_graph("100% 構"),
    "/graphs?q=rel": lambda c: c.list_graphs("rel"),
    "/gui/strategies": lambda c: c.list_strategies(tags_any=[]),
    "/gui/strategies?q=50%25&tags_any=fx%2Cdaily&health=unknown&instrument=USDJPY&enabled=on&page=2": lambda c: (
        c.list_strategies("50%", ["fx", "daily"], "unknown", ["USDJPY"], enabled="on", page=2)
    ),
    "/gui/strategies?sort=id.asc&page_size=10": lambda c: c.list_strategies(sort="id.asc", page_size=10),
    "/gui/strategies/a.b?summary_window_days=7&limit_history=5": lambda c: c.get_strategy("a.b", 7, 5),
    "/pdca/recheck/01KADZ2F8M": lambda c: c.get_recheck("01KADZ2F8M"),
    "/jobs/j": lambda c: c.get_job("j"),
    "/jobs?tag=urgent&limit=50": lambda c: c.list_jobs(tags="urgent", next_token=""),
    "/jobs?tag=a&tag=b%2Cc&status=failed&limit=2&nextToken=t": lambda c: c.list_jobs(
        tags=["a", "b,c"], status="failed", limit=2, next_token="t"
    ),
    "/jobs/j/logs?sinceToken=t&limit=10&task=load&level=INFO&waitSec=5": lambda c: c.job_logs(
        "j", since_token="t", limit=10, task="load", level="INFO", wait_sec=5
    ),
    "/jobs/j/logs?limit=1000": lambda c: c.job_logs("j", since_token="", wait_sec=0),
    "/jobs/j/tags": lambda c: c.job_tags("j"),
    "/tags?limit=100": lambda c: c.list_tags(),
    "/tags?prefix=urg&limit=5&nextToken=t": lambda c: c.list_tags("urg", 5, next_token="t"),
}


@pytest.mark.parametrize("target", READS)
async def test_a_read_is_a_get_without_a_key(target: str) -> None:
    request = await sent(READS[target])

    assert line(request) == f"GET {target}"
    assert "idempotency-key" not in request.headers


ERROR = {"code": "ERR", "message": "why"}
NODE = "POST /executions/e/nodes/n"
CHANGES: list[tuple[str, Any, Send]] = [
    ("POST /runs", {"flow_name": "f", "params": {}}, lambda c, **key: c.submit_run("f", **key)),
    (
        "POST /runs",
        {"flow_name": "f", "params": {"name": "日本"}, "tag": "gpu", "tags": ["a", "b"], "timeout_sec": 90.5},
        lambda c, **key: c.submit_run("f", {"name": "日本"}, "gpu", ("a", "b"), 90.5, **key),
    ),
    ("POST /runs/r/cancel", None, lambda c, **key: c.cancel_run("r", **key)),
    ("POST /runs/r/cancel", {"reason": "no"}, lambda c, **key: c.cancel_run("r", reason="no", **key)),
    ("PATCH /workers/w", {"hidden": True}, lambda c, **key: c.patch_worker("w", True, **key)),
    ("POST /dlq/7/replay", None, lambda c, **key: c.replay_dead_letter(7, **key)),
    ("DELETE /wheels/a.whl", None, lambda c, **key: c.delete_wheel("a.whl", **key)),
    ("POST /executions", {"graphId": "g", "input": {}}, lambda c, **key: c.create_execution("g", **key)),
    (
        "POST /executions",
        {"graphId": "g", "input": {"n": 1}, "tag": "gpu"},
        lambda c, **key: c.execute("g", {"n": 1}, "gpu", **key),
    ),
    ("POST /executions/e/start", {}, lambda c, **key: c.start_execution("e", **key)),
    ("POST /executions/e/cancel", {}, lambda c, **key: c.cancel_execution("e", **key)),
    ("POST /executions/e/cancel", {"reason": "no"}, lambda c, **key: c.cancel_execution("e", "no", **key)),
    ("POST /executions/e/archive", {}, lambda c, **key: c.archive_execution("e", **key)),
    ("POST /executions/e/complete", {}, lambda c, **key: c.complete_execution("e", **key)),
    ("POST /executions/e/fail", {"error": ERROR}, lambda c, **key: c.fail_execution("e", "ERR", "why", **key)),
    (
        "POST /executions:claim",
        {"graphIds": ["g"], "workerId": "w", "waitSec": 20.0, "leaseSec": 60.0},
        lambda c, **key: c.claim_node("g", "w", **key),
    ),
    (f"{NODE}/start", {"workerId": "w"}, lambda c, **key: c.start_node("e", "n", worker_id="w", **key)),
    (
        f"{NODE}/progress",
        {"progress": 42, "message": "half", "leaseSec": 9},
        lambda c, **key: c.report_progress("e", "n", 42, "half", lease_sec=9, **key),
    ),
    (
        f"{NODE}/wait",
        {"waitKey": "k", "prompt": ["sure?"], "timeoutSec": 60},
        lambda c, **key: c.put_waiting("e", "n", "k", ["sure?"], 60, **key),
    ),
    (
        f"{NODE}/resume",
        {"resumeKey": "k", "answer": "yes", "attempt": 2},
        lambda c, **key: c.resume_node("e", "n", "k", "yes", 2, **key),
    ),
    (f"{NODE}/success", {"output": [1], "attempt": 2}, lambda c, **key: c.succeed_node("e", "n", [1], 2, **key)),
    (f"{NODE}/fail", {"error": ERROR}, lambda c, **key: c.fail_node("e", "n", "ERR", "why", **key)),
    ("PUT /graphs/g?expectedVersion=0", {"title": None}, lambda c, **key: c.put_graph("g", {"title": None}, 0, **key)),
    ("POST /jobs", {"parameters": {}}, lambda c, **key: c.submit_job(**key)),
    (
        "POST /jobs",
        {"parameters": {"x": 1}, "tags": ["urgent"], "flow": "report", "tag": "gpu", "timeout_sec": 60.0},
        lambda c, **key: c.submit_job({"x": 1}, flow="report", tag="gpu", tags="urgent", timeout_sec=60.0, **key),
    ),
    ("DELETE /jobs/j", None, lambda c, **key: c.delete_job("j", **key)),
    ("POST /jobs/j/tags", {"tag": "a/b"}, lambda c, **key: c.add_job_tag("j", "a/b", **key)),
    ("DELETE /jobs/j/tags/a%2Fb%20c", None, lambda c, **key: c.remove_job_tag("j", "a/b c", **key)),
]


@pytest.mark.parametrize(("target", "body", "send"), CHANGES)
async def test_a_change_sends_only_given_fields_and_a_key(target: str, body: Any, send: Send) -> None:
    first, second, given = await sent(send), await sent(send), await sent(send, idempotency_key="mine")

    keys = [request.headers["idempotency-key"] for request in (first, second)]
    assert line(first) == target
    assert json.loads(first.content or b"null") == body
    assert [str(UUID(key, version=4)) for key in keys] == keys
    assert keys[0] != keys[1]
    assert given.headers["idempotency-key"] == "mine"


async def test_files_are_sent_as_multipart_with_their_fields() -> None:
    workflow = await sent(lambda c: c.submit_run_yaml("version: 1\n", "gpu", timeout_sec=90))
    wheel = await sent(lambda c: c.upload_wheel("a.whl", b"bytes", tags=["x", "y"]))

    assert [line(request) for request in (workflow, wheel)] == ["POST /runs/yaml", "POST /wheels"]
    for request, fields in (
        (workflow, ['name="flow_name"', "main", 'name="tag"', "gpu", 'name="timeout_sec"', "90", "version: 1"]),
        (wheel, ['name="replace"', "true", 'name="tags"', "x,y", 'name="wheel"; filename="a.whl"', "bytes"]),
    ):
        body = (await request.aread()).decode()
        assert [field for field in fields if field not in body] == []
        assert request.headers["idempotency-key"]


async def test_a_yaml_graph_is_sent_as_yaml() -> None:
    request = await sent(lambda c: c.put_graph("release", "nodes: [構築]\n"))

    assert request.headers["content-type"] == "application/yaml"
    assert request.content == "nodes: [構築]\n".encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), "\ud800"])
async def test_params_that_are_not_json_are_refused_before_they_are_sent(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        await sent(lambda c: c.submit_run("hello", {"x": value}))


@pytest.mark.parametrize("key", ["", " a", "a ", "a\nb", "é", "x" * 256])
async def test_an_invalid_key_is_refused_before_it_is_sent(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key must be"):
        await sent(lambda c: c.cancel_run("r", idempotency_key=key))


def test_a_resumed_stream_sends_the_last_event_id() -> None:
    first, resumed = build.get_stream("/runs/r/watch", "", since=5.0), build.get_stream("/runs/r/watch", "7")

    assert "Last-Event-ID" not in first.headers
    assert (first.query, resumed.headers["Last-Event-ID"]) == ((("since", "5.0"),), "7")
    assert {request.headers["Accept"] for request in (first, resumed)} == {"text/event-stream"}
    # Compression could delay events.
    assert {request.headers["Accept-Encoding"] for request in (first, resumed)} == {"identity"}


IDS: dict[str, Callable[[Any, str], Any]] = {
    "run_id": lambda c, value: c.get_run(value),
    "job_id": lambda c, value: c.get_job(value),
    "execution_id": lambda c, value: c.get_execution(value),
    "worker_id": lambda c, value: c.patch_worker(value, True),
    "wheel_name": lambda c, value: c.delete_wheel(value),
    "strategy_id": lambda c, value: c.get_strategy(value),
    "request_id": lambda c, value: c.get_recheck(value),
}
HOSTILE = ["", ".", "..", "a/b", "../x", "a\\b", "a?x=1", "a#b", "%2e%2e", "a%2Fx", "a\nb", "a\0b", "\u2028", "a\ud800"]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("name", IDS)
async def test_an_id_that_would_leave_its_segment_is_refused(name: str, hostile: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is not an id"):
        await sent(lambda c: IDS[name](c, hostile))


@pytest.mark.parametrize("hostile", ["", ".", "..", "a/b", "a\nb", "\u2028", "a\ud800"])
async def test_a_name_that_would_leave_its_segment_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="node_id is not a name"):
        await sent(lambda c: c.start_node("e", hostile))
    with pytest.raises(ValueError, match="graph_id is not a name"):
        await sent(lambda c: c.get_graph(hostile))


@pytest.mark.parametrize("hostile", ["", ".", "..", "../..", "a/../b", "a\nb", "a\ud800"])
async def test_a_tag_that_would_leave_its_segment_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="tag is not a label"):
        await sent(lambda c: c.remove_job_tag("j", hostile))


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
def test_a_response_of_another_shape_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError):
        build.read_object(body)


def test_pages_and_empty_responses_are_checked() -> None:
    assert build.read_optional_object("") is None
    assert build.read_nothing("") is None
    for read, body in ((build.read_page(), "{}"), (build.read_nothing, "<html>"), (build.read_array, "{}")):
        with pytest.raises(ValueError, match="expected"):
            read(body)
