"""Rejects query parameters that a route does not declare: ignoring one would answer another question.

The names come from the route itself: from the parameters of its function and its dependencies, and from its
`openapi_extra`. A route that reads its query by itself declares it there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.http_api.responses.problems import MAX_PLACE_CHARS, invalid_input

F = TypeVar("F", bound=Callable[..., Any])

# More than the parameters of any route, repeated ones included.
MOST_GIVEN = 256
_ANY = "__pyoco_any_query__"


def accepts_any_query(endpoint: F) -> F:
    """For what probes and scrapers call, which may add parameters of their own."""
    setattr(endpoint, _ANY, True)
    return endpoint


def install(app: FastAPI) -> None:
    """Put the check in front of every route of the API."""
    app.router.routes[:] = [
        _checked(route) if isinstance(route, APIRoute) and not hasattr(route.endpoint, _ANY) else route
        for route in app.router.routes
    ]


def declared_names(route: APIRoute) -> frozenset[str]:
    """The names of the query parameters of a route."""
    extra = (route.openapi_extra or {}).get("parameters", ())
    return frozenset([*_names(route.dependant), *(one["name"] for one in extra if one["in"] == "query")])


class QueryCheck:
    """ASGI app in front of a route."""

    def __init__(self, app: ASGIApp, known: frozenset[str]) -> None:
        self._app = app
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (query := scope["query_string"]) and (fault := self._fault(query)):
            raise invalid_input(scope["method"], scope["path"])(fault)
        await self._app(scope, receive, send)

    def _fault(self, query: bytes) -> str | None:
        count = query.count(b"&") + 1
        if count > MOST_GIVEN:
            return f"the query has {count} parameters; at most {MOST_GIVEN} are accepted"
        for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in self._known:
                known = f"known are {', '.join(sorted(self._known))}" if self._known else "it takes none"
                return f"{name[:MAX_PLACE_CHARS]}: there is no such parameter here; {known}"
        return None


def _checked(route: APIRoute) -> APIRoute:
    # A copy: the routes of a module are shared by every app of the process.
    checked = copy.copy(route)
    checked.app = QueryCheck(route.app, declared_names(route))
    return checked


def _names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (field.alias or name for name, field in model.model_fields.items())
        else:
            yield parameter.alias
    for part in dependant.dependencies:
        yield from _names(part)
