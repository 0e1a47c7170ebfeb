"""Errors over HTTP: each kind has its status, each answer the catalogue's words in the language that was asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Query, Request
from starlette.types import Message

from pyoco_server.errors import BrokerUnavailable, Kind, PyocoError, RunNotFound, catalogue
from pyoco_server.http_api.middleware.requests import RequestMiddleware, request_durations
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
        max_body_bytes=10_000,
        body_limits={},
    )

    @app.get("/missing")
    async def missing() -> None:
        raise RunNotFound(run_id="r1")

    @app.get("/jobs/missing")
    async def missing_job() -> None:
        raise RunNotFound(run_id="r1")

    @app.get("/away")
    async def away() -> None:
        raise BrokerUnavailable

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

    @app.post("/body")
    async def body(request: Request) -> None:
        await request.body()

    return app


async def get(path: str, method: str = "GET", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(make_app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.request(method, path, headers={key.replace("_", "-"): v for key, v in headers.items()})


def test_every_kind_of_trouble_has_a_status_of_its_own() -> None:
    assert set(problems.STATUS) == set(Kind)
    assert len(set(problems.STATUS.values())) == len(Kind)


@pytest.mark.parametrize("error", catalogue(), ids=lambda error: error.__name__)
@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_error_of_the_catalogue_has_a_body_that_can_be_sent(error: type[PyocoError], language: str) -> None:
    body = problems.RUNS.body(error(), language, 404, "/runs")

    assert body.keys() == {"detail", "err_id", "msg_id", "message", "hint"}
    assert all(isinstance(value, str) and value for value in body.values())


async def test_an_error_of_the_catalogue_is_told_in_its_words() -> None:
    answer = await get("/missing")

    assert answer.status_code == 404
    assert answer.json() == {
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
    answer = (await get("/missing", accept_language=accepted)).json()

    assert answer["message"] == (RunNotFound.message_ja if japanese else RunNotFound.message())
    assert answer["hint"] == (RunNotFound.hint_ja if japanese else RunNotFound.hint)


async def test_under_jobs_an_error_is_a_problem_document() -> None:
    told = await get("/jobs/missing", **{"Accept-Language": "ja"})

    assert (told.status_code, told.headers["content-type"]) == (404, "application/problem+json")
    assert told.json() == {
        "type": "urn:pyoco:error:ERR-PYOCO-0005",
        "title": RunNotFound.message_ja,
        "status": 404,
        "detail": "run not found",
        "instance": "/jobs/missing",
        "code": "EXECUTION_NOT_FOUND",
        "errId": "ERR-PYOCO-0005",
        "msgId": "MSG-PYOCO-0005",
        "hint": RunNotFound.hint_ja,
    }


async def test_under_jobs_the_frameworks_own_errors_are_told_so_too() -> None:
    told = await get("/jobs/missing/nothing")

    assert (told.status_code, told.json()["status"], told.json()["code"]) == (404, 404, "ROUTE_NOT_FOUND")


async def test_an_absent_broker_is_a_503_that_says_when_to_come_back() -> None:
    answer = await get("/away")

    assert answer.status_code == 503
    assert answer.headers["retry-after"].isdigit()
    assert answer.json()["err_id"] == "ERR-PYOCO-0003"


async def test_only_a_503_says_when_to_come_back() -> None:
    assert "retry-after" not in (await get("/missing")).headers


async def test_a_rejected_request_leaves_one_log_line_with_its_error_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await get("/missing")

    (line,) = [record.__dict__ for record in caplog.records if record.message == "request rejected"]
    assert (line["err_id"], line["run_id"], line["status"]) == ("ERR-PYOCO-0005", "r1", 404)
    assert (line["path"], line["request_id"]) == ("/missing", "new-id")


async def test_a_fault_of_ours_is_a_500_that_tells_nothing_of_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = await get("/broken", X_Request_Id="asked-with-this")

    assert answer.status_code == 500
    assert answer.json()["err_id"] == "ERR-PYOCO-0034"
    assert SECRET not in answer.text
    told = [record for record in caplog.records if record.message == "request failed"]
    assert [record.__dict__["request_id"] for record in told] == ["asked-with-this"]
    assert told[0].exc_info is not None


@pytest.mark.parametrize("path", ["/missing", "/away", "/broken", "/teapot", "/nowhere", "/else"])
async def test_every_answer_carries_the_request_id(path: str) -> None:
    assert (await get(path, X_Request_Id="asked-with-this")).headers["x-request-id"] == "asked-with-this"


async def test_a_path_that_is_not_there_is_a_404_of_its_own() -> None:
    answer = await get("/nowhere")

    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0033")
    assert "/nowhere" in answer.json()["detail"]


async def test_a_method_that_is_not_there_says_which_are() -> None:
    answer = await get("/missing", method="DELETE")

    assert (answer.status_code, answer.json()["err_id"]) == (405, "ERR-PYOCO-0002")
    assert answer.headers["allow"] == "GET"


async def test_the_status_and_headers_of_the_frameworks_errors_stay() -> None:
    answer = await get("/teapot")

    assert (answer.status_code, answer.headers["x-spout"]) == (418, "yes")
    assert answer.json()["detail"] == "short and stout"


@pytest.mark.parametrize(("path", "err_id"), [("/runs?limit=0", "ERR-PYOCO-0017"), ("/else?limit=0", "ERR-PYOCO-0002")])
async def test_a_bad_parameter_is_named_and_in_a_list_it_has_the_lists_id(path: str, err_id: str) -> None:
    answer = await get(path)

    assert (answer.status_code, answer.json()["err_id"]) == (422, err_id)
    assert answer.json()["detail"].startswith("limit: ")


def test_of_many_findings_five_are_told() -> None:
    findings = [{"loc": ("body", "params", n), "msg": "wrong"} for n in range(9)]

    told = problems.describe(findings)

    assert told.split("; ") == [f"params.{n}: wrong" for n in range(5)]


async def test_a_caller_that_hangs_up_in_its_body_is_no_fault_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    words: Iterator[Message] = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> Message:
        return next(words)

    async def send(_message: Message) -> None:
        """Nobody is there to read it."""

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
