"""What routes depend on is had without a detour."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app


def below(dependant: Dependant) -> Iterator[Dependant]:
    for one in dependant.dependencies:
        yield one
        yield from below(one)


def test_no_dependency_of_a_route_is_sent_to_a_thread() -> None:
    routes = [route for route in create_app(NatsBackendConfig()).router.routes if isinstance(route, APIRoute)]

    plain = {
        (route.path, one.call)
        for route in routes
        for one in below(route.dependant)
        if not inspect.iscoroutinefunction(one.call)
    }

    assert routes
    assert plain == set()
