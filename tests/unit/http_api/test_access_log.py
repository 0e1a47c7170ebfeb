"""The access log: one line per request with the fields of the contract, no secrets, level and sampling."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.types import Message

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.ulid import Ulid
from pyoco_server.errors import RunNotFound
from pyoco_server.http_api.middleware.access_log import AccessLog, set_pdca_request
from pyoco_server.http_api.middleware.hosts import HostCheck
from pyoco_server.http_api.middleware.requests import RequestMiddleware, request_durations
from pyoco_server.http_api.responses import problems
from pyoco_server.log_context import current_request_id

PDCA = Ulid("01J8TPZ7YJ1E1X4C5N9ZP3M3QJ")
NEW = "01J8TPZ7YJ1E1X4C5N9ZP3M3QA"
SECRET = "hunter2-secret"


class Ticks:
    """A clock on which each look takes a millisecond."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def app_of(access: AccessLog) -> FastAPI:
    app = FastAPI()
    problems.install(app)

    @app.get("/runs/{run_id}")
    async def get_run(run_id: str, request: Request) -> str | None:
        request.scope["caller"] = Caller(name="key-1")
        logging.getLogger("a.route").warning("within the request")
        return current_request_id()

    @app.get("/pdca/recheck/{request_id}")
    async def get_recheck(request_id: str, request: Request) -> str:
        set_pdca_request(request, PDCA)
        return request_id

    @app.get("/missing")
    async def missing() -> None:
        raise RunNotFound(run_id="r1")

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("a bug")

    app.add_middleware(
        RequestMiddleware,
        new_id=lambda: NEW,
        now=Ticks(),
        durations=request_durations(),
        hosts=HostCheck(NatsBackendConfig()),
        max_body_bytes=1000,
        body_limits={},
        access=access,
    )
    return app


async def get(path: str, access: AccessLog, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app_of(access), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """The lines about requests, as their fields."""
    caplog.set_level(logging.DEBUG)

    def found() -> list[dict[str, Any]]:
        return [record.__dict__ for record in caplog.records if record.getMessage().startswith("request")]

    return found


ON = AccessLog(logging.INFO)


async def test_a_request_has_one_line_with_the_fields_of_the_contract(lines: Any) -> None:
    await get("/runs/r-1", ON)

    (line,) = lines()
    assert line["msg"] == "request"
    assert (line["x_request_id"], line["client_id"], line["method"]) == (NEW, "key-1", "GET")
    assert (line["endpoint"], line["http_status"]) == ("/runs/{run_id}", 200)
    assert 0 < line["latency_ms"] < 50
    assert "request_id" not in line


async def test_the_line_of_a_pdca_request_has_its_id(lines: Any) -> None:
    await get("/pdca/recheck/any", ON)

    assert lines()[0]["request_id"] == PDCA
    assert lines()[0]["client_id"] == "anonymous"


async def test_no_secret_of_a_hostile_request_is_in_its_line(lines: Any) -> None:
    await get(
        f"/runs/{SECRET}?api_key={SECRET}&ticket={SECRET}", ON, X_API_Key=SECRET, Authorization=f"Bearer {SECRET}"
    )
    await get(f"/nowhere/{'x' * 300}?token={SECRET}", ON, Cookie=SECRET, X_Request_Id=SECRET, X_Correlation_Id="c-1")

    assert len(lines()) == 2
    assert SECRET not in repr(lines())


@pytest.mark.parametrize(("path", "message", "status"), [("/missing", "rejected", 404), ("/broken", "failed", 500)])
async def test_a_refused_and_a_failed_request_have_one_line_with_error_id_and_access_fields(
    path: str, message: str, status: int, lines: Any
) -> None:
    await get(path, ON)

    (line,) = lines()
    assert line["msg"] == f"request {message}"
    assert (line["x_request_id"], line["endpoint"], line["http_status"]) == (NEW, path, status)
    assert line["err_id"].startswith("ERR-PYOCO-")


async def test_a_flood_of_refused_requests_still_has_a_line_each(lines: Any) -> None:
    app = app_of(ON)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for _ in range(30):
            await client.get("/missing")

    assert len(lines()) == 30
    assert {line["http_status"] for line in lines()} == {404}


async def test_sampling_leaves_out_successes_and_no_errors(lines: Any) -> None:
    chances = iter([0.1, 0.9, 0.5])
    access = AccessLog(logging.INFO, sample=0.5, chance=lambda: next(chances))

    for _ in range(3):
        await get("/runs/r-1", access)
    await get("/missing", access)

    assert [line["http_status"] for line in lines()] == [200, 404]


async def test_without_an_access_log_a_refused_request_keeps_its_line(lines: Any) -> None:
    off = AccessLog.of(NatsBackendConfig(access_log_level="OFF"))

    await get("/runs/r-1", off)
    await get("/missing", off)

    assert [line["msg"] for line in lines()] == ["request rejected"]


async def test_the_level_is_a_setting(lines: Any) -> None:
    await get("/runs/r-1", AccessLog.of(NatsBackendConfig(access_log_level="DEBUG")))

    assert lines()[0]["levelno"] == logging.DEBUG


async def test_the_id_is_known_within_the_request_only() -> None:
    response = await get("/runs/r-1", ON)

    assert response.json() == NEW
    assert current_request_id() is None


async def test_a_websocket_that_is_closed_before_it_opens_is_answered_with_its_id() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/nowhere",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "extensions": {"websocket.http.response": {}},
    }
    await app_of(ON)(scope, receive, send)

    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 403)
    assert (b"x-request-id", NEW.encode()) in sent[0]["headers"]
