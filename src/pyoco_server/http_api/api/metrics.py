"""The route of `/metrics`: ask the gateway, write it down for Prometheus."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.http_api.api.metrics_exposition import CONTENT_TYPE, exposition
from pyoco_server.http_api.dependencies import CallerDep, MetricsDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.middleware.timing import HttpTimes

router = APIRouter(tags=["metrics"])

EXAMPLE = """\
# HELP pyoco_runs_total Runs that are stored, by status.
# TYPE pyoco_runs_total gauge
pyoco_runs_total{status="COMPLETED"} 1
# HELP pyoco_workers_alive_total Workers that have shown life lately.
# TYPE pyoco_workers_alive_total gauge
pyoco_workers_alive_total 1
# HELP pyoco_dlq_messages_total Dead letters that are kept.
# TYPE pyoco_dlq_messages_total gauge
pyoco_dlq_messages_total 0
"""
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in the text format of Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": EXAMPLE}},
    },
    503: {
        "description": "The broker does not answer, or the index is being built.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
}


def http_times_of(request: Request) -> HttpTimes:
    times: HttpTimes = request.app.state.http_times
    return times


@router.get("/metrics", response_class=PlainTextResponse, responses=RESPONSES)
@requires_scope(Scope.METRICS_READ)
async def get_metrics(request: Request, metrics: MetricsDep, caller: CallerDep) -> Response:
    """Figures for Prometheus. A caller of one tenant gets the figures of that tenant's runs."""
    page = exposition(await metrics.gather(tenant_filter=caller.tenant_filter), http_times_of(request))
    return Response(page, headers={"Content-Type": CONTENT_TYPE})
