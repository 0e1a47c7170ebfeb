"""The check of all responses in integration tests finds what differs from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

from support.conformance import checked, new_violations

RIGHT = {"error": {"code": "EXECUTION_NOT_FOUND", "message": "not found", "details": {"anything": 1}}}
PATH = "/executions/0198"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    new_violations()
    yield
    new_violations()


async def violations_of(answer: ASGIApp, path: str = PATH, method: str = "GET") -> list[str]:
    transport = httpx.ASGITransport(app=checked(answer))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        await client.request(method, path)
    return new_violations()


async def test_a_documented_response_is_right() -> None:
    assert await violations_of(JSONResponse(RIGHT, 404)) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (JSONResponse(RIGHT | {"more": 1}, 404), "more"),
        (JSONResponse({"error": {"code": "X", "message": "y"}}, 404), '"details" is a required property'),
        (JSONResponse({"error": RIGHT["error"] | {"code": 7}}, 404), 'is not of type "string"'),
        (JSONResponse(RIGHT, 418), "this status is not documented"),
        (PlainTextResponse("no", 404), "text/plain is not documented"),
    ],
)
async def test_what_differs_is_found(answer: ASGIApp, expected: str) -> None:
    (found,) = await violations_of(answer)

    assert found.startswith(f"GET {PATH}")
    assert expected in found


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing/here"), ("PUT", PATH), ("GET", "/openapi.json")])
async def test_what_is_not_in_the_document_is_not_checked(method: str, path: str) -> None:
    assert await violations_of(JSONResponse({"any": "thing"}), path, method) == []


async def test_a_body_in_pieces_is_checked_as_a_whole() -> None:
    async def pieces(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"error"', "more_body": True})
        await send({"type": "http.response.body", "body": b': "text"}'})

    (found,) = await violations_of(pieces)

    assert "/error" in found


async def test_a_response_without_a_body_needs_its_status_only() -> None:
    assert await violations_of(Response(status_code=404)) == []
