"""Errors over HTTP: a status per kind, and texts of the catalogue in the requested language."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Query, Request
from starlette.types import Message

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    BrokerUnavailable,
    InvalidRequest,
    Kind,
    PyocoError,
    RunNotFound,
    TooManyWatchers,
    catalogue,
)
from pyoco_server.http_api.api.runs.schemas import RunSubmitRequest
from pyoco_server.http_api.middleware.api_metrics import ApiMetrics
from pyoco_server.http_api.middleware.hosts import HostCheck
from pyoco_server.http_api.middleware.requests import RequestMiddleware, request_durations
from pyoco_server.http_api.protocol.request_parsing import read
from pyoco_server.http_api.responses import problems

SECRET = "postgres://user:secret@host"


def make_app() -> FastAPI:
    app = FastAPI()
    problems.install(app)
    app.add_middleware(
        RequestMiddleware,
        new_id=lambda: "new-id",
        now=time.monotonic,
        durations=request_durations(),
        api_metrics=ApiMetrics(),
        hosts=HostCheck(NatsBackendConfig()),
        max_body_bytes=10_000,
        body_limits={},
    )

    @app.get("/missing")
    async def missing() -> None:
        raise RunNotFound(run_id="r1")

    @app.get("/jobs/missing")
    async def missing_job() -> None:
        raise RunNotFound(run_id="r1")

    @app.get("/offline")
    async def offline() -> None:
        raise BrokerUnavailable

    @app.get("/too-many-streams")
    async def too_many_streams() -> None:
        raise TooManyWatchers

    @app.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError(SECRET)

    @app.get("/teapot")
    async def teapot() -> None:
        raise HTTPException(418, "short and stout", headers={"X-Spout": "yes"})

    @app.get("/runs")
    async def runs(limit: Annotated[int, Query(ge=1)]) -> None:
        return None

    @app.get("/else")
    async def something_else(limit: Annotated[int, Query(ge=1)]) -> None:
        return None

    @app.put("/body")
    async def put_body() -> None:
        return None

    @app.post("/body")
    async def body(request: Request) -> None:
        await request.body()

    return app


async def get(path: str, method: str = "GET", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(make_app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, headers={key.replace("_", "-"): v for key, v in headers.items()})


def test_every_error_kind_has_its_own_status() -> None:
    assert set(problems.STATUS) == set(Kind)
    assert len(set(problems.STATUS.values())) == len(Kind)


@pytest.mark.parametrize("error", catalogue(), ids=lambda error: error.__name__)
@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_error_of_the_catalogue_has_a_valid_body(error: type[PyocoError], language: str) -> None:
    body = problems.RUNS.body(error(), language, 404, "/runs")

    assert body.keys() == {"detail", "err_id", "msg_id", "message", "hint"}
    assert all(isinstance(value, str) and value for value in body.values())


async def test_an_error_response_has_the_text_of_the_catalogue() -> None:
    response = await get("/missing")

    assert response.status_code == 404
    assert response.json() == {
        "detail": "run not found",
        "err_id": "ERR-PYOCO-0005",
        "msg_id": "MSG-PYOCO-0005",
        "message": RunNotFound.message(),
        "hint": RunNotFound.hint,
    }


@pytest.mark.parametrize(
    ("accepted", "japanese"),
    [
        ("ja", True),
        ("ja-JP,ja;q=0.9,en;q=0.8", True),
        ("JA", True),
        ("fr, ja;q=0.8, en;q=0.5", True),
        ("en;q=0.3, ja;q=0.7", True),
        ("en; q=0.3, ja ; q=0.7", True),
        ("en-US,en;q=0.9,ja;q=0.8", False),
        ("fr", False),
        ("", False),
        ("jam", False),
        ("ja;q=0", False),
        ("en;q=x, ;;,=", False),
    ],
)
async def test_the_caller_chooses_the_language(accepted: str, japanese: bool) -> None:
    response = (await get("/missing", accept_language=accepted)).json()

    assert response["message"] == (RunNotFound.message_ja if japanese else RunNotFound.message())
    assert response["hint"] == (RunNotFound.hint_ja if japanese else RunNotFound.hint)


async def test_under_jobs_an_error_is_a_problem_document() -> None:
    response = await get("/jobs/missing", **{"Accept-Language": "ja"})

    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
    assert response.json() == {
        "type": "urn:pyoco:error:ERR-PYOCO-0005",
        "title": RunNotFound.message_ja,
        "status": 404,
        "detail": RunNotFound.message_ja,
        "instance": "/jobs/missing",
        "code": "EXECUTION_NOT_FOUND",
        "errId": "ERR-PYOCO-0005",
        "msgId": "MSG-PYOCO-0005",
        "hint": RunNotFound.hint_ja,
    }


async def test_under_jobs_framework_errors_are_problem_documents() -> None:
    response = await get("/jobs/missing/nothing")

    assert (response.status_code, response.json()["status"], response.json()["code"]) == (404, 404, "ROUTE_NOT_FOUND")


async def test_an_unavailable_broker_is_a_503_with_retry_after() -> None:
    response = await get("/offline")

    assert response.status_code == 503
    assert response.headers["retry-after"].isdigit()
    assert response.json()["err_id"] == "ERR-PYOCO-0003"


async def test_only_a_503_has_retry_after() -> None:
    assert "retry-after" not in (await get("/missing")).headers


async def test_a_rejected_request_leaves_one_log_line_with_its_error_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await get("/missing")

    (line,) = [record.__dict__ for record in caplog.records if record.message == "request rejected"]
    assert (line["err_id"], line["run_id"], line["http_status"]) == ("ERR-PYOCO-0005", "r1", 404)
    assert (line["path"], line["x_request_id"]) == ("/missing", "new-id")


async def test_a_refused_stream_is_logged_as_a_rejected_request(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        response = await get("/too-many-streams")

    assert (response.status_code, response.headers["retry-after"].isdigit()) == (503, True)
    (line,) = [record for record in caplog.records if record.message.startswith("request ")]
    assert (line.message, line.exc_info) == ("request rejected", None)


async def test_an_internal_error_is_a_500_without_details(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = await get("/broken", X_Request_Id="01J8TPZ7YJ1E1X4C5N9ZP3M3QJ")

    assert response.status_code == 500
    assert response.json()["err_id"] == "ERR-PYOCO-0034"
    assert SECRET not in response.text
    records = [record for record in caplog.records if record.message == "request failed"]
    assert [record.__dict__["x_request_id"] for record in records] == ["01J8TPZ7YJ1E1X4C5N9ZP3M3QJ"]
    assert records[0].exc_info is not None


@pytest.mark.parametrize("path", ["/missing", "/offline", "/broken", "/teapot", "/nowhere", "/else"])
async def test_every_response_has_the_request_id(path: str) -> None:
    assert (await get(path, X_Request_Id="01J8TPZ7YJ1E1X4C5N9ZP3M3QJ")).headers[
        "x-request-id"
    ] == "01J8TPZ7YJ1E1X4C5N9ZP3M3QJ"


async def test_an_unknown_path_has_its_own_404() -> None:
    response = await get("/nowhere")

    assert (response.status_code, response.json()["err_id"]) == (404, "ERR-PYOCO-0033")
    assert "/nowhere" in response.json()["detail"]


async def test_an_unsupported_method_names_the_allowed_ones_of_all_routes_with_the_path() -> None:
    response = await get("/missing", method="DELETE")
    of_two = await get("/body", method="DELETE", Accept_Language="ja")

    assert (response.status_code, response.json()["err_id"]) == (405, "ERR-PYOCO-0002")
    assert response.headers["allow"] == "GET"
    assert response.json()["detail"] == "DELETE is not allowed at /missing; allowed: GET"
    assert "Allow" in response.json()["hint"]
    assert of_two.headers["allow"] == "POST, PUT"
    assert of_two.json()["detail"] == "/body で DELETE は使えません。使えるメソッド: POST, PUT"
    assert "Allow" in of_two.json()["hint"]


async def test_framework_errors_keep_their_status_and_headers() -> None:
    response = await get("/teapot")

    assert (response.status_code, response.headers["x-spout"]) == (418, "yes")
    assert response.json()["detail"] == "short and stout"


@pytest.mark.parametrize(("path", "err_id"), [("/runs?limit=0", "ERR-PYOCO-0017"), ("/else?limit=0", "ERR-PYOCO-0002")])
async def test_an_invalid_parameter_is_named_with_the_error_id_of_its_route(path: str, err_id: str) -> None:
    response = await get(path)

    assert (response.status_code, response.json()["err_id"]) == (422, err_id)
    assert response.json()["detail"].startswith("limit: ")


def test_at_most_five_findings_are_reported() -> None:
    findings = [{"loc": ("body", "params", n), "type": "value_error", "msg": "wrong"} for n in range(9)]

    described = problems.describe(findings)

    assert described.split("; ") == [f"params.{n}: wrong" for n in range(5)]


@pytest.mark.parametrize("body", [b"null", b"[]", b"7"])
def test_a_body_that_is_no_object_is_described_without_names_of_classes(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="a JSON object is required"):
        read(RunSubmitRequest, body)


async def test_a_disconnect_during_the_body_is_no_server_error(caplog: pytest.LogCaptureFixture) -> None:
    words: Iterator[Message] = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> Message:
        return next(words)

    async def send(_message: Message) -> None:
        """The client has disconnected."""

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/body",
        "raw_path": b"/body",
        "query_string": b"",
        "headers": [],
    }
    await make_app()(scope, receive, send)

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
