"""Requests are timed until their answer begins, under labels of which there are few whatever is asked for."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from pyoco_server.http_api.middleware.timing import BOUNDS, NO_ROUTE, OTHER_METHOD, HttpTimes, Timing


class Stopwatch:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at


async def nothing_to_receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def nobody(_message: Message) -> None:
    return None


def asked(method: str = "GET", path: str = "/runs/7") -> Scope:
    headers: list[tuple[bytes, bytes]] = []
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers, "root_path": ""}


def app_with_a_route() -> FastAPI:
    app = FastAPI()

    @app.get("/runs/{run_id}")
    async def get_run(run_id: str) -> str:
        return run_id

    return app


async def labels_of(*scopes: Scope) -> list[tuple[str, str, str]]:
    times = HttpTimes()
    timed = Timing(app_with_a_route(), times, Stopwatch().now)
    for scope in scopes:
        await timed(scope, nothing_to_receive, nobody)
    return [labels for labels, _ in times.histograms()]


async def test_a_request_is_counted_under_the_template_of_its_route() -> None:
    assert await labels_of(asked(path="/runs/7"), asked(path="/runs/8")) == [("/runs/{run_id}", "GET", "2xx")]


async def test_paths_that_lead_nowhere_are_one_label() -> None:
    assert await labels_of(asked(path="/a"), asked(path='/b"\n')) == [(NO_ROUTE, "GET", "4xx")]


async def test_methods_that_nobody_has_heard_of_are_one_label() -> None:
    assert await labels_of(asked("BREW"), asked("WHEN"), asked("PUT")) == [
        ("/runs/{run_id}", OTHER_METHOD, "4xx"),
        ("/runs/{run_id}", "PUT", "4xx"),
    ]


async def test_a_stream_is_timed_until_it_begins() -> None:
    watch, times = Stopwatch(), HttpTimes()

    async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
        watch.at += 0.25
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(3):
            watch.at += 3600
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    await Timing(stream, times, watch.now)(asked(), nothing_to_receive, nobody)

    ((_, found),) = times.histograms()
    assert (found.total, found.seconds, found.counts[BOUNDS.index(0.25)]) == (1, 0.25, 1)


async def test_a_fault_counts_as_an_answer_of_500_and_goes_on_its_way() -> None:
    times = HttpTimes()

    async def faulty(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await Timing(faulty, times, Stopwatch().now)(asked(), nothing_to_receive, nobody)

    assert [labels for labels, _ in times.histograms()] == [(NO_ROUTE, "GET", "5xx")]


async def test_what_is_no_request_passes_untimed() -> None:
    times, seen = HttpTimes(), []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    await Timing(app, times, Stopwatch().now)({"type": "lifespan"}, nothing_to_receive, nobody)

    assert seen == ["lifespan"]
    assert list(times.histograms()) == []
