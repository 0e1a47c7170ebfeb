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
from pyoco_server.errors import PyocoError
from pyoco_server.http_api.protocol.callers import limited_caller
from pyoco_server.http_api.protocol.query_names import MOST_GIVEN
from pyoco_server.http_api.protocol.request_parsing import caller_of, services_of
from pyoco_server.services.audit.reader import AuditReader
from pyoco_server.services.auth.tickets import TicketService
from pyoco_server.services.context import Stores
from pyoco_server.services.dead_letters import DeadLetterService
from pyoco_server.services.executions.rerun import RerunService
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.flows import FlowService
from pyoco_server.services.graphs import GraphService
from pyoco_server.services.pdca.artifacts import ArtifactService
from pyoco_server.services.pdca.engine_watch import EngineWatch
from pyoco_server.services.pdca.requests import RequestService
from pyoco_server.services.pdca.strategies import StrategyService
from pyoco_server.services.projections.explain import ExplainService
from pyoco_server.services.projections.lists import ListService
from pyoco_server.services.projections.metrics import MetricsService
from pyoco_server.services.projections.overview import OverviewService
from pyoco_server.services.readiness import ReadinessService
from pyoco_server.services.run_logs.read import RunLogService
from pyoco_server.services.streaming.topics import RunTopics
from pyoco_server.services.wheels import WheelService


class RawRoute(APIRoute):
    """A route whose function gets the request and returns a response, without dependencies and serialisation.

    For hot paths, where the framework's work on parameters costs as much as the route's own.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


# Coroutines, because the framework calls plain functions in a thread.
def _service(name: str) -> Any:
    async def get(request: Request) -> Any:
        return getattr(services_of(request), name)

    return Depends(get)


async def _caller(request: Request) -> Caller:
    return caller_of(request)


async def _holder(request: Request) -> str:
    return limited_caller(request.scope).name


def given_once(refusal: type[PyocoError], *, repeatable: Container[str] = ()) -> Any:
    """Reject a filter that is given twice: only one of both would count."""

    async def check(request: Request) -> None:
        check_given_once(request, refusal, repeatable)

    return Depends(check)


def check_given_once(request: HTTPConnection, refusal: type[PyocoError], repeatable: Container[str] = ()) -> None:
    """The same for a route without dependencies."""
    given = request.query_params.multi_items()
    if len(given) > MOST_GIVEN:
        raise refusal(f"the query has {len(given)} parameters; at most {MOST_GIVEN} are accepted")
    for name, times in Counter(name for name, _ in given).items():
        if times > 1 and name not in repeatable:
            raise refusal(f"{name[:100]}: it is given more than once")


ConfigDep = Annotated[NatsBackendConfig, _service("config")]
StoresDep = Annotated[Stores, _service("stores")]
ExecutionsDep = Annotated[ExecutionService, _service("executions")]
RerunsDep = Annotated[RerunService, _service("reruns")]
ListsDep = Annotated[ListService, _service("lists")]
TopicsDep = Annotated[RunTopics, _service("topics")]
RunLogsDep = Annotated[RunLogService, _service("run_logs")]
ExplanationsDep = Annotated[ExplainService, _service("explanations")]
FlowsDep = Annotated[FlowService, _service("flows")]
GraphsDep = Annotated[GraphService, _service("graphs")]
StrategiesDep = Annotated[StrategyService, _service("strategies")]
WheelsDep = Annotated[WheelService, _service("wheels")]
FleetDep = Annotated[FleetView, _service("fleet")]
MetricsDep = Annotated[MetricsService, _service("metrics")]
OverviewDep = Annotated[OverviewService, _service("overview")]
TicketsDep = Annotated[TicketService, _service("tickets")]
ReadinessDep = Annotated[ReadinessService, _service("readiness")]
AirflowDep = Annotated[EngineWatch | None, _service("airflow")]
RequestsDep = Annotated[RequestService, _service("requests")]
ArtifactsDep = Annotated[ArtifactService, _service("artifacts")]
DeadLettersDep = Annotated[DeadLetterService, _service("dead_letters")]
AuditDep = Annotated[AuditReader, _service("audit")]
CallerDep = Annotated[Caller, Depends(_caller)]
# Whose stream it is, for the limit per caller.
HolderDep = Annotated[str, Depends(_holder)]
