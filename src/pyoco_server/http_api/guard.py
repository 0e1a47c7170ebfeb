"""Which route asks for which scope: every route says so, or the app refuses to start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.routing import BaseRoute

from pyoco_server.access.caller import ANYONE, Caller
from pyoco_server.access.scopes import Scope

F = TypeVar("F", bound=Callable[..., Any])

_DECISION = "__pyoco_needs__"


def needs(*scopes: Scope) -> Callable[[F], F]:
    """The endpoint is for callers who have all of these; with none of them: for everybody who is known."""

    def decide(endpoint: F) -> F:
        setattr(endpoint, _DECISION, frozenset(scopes))
        return endpoint

    return decide


def open_to_all(endpoint: F) -> F:
    """The endpoint answers anybody, also where access is controlled."""
    setattr(endpoint, _DECISION, None)
    return endpoint


def decision_of(route: BaseRoute) -> frozenset[Scope] | None:
    """The scopes a route asks for, None for an open one; `LookupError` when nobody has decided."""
    endpoint = getattr(route, "endpoint", None)
    if not hasattr(endpoint, _DECISION):
        raise LookupError(f"nobody has decided who may call {getattr(route, 'path', route)}")
    decided: frozenset[Scope] | None = getattr(endpoint, _DECISION)
    return decided


def caller_of(request: Request) -> Caller:
    """Who asks, as the guard found out."""
    caller: Caller = request.scope.get("caller", ANYONE)
    return caller
