"""The request middleware: request ids, body limits, cross-site protection and durations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidRequest, RequestTooLarge
from pyoco_server.http_api.middleware.access_log import NO_ROUTE, OTHER_METHOD
from pyoco_server.http_api.middleware.api_metrics import ApiMetrics
from pyoco_server.http_api.middleware.hosts import HostCheck
from pyoco_server.http_api.middleware.requests import BOUNDS, RequestMiddleware, request_durations
from pyoco_server.http_api.responses import problems

Headers = list[tuple[bytes, bytes]]

ULID = b"01J8TPZ7YJ1E1X4C5N9ZP3M3QJ"

OTHER_PAGES = (b"http://evil.example", b"null", b"", b"http://gateway:80")


def edge(app: ASGIApp, **settings: Any) -> RequestMiddleware:
    defaults: dict[str, Any] = {
        "new_id": lambda: "new",
        "now": time.monotonic,
        "durations": request_durations(),
        "api_metrics": ApiMetrics(),
        "hosts": HostCheck(NatsBackendConfig(http_allowed_hosts="gateway,inner")),
        "max_body_bytes": 1000,
        "body_limits": {},
    }
    return RequestMiddleware(app, **(defaults | settings))


def with_host(headers: Headers | None) -> Headers:
    """The headers with a Host, as every client sends one."""
    given = headers or []
    return given if any(name == b"host" for name, _ in given) else [(b"host", b"gateway:8000"), *given]


def app_of() -> FastAPI:
    """An app with a route and the handlers of errors."""
    app = FastAPI()
    problems.install(app)

    @app.get("/runs/{run_id}")
    async def get_run(run_id: str) -> str:
        return run_id

    return app


async def read_all(_scope: Scope, receive: Receive, send: Send) -> None:
    """An app that responds with the size of the request body."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def call(app: ASGIApp, *, headers: Headers | None = None, chunks: Iterable[bytes] = (b"",)) -> list[Message]:
    parts = list(chunks)
    sent: list[Message] = []

    async def receive() -> Message:
        body = parts.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": with_host(headers),
        "app": app_of(),
    }
    await app(scope, receive, send)
    return sent


def request_id_of(messages: list[Message]) -> bytes:
    ids = [value for name, value in messages[0]["headers"] if name == b"x-request-id"]
    assert len(ids) == 1
    first: bytes = ids[0]
    return first


@pytest.mark.parametrize("given", [ULID, ULID.lower(), b"7ZZZZZZZZZZZZZZZZZZZZZZZZZ"])
async def test_a_ulid_is_returned_in_upper_case(given: bytes) -> None:
    messages = await call(edge(read_all), headers=[(b"x-request-id", given)])

    assert request_id_of(messages) == given.upper()


@pytest.mark.parametrize(
    "given",
    [b"", b"abc", ULID[:-1], ULID + b"0", b"8" + ULID[1:], ULID[:-1] + b"U", ULID[:-1] + b" ", "é".encode() * 13],
)
async def test_a_request_id_that_is_no_ulid_is_replaced(given: bytes) -> None:
    messages = await call(edge(read_all), headers=[(b"x-request-id", given)])

    assert request_id_of(messages) == b"new"


async def test_a_request_without_an_id_gets_one_that_the_app_sees() -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["request_id"])
        await read_all(scope, receive, send)

    messages = await call(edge(app))

    assert request_id_of(messages) == b"new"
    assert seen == ["new"]


async def test_the_lifespan_passes_untouched_and_untimed() -> None:
    seen, durations = [], request_durations()

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(dict(scope))

    await edge(app, durations=durations)({"type": "lifespan"}, nothing_to_receive, ignore)

    assert seen == [{"type": "lifespan"}]
    assert observed(durations) == {}


@pytest.mark.parametrize(
    ("declared", "body"),
    [(b"10", b"x" * 10), (b"0" * 5000 + b"3", b"abc"), (b"-5", b"abc")],
    ids=["the limit", "leading zeros", "not a number"],
)
async def test_a_body_within_the_limit_is_accepted(declared: bytes, body: bytes) -> None:
    messages = await call(edge(read_all, max_body_bytes=10), headers=[(b"content-length", declared)], chunks=[body])

    assert messages[1]["body"] == str(len(body)).encode()


@pytest.mark.parametrize("declared", [b"11", b"0" * 5000 + b"11", b"9" * 5000])
async def test_a_body_declared_too_large_is_refused_before_it_is_read(declared: bytes) -> None:
    chunks = iter([b"x" * 11])

    with pytest.raises(RequestTooLarge, match="at most 10 bytes"):
        await call(edge(read_all, max_body_bytes=10), headers=[(b"content-length", declared)], chunks=chunks)


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"3")], [(b"transfer-encoding", b"chunked")]])
async def test_a_body_above_the_limit_is_refused_at_the_first_chunk_beyond_it(headers: Headers) -> None:
    read = []

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        while True:
            read.append(len((await receive())["body"]))

    with pytest.raises(RequestTooLarge):
        await call(edge(app, max_body_bytes=10), headers=headers, chunks=[b"x" * 6, b"x" * 6, b"x" * 6])

    assert read == [6]


async def test_a_stalled_body_times_out_but_a_wait_for_the_disconnect_does_not() -> None:
    parts: list[Message] = [{"type": "http.request", "body": b"12", "more_body": True}]
    disconnected = asyncio.Event()

    async def receive() -> Message:
        if parts:
            return parts.pop()
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def wait_for_disconnect(_scope: Scope, receive: Receive, _send: Send) -> None:
        assert (await receive())["body"] == b"all"
        asyncio.get_running_loop().call_later(0.05, disconnected.set)
        assert (await receive())["type"] == "http.disconnect"

    with pytest.raises(InvalidRequest, match="no more of the body"):
        await edge(read_all, max_body_bytes=10, patience_sec=0.01)(http_scope("POST"), receive, ignore)
    parts.append({"type": "http.request", "body": b"all"})
    await edge(wait_for_disconnect, max_body_bytes=10, patience_sec=0.01)(http_scope("POST"), receive, ignore)


async def test_a_slow_body_times_out_and_a_fast_one_does_not() -> None:
    loop = asyncio.get_running_loop()

    async def receive_slowly() -> Message:
        drop = loop.create_future()
        loop.call_later(0.005, drop.set_result, None)
        await drop
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(InvalidRequest, match="too slowly"):
        await edge(read_all, max_body_bytes=10_000, slow_after_sec=0.01)(http_scope("POST"), receive_slowly, ignore)

    messages = await call(edge(read_all, max_body_bytes=10_000, slow_after_sec=0.0), chunks=[b"x" * 4096] * 2)
    assert messages[1]["body"] == b"8192"


@pytest.mark.parametrize(
    "headers",
    [
        *([(b"sec-fetch-site", site)] for site in (b"cross-site", b"same-site")),
        # Some browsers send the origin only.
        *([(b"host", b"gateway:8000"), (b"origin", page)] for page in OTHER_PAGES),
        [(b"host", b"gateway:8000"), (b"origin", b"https://gateway:8000.evil")],
    ],
)
async def test_a_cross_site_request_changes_nothing(headers: Headers) -> None:
    started, body = await call(edge(read_all), headers=headers, chunks=(b"12345",))

    assert started["status"] == 403
    assert b"ERR-PYOCO-0035" in body["body"]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"sec-fetch-site", b"same-origin")],
        [(b"sec-fetch-site", b"none")],
        [(b"host", b"gateway:8000")],
        [(b"host", b"Gateway:8000"), (b"origin", b"http://gateway:8000")],
        # A proxy may change the host; the browser has compared the original ones.
        [(b"host", b"inner"), (b"origin", b"https://outer"), (b"sec-fetch-site", b"same-origin")],
    ],
)
async def test_programs_and_same_origin_pages_may_change_data(headers: Headers) -> None:
    started, body = await call(edge(read_all), headers=headers, chunks=(b"12345",))

    assert (started["status"], body["body"]) == (200, b"5")


@pytest.mark.parametrize(
    ("method", "path", "most"), [("POST", "/wheels", 20), ("GET", "/wheels", 10), ("POST", "/", 10)]
)
async def test_a_route_may_have_its_own_body_limit(method: str, path: str, most: int) -> None:
    limit = edge(read_all, max_body_bytes=10, body_limits={("POST", "/wheels"): 20})

    async def sending(size: int) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": b"x" * size, "more_body": False}

        await limit(http_scope(method, path), receive, ignore)

    await sending(most)
    with pytest.raises(RequestTooLarge, match=f"at most {most} bytes"):
        await sending(most + 1)


async def websocket_scope(*, query: bytes = b"", headers: Headers | None = None) -> Scope:
    """The scope of a WebSocket as the app receives it, with the sent messages in `sent`."""
    sent: list[Message] = []
    headers = with_host(headers)
    scope: Scope = {"type": "websocket", "path": "/", "query_string": query, "headers": headers, "sent": sent}

    async def accept(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await edge(accept)(scope, receive, send)
    return scope


@pytest.mark.parametrize("page", OTHER_PAGES)
async def test_a_cross_site_page_cannot_open_a_websocket(page: bytes) -> None:
    # Browsers always send the origin of a page that opens a WebSocket.
    headers = [(b"host", b"gateway:8000"), (b"origin", page), (b"sec-fetch-site", b"same-origin")]

    scope = await websocket_scope(headers=headers)

    assert scope["sent"] == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("headers", [[], [(b"host", b"Gateway:8000"), (b"origin", b"https://gateway:8000")]])
async def test_programs_and_same_origin_pages_may_open_a_websocket(headers: Headers) -> None:
    scope = await websocket_scope(headers=headers)

    assert [message["type"] for message in scope["sent"]] == ["websocket.accept"]


async def test_a_websocket_has_request_ids() -> None:
    scope = await websocket_scope(headers=[(b"x-correlation-id", b"c-1")])

    assert (scope["request_id"], scope["correlation_id"]) == ("new", "c-1")
    assert (b"x-request-id", b"new") in scope["sent"][0]["headers"]


@pytest.mark.parametrize(
    ("query", "ticket", "left"),
    [
        (b"", None, b""),
        (b"tail=5", None, b"tail=5"),
        (b"ticket=abc", "abc", b""),
        (b"tail=5&ticket=abc&logs=false", "abc", b"tail=5&logs=false"),
        (b"%74icket=a%62c&x", "abc", b"x="),
        (b"ticket=", "", b""),
        (b"ticket=abc&ticket=abc", "", b""),
    ],
)
async def test_a_ticket_is_removed_from_the_url(query: bytes, ticket: str | None, left: bytes) -> None:
    scope = await websocket_scope(query=query)

    assert (scope.get("ticket"), scope["query_string"]) == (ticket, left)


class Stopwatch:
    """A clock that advances only by assignment."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at


async def nothing_to_receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def ignore(_message: Message) -> None:
    return None


def http_scope(method: str = "GET", path: str = "/runs/7") -> Scope:
    headers = with_host([])
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers, "root_path": ""}


def observed(durations: Histogram) -> dict[tuple[str, str, str], float]:
    """The number of requests by route, method and class of status."""
    (family,) = durations.collect()
    counts = [sample for sample in family.samples if sample.name.endswith("_count")]
    return {(s.labels["route"], s.labels["method"], s.labels["status"]): s.value for s in counts}


async def labels_of(*scopes: Scope) -> list[tuple[str, str, str]]:
    durations = request_durations()
    timed = edge(app_of(), durations=durations)
    for scope in scopes:
        await timed(scope, nothing_to_receive, ignore)
    return [*observed(durations)]


async def test_a_request_is_counted_under_the_template_of_its_route() -> None:
    assert await labels_of(http_scope(path="/runs/7"), http_scope(path="/runs/8")) == [("/runs/{run_id}", "GET", "2xx")]


async def test_unknown_paths_share_one_label() -> None:
    assert await labels_of(http_scope(path="/a"), http_scope(path='/b"\n')) == [(NO_ROUTE, "GET", "4xx")]


async def test_unknown_methods_share_one_label() -> None:
    assert await labels_of(http_scope("BREW"), http_scope("WHEN"), http_scope("PUT")) == [
        ("/runs/{run_id}", OTHER_METHOD, "4xx"),
        ("/runs/{run_id}", "PUT", "4xx"),
    ]


async def test_a_stream_is_timed_until_its_first_byte() -> None:
    watch, durations = Stopwatch(), request_durations()

    async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
        watch.at += 0.25
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(3):
            watch.at += 3600
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    await edge(stream, durations=durations, now=watch.now)(http_scope(), nothing_to_receive, ignore)

    (family,) = durations.collect()
    buckets = {sample.labels["le"]: sample.value for sample in family.samples if "le" in sample.labels}
    assert {bound: buckets[str(bound)] for bound in BOUNDS} == {bound: float(bound >= 0.25) for bound in BOUNDS}


async def test_an_exception_counts_as_a_500_and_is_raised() -> None:
    durations = request_durations()

    async def faulty(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await edge(faulty, durations=durations)(http_scope(), nothing_to_receive, ignore)

    assert [*observed(durations)] == [(NO_ROUTE, "GET", "5xx")]


async def test_a_request_that_outlasts_the_shutdown_is_answered_503_and_not_500() -> None:
    waits = asyncio.Event()

    async def waiting(_scope: Scope, _receive: Receive, _send: Send) -> None:
        waits.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(call(edge(waiting)))
    await waits.wait()
    task.cancel()
    sent = await task

    assert sent[0]["status"] == 503
    assert orjson.loads(sent[1]["body"])["err_id"] == "ERR-PYOCO-0064"


async def test_a_cancelled_stream_ends_without_a_second_response() -> None:
    waits, sent = asyncio.Event(), []

    async def streaming(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        waits.set()
        await asyncio.Event().wait()

    async def send(message: Message) -> None:
        sent.append(message["type"])

    task = asyncio.create_task(edge(streaming)(http_scope(), nothing_to_receive, send))
    await waits.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert sent == ["http.response.start"]
