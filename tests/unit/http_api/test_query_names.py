"""Unknown query parameters are refused by name on every route, but for probes and pages."""

from __future__ import annotations

from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI, Query
from fastapi.routing import APIRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidListQuery, InvalidLogQuery, InvalidRequest, InvalidWorkersRequest
from pyoco_server.http_api import create_app
from pyoco_server.http_api.protocol import query_names
from pyoco_server.http_api.protocol.fields import Strict
from pyoco_server.http_api.responses import problems

# The limit of a caller comes before the check, and needs a gateway that runs.
UNLIMITED = NatsBackendConfig(rate_limit_read_per_min=0, rate_limit_write_per_min=0, rate_limit_bulk_per_min=0)
ROUTES = [route for route in create_app(UNLIMITED).router.routes if isinstance(route, APIRoute)]
# To these, probes and browsers add parameters of their own.
OPEN = ("/health", "/ready", "/metrics", "/docs", "/", "/static/{path:path}", "/favicon.ico")
CHECKED = [(method, route.path) for route in ROUTES if route.path not in OPEN for method in sorted(route.methods or ())]


class Asked(Strict):
    plain: int = 0
    named: int = Query(default=0, alias="nextToken")


async def ask(app: FastAPI, method: str, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path)


def errors_in(response: httpx.Response) -> tuple[str, str]:
    """The detail and the error id, in whatever dialect."""
    body = response.json()
    if "error" in body:
        return body["error"]["message"], body["error"]["details"]["errId"]
    return body["detail"], body.get("err_id") or body["errId"]


@pytest.mark.parametrize(("method", "path"), CHECKED)
async def test_every_route_names_a_parameter_that_it_does_not_have(method: str, path: str) -> None:
    response = await ask(create_app(UNLIMITED), method, f"{path}?no_such_name=1")

    if path.startswith(("/pdca", "/gui")):
        assert (response.status_code, response.json()["error"]) == (400, "BAD_REQUEST")
        assert response.json()["message"].startswith("no_such_name: there is no such parameter here; ")
        return
    assert response.status_code == 422
    if method != "HEAD":
        detail, err_id = errors_in(response)
        assert detail.startswith("no_such_name: there is no such parameter here; ")
        assert err_id in {
            error.err_id for error in (InvalidListQuery, InvalidLogQuery, InvalidRequest, InvalidWorkersRequest)
        }
        if method == "GET" and path in ("/runs", "/jobs", "/tags"):
            assert err_id == InvalidListQuery.err_id


def test_the_open_routes_are_the_only_ones_without_the_check() -> None:
    unchecked = {route.path for route in ROUTES if not isinstance(route.app, query_names.QueryCheck)}

    assert unchecked == {path for path in OPEN if path in {route.path for route in ROUTES}}


async def test_parameters_of_functions_dependencies_models_and_documents_are_known() -> None:
    async def dependency(inner: int = 0) -> None:
        return None

    app = FastAPI()
    problems.install(app)

    @app.get("/function", dependencies=[Depends(dependency)])
    async def function(own: int = 0, other: Annotated[int, Query(alias="otherName")] = 0) -> None:
        return None

    @app.get("/model")
    async def model(asked: Annotated[Asked, Query()]) -> None:
        return None

    @app.get("/raw", openapi_extra={"parameters": [{"name": "raw", "in": "query"}, {"name": "head", "in": "header"}]})
    async def raw() -> None:
        return None

    query_names.install(app)

    for known in ("/function?own=1&inner=2&otherName=3", "/model?plain=1&nextToken=2", "/raw?raw", "/raw?", "/raw?&"):
        assert (await ask(app, "GET", known)).status_code == 200, known
    for unknown in ("/function?other=1", "/model?named=1", "/raw?head=1", "/raw?=1", "/raw?raw=1&%00=2", "/raw?Raw=1"):
        response = await ask(app, "GET", unknown)
        assert response.status_code == 422, unknown
    assert (await ask(app, "GET", "/model?named=1")).json()["detail"] == (
        "named: there is no such parameter here; known are nextToken, plain"
    )
