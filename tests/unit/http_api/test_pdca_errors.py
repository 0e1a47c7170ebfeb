"""Errors of `/pdca` and `/gui`: one fixed body, one fixed catalogue, and nothing of the installation."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    BrokerUnavailable,
    EngineDown,
    HostRefused,
    IdempotencyConflict,
    InvalidApiKey,
    InvalidLink,
    InvalidRequest,
    InvalidToken,
    PreconditionFailed,
    RateLimited,
    RequestTooLarge,
    ScopeMissing,
    StrategyNotFound,
    catalogue,
)
from pyoco_server.http_api.middleware.hosts import HostCheck
from pyoco_server.http_api.middleware.requests import SMALL_BODY_BYTES, RequestMiddleware, request_durations
from pyoco_server.http_api.responses import problems
from pyoco_server.http_api.responses.problems import PdcaProblem

SECRET = "postgres://user:secret@10.0.0.7/airflow"
Raised: dict[str, Callable[[], Exception]] = {}


def client() -> httpx.AsyncClient:
    app = FastAPI()
    problems.install(app)
    app.state.challenge = "Bearer"
    app.add_middleware(
        RequestMiddleware,
        new_id=lambda: "new-id",
        now=time.monotonic,
        durations=request_durations(),
        hosts=HostCheck(NatsBackendConfig()),
        max_body_bytes=1_000_000,
        body_limits={},
    )

    @app.post("/pdca/{name}")
    async def pdca(name: str) -> None:
        raise Raised[name]()

    @app.post("/pdca/echo/body")
    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def answer(error: Exception, **headers: str) -> httpx.Response:
    Raised["x"] = lambda: error
    async with client() as opened:
        return await opened.post("/pdca/x", headers=headers)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequest("window is invalid"), 400, "BAD_REQUEST"),
        (RequestTooLarge("too large"), 400, "BAD_REQUEST"),
        (PreconditionFailed(), 400, "BAD_REQUEST"),
        (HostRefused(), 400, "BAD_REQUEST"),
        (HTTPException(415, "no"), 400, "BAD_REQUEST"),
        (InvalidToken(), 401, "UNAUTHORIZED"),
        (InvalidApiKey(), 401, "UNAUTHORIZED"),
        (ScopeMissing(), 403, "FORBIDDEN"),
        (InvalidLink(), 403, "FORBIDDEN"),
        (StrategyNotFound(), 404, "NOT_FOUND"),
        (IdempotencyConflict(), 409, "IDEMPOTENCY_CONFLICT"),
        (RateLimited(retry_after_sec=11.2), 429, "RATE_LIMITED"),
        (EngineDown(SECRET), 502, "AIRFLOW_DOWN"),
        (BrokerUnavailable(SECRET), 500, "INTERNAL_ERROR"),
        (ZeroDivisionError(SECRET), 500, "INTERNAL_ERROR"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_an_error_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    response = await answer(error)

    assert (response.status_code, response.json()["error"]) == (status, code)
    assert SECRET not in response.text
    PdcaProblem.model_validate(response.json())


async def test_every_error_of_the_catalogue_has_one_of_the_codes_in_both_languages() -> None:
    for kind in catalogue():
        for language in ("en", "ja"):
            response = await answer(
                kind(SECRET) if kind.kind.value in ("internal", "unavailable") else kind(),
                **{"Accept-Language": language},
            )

            PdcaProblem.model_validate(response.json())
            assert 1 <= len(response.json()["message"]) <= problems.MAX_MESSAGE_CHARS
            assert SECRET not in response.text


async def test_only_a_limited_rate_says_when_to_try_again_in_the_body() -> None:
    limited = await answer(RateLimited(retry_after_sec=11.2))
    away = await answer(BrokerUnavailable())

    assert (limited.headers["retry-after"], limited.json()["retry_after"]) == ("12", 12)
    assert (away.headers["retry-after"], "retry_after" in away.json()) == (problems.RETRY_AFTER_SEC, False)


async def test_a_message_is_in_the_language_of_the_request() -> None:
    english = (await answer(BrokerUnavailable())).json()["message"]
    japanese = (await answer(BrokerUnavailable(), **{"Accept-Language": "ja"})).json()["message"]

    assert english == "temporarily unavailable; send the request again in a moment"
    assert japanese == "一時的に利用できません。少し待って再送してください"


@pytest.mark.parametrize("path", ["/pdca", "/pdca/", "/pdca/a/b", "/gui", "/gui/nothing"])
async def test_an_unknown_path_is_an_error_of_this_dialect(path: str) -> None:
    async with client() as opened:
        response = await opened.post(path)

    assert (response.status_code, response.json()["error"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/pdcax", "/runs/pdca", "/guide"])
async def test_other_paths_keep_their_dialect(path: str) -> None:
    async with client() as opened:
        assert "err_id" in (await opened.get(path)).json()


async def test_a_wrong_method_is_a_bad_request_with_405() -> None:
    async with client() as opened:
        response = await opened.put("/pdca/x")

    assert (response.status_code, response.json()["error"]) == (405, "BAD_REQUEST")
    assert response.headers["allow"] == "POST"


async def test_a_body_above_64_kb_is_a_bad_request() -> None:
    async with client() as opened:
        largest = await opened.post("/pdca/echo/body", content=bytes(SMALL_BODY_BYTES))
        too_large = await opened.post("/pdca/echo/body", content=bytes(SMALL_BODY_BYTES + 1))
        elsewhere = await opened.post("/echo", content=bytes(SMALL_BODY_BYTES + 1))

    assert (largest.status_code, elsewhere.status_code) == (200, 200)
    assert (too_large.status_code, too_large.json()["error"]) == (400, "BAD_REQUEST")
