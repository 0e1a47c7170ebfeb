"""What routes depend on: the gateway's services, the settings and the caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.events import Actor
from pyoco_server.errors import InvalidRequest, PyocoError
from pyoco_server.http_api.middleware.authentication import caller_of
from pyoco_server.services.auth.tickets import TicketService
from pyoco_server.services.container import Services
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.dead_letters import DeadLetterService
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.graphs import GraphService
from pyoco_server.services.projections.explain import ExplainService
from pyoco_server.services.projections.lists import ListService
from pyoco_server.services.projections.metrics import MetricsService
from pyoco_server.services.run_logs.read import RunLogService
from pyoco_server.services.streaming.topics import RunTopics
from pyoco_server.services.wheels import WheelService

# More than any route knows, each as often as it may be given.
MOST_GIVEN = 256


class RawRoute(APIRoute):
    """A route whose function takes the request as it is and returns a response: nothing is solved, nothing serialised.

    For the hot paths, where the framework's own work on parameters costs as much as theirs.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def services_of(request: HTTPConnection) -> Services:
    services: Services = request.app.state.services
    return services


def context_of(request: HTTPConnection) -> CommandContext:
    """Who asks; the correlation id ties events, logs and answers together."""
    caller = caller_of(request)
    return CommandContext(
        actor=Actor(kind="user", id=caller.name),
        tenant_filter=caller.tenant_filter,
        correlation_id=request.scope.get("correlation_id"),
    )


# Coroutines, although nothing is waited for: the framework sends plain functions to a thread, each for each request.
def _service(name: str) -> Any:
    async def get(request: Request) -> Any:
        return getattr(services_of(request), name)

    return Depends(get)


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
ConfigDep = Annotated[NatsBackendConfig, _service("config")]
StoresDep = Annotated[Stores, _service("stores")]
ExecutionsDep = Annotated[ExecutionService, _service("executions")]
ListsDep = Annotated[ListService, _service("lists")]
TopicsDep = Annotated[RunTopics, _service("topics")]
RunLogsDep = Annotated[RunLogService, _service("run_logs")]
ExplanationsDep = Annotated[ExplainService, _service("explanations")]
GraphsDep = Annotated[GraphService, _service("graphs")]
WheelsDep = Annotated[WheelService, _service("wheels")]
FleetDep = Annotated[FleetView, _service("fleet")]
MetricsDep = Annotated[MetricsService, _service("metrics")]
TicketsDep = Annotated[TicketService, _service("tickets")]
DeadLettersDep = Annotated[DeadLetterService, _service("dead_letters")]
CallerDep = Annotated[Caller, Depends(_caller)]
