"""Dependencies of routes run on the event loop, and list queries are bounded."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.protocol.query_names import MOST_GIVEN

JOB_ID = "018f0000-0000-7000-8000-000000000000"


def dependencies_of(dependant: Dependant) -> Iterator[Dependant]:
    for one in dependant.dependencies:
        yield one
        yield from dependencies_of(one)


def test_no_dependency_of_a_route_runs_in_a_thread() -> None:
    routes = [route for route in create_app(NatsBackendConfig()).router.routes if isinstance(route, APIRoute)]

    plain = {
        (route.path, one.call)
        for route in routes
        for one in dependencies_of(route.dependant)
        if not inspect.iscoroutinefunction(one.call)
    }

    assert routes
    assert plain == set()


@pytest.mark.parametrize("path", ["/jobs", "/tags", "/runs", f"/jobs/{JOB_ID}/logs", f"/jobs/{JOB_ID}/logs/stream"])
async def test_a_query_with_too_many_names_is_refused_before_parsing(path: str) -> None:
    transport = httpx.ASGITransport(create_app(NatsBackendConfig()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get(path, params={f"name{number}": "" for number in range(MOST_GIVEN + 1)})

    assert response.status_code == 422
    assert f"at most {MOST_GIVEN} are accepted" in response.json()["detail"]
