"""What routes ask for: the gateway's services and the caller. Nothing here does any work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.events import Actor
from pyoco_server.errors import InvalidRequest, PyocoError
from pyoco_server.http_api.middleware.authentication import caller_of
from pyoco_server.services.context import CommandContext
from pyoco_server.services.gateway import Gateway

# More than any route knows, each as often as it may be given.
MOST_GIVEN = 256


class RawRoute(APIRoute):
    """A route whose function takes the request as it is and returns a response: nothing is solved, nothing serialised.

    For the hot paths, where the framework's own work on parameters costs as much as theirs.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def gateway_of(request: HTTPConnection) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


def origin_of(request: HTTPConnection) -> CommandContext:
    """Who asks; the correlation id ties events, logs and answers together."""
    actor = Actor(kind="user", id=caller_of(request).name)
    return CommandContext(actor=actor, correlation_id=request.scope.get("correlation_id"))


# Coroutines, although nothing is waited for: the framework sends plain functions to a thread, each for each request.
async def _gateway(request: Request) -> Gateway:
    return gateway_of(request)


async def _origin(request: Request) -> CommandContext:
    return origin_of(request)


async def _caller(request: Request) -> Caller:
    return caller_of(request)


def given_once(refusal: type[PyocoError], *, repeatable: Container[str] = ()) -> Any:
    """Refuse a filter that is given twice: the list would be of one of them, and nobody could tell of which.

    And a query of very many: for each name that it does not know the framework goes through all of them again.
    """

    async def check(request: Request) -> None:
        given = request.query_params.multi_items()
        if len(given) > MOST_GIVEN:
            raise refusal(f"the query has {len(given)} parameters; at most {MOST_GIVEN} are accepted")
        for name, times in Counter(name for name, _ in given).items():
            if times > 1 and name not in repeatable:
                raise refusal(f"{name[:100]}: it is given more than once")

    return Depends(check)


def refuse_query(request: Request) -> None:
    """For routes that ask nothing by a query: whoever sends one means something that would not be done."""
    for name in request.query_params:
        raise InvalidRequest(f"{name[:100]}: there is no such parameter here")


async def _no_query(request: Request) -> None:
    refuse_query(request)


NO_QUERY = Depends(_no_query)
GatewayDep = Annotated[Gateway, Depends(_gateway)]
OriginDep = Annotated[CommandContext, Depends(_origin)]
CallerDep = Annotated[Caller, Depends(_caller)]
