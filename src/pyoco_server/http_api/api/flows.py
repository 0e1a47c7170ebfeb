"""`/flows`: the flows that workers announce, with parameters, graphs and figures about their last runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.fleet.catalogue import FlowVersion
from pyoco_server.domain.fleet.flows import MAX_NAME_CHARS, AnnouncedFlow
from pyoco_server.domain.queries.page_token import MAX_TOKEN_CHARS
from pyoco_server.domain.queries.recent import NAMED
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.dependencies import CallerDep, FlowsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.fields import Open, Strict, Tag
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.services.flows import RECENT_RUNS, ShownFlow

router = APIRouter(prefix="/flows", tags=["flows"])


class FlowParam(BaseModel):
    """A parameter of a flow."""

    name: str = Field(examples=["name"])
    required: bool


class NamedRunOut(BaseModel):
    """A run and its status."""

    run_id: str
    status: str = Field(examples=["COMPLETED"])


class RecentRuns(BaseModel):
    """Figures about the runs that changed last, of those that the caller may see."""

    runs: int = Field(description=f"How many count: {RECENT_RUNS} at most.")
    statuses: dict[str, int] = Field(examples=[{"COMPLETED": 98, "FAILED": 2}])
    last_submitted_at: float | None = Field(description="Unix seconds.")
    median_sec: float | None = Field(description="Of the completed ones, from start to end.")
    p95_sec: float | None
    last: list[NamedRunOut] = Field(description=f"The last {NAMED} of them, the one that changed last first.")


class FlowListed(Open):
    """A flow in a list. Where its workers differ, that of the worker that started last."""

    name: str = Field(examples=["hello"])
    tags: list[str] = Field(description="The tags under which it is served.", examples=[["default"]])
    workers: int = Field(description="How many running workers announce it.")
    params: list[FlowParam] | None = Field(description="null when unknown.")
    takes_others: bool = Field(description="Whether it may read further parameters.")
    recent: RecentRuns


class FlowVersionOut(BaseModel):
    """One announcement of the flow. Without nodes its graph is unknown; a flow with loops or branches has no edges."""

    tags: list[str]
    workers: int
    params: list[FlowParam] | None
    takes_others: bool
    nodes: list[str] = Field(examples=[["load", "save"]])
    edges: list[list[str]] = Field(examples=[[["load", "save"]]])


class FlowOut(FlowListed):
    """A flow, with every different announcement of it, the newest first."""

    versions: list[FlowVersionOut]


class FlowList(BaseModel):
    """A page, by name. The last page, and only that one, has no `next_cursor`."""

    items: list[FlowListed]
    next_cursor: str | None


class FlowsQuery(Strict):
    q: str = Field(default="", max_length=MAX_NAME_CHARS, description="Only flows whose name has this prefix.")
    tag: Tag | None = Field(default=None, description="Only flows that are served under this tag.")
    limit: int = Field(default=50, ge=1, le=100)
    cursor: str = Field(
        default="", max_length=MAX_TOKEN_CHARS, description="The `next_cursor` of the page before, same filters."
    )


@router.get("", responses=answers(FlowList, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.RUNS_READ)
async def list_flows(flows: FlowsDep, caller: CallerDep, query: Annotated[FlowsQuery, Query()]) -> Response:
    """The flows that running workers announce, by name."""
    shown, next_cursor = await flows.page(
        prefix=query.q, tag=query.tag, limit=query.limit, cursor=query.cursor, tenant_filter=caller.tenant_filter
    )
    return json_response({"items": [_listed(flow) for flow in shown], "next_cursor": next_cursor})


@router.get("/{name:path}", responses=answers(FlowOut, 404, 422, 503))
@requires_scope(Scope.RUNS_READ)
async def get_flow(
    name: Annotated[str, Path(description="Its name, percent-encoded; a slash in it may stand as it is.")],
    flows: FlowsDep,
    caller: CallerDep,
) -> Response:
    """A flow with its graph, parameters and figures."""
    shown = await flows.get(name, tenant_filter=caller.tenant_filter)
    return json_response(_listed(shown) | {"versions": [_version(one) for one in shown.versions]})


def _listed(shown: ShownFlow) -> dict[str, Any]:
    return {
        "name": shown.name,
        "tags": sorted({tag for one in shown.versions for tag in one.tags}),
        "workers": sum(one.workers for one in shown.versions),
        **_parameters(shown.versions[0].flow),
        "recent": asdict(shown.recent) | {"last": [run._asdict() for run in shown.recent.last]},
    }


def _version(version: FlowVersion) -> dict[str, Any]:
    flow = version.flow
    graph = {"nodes": flow.nodes, "edges": flow.edges}
    return {"tags": version.tags, "workers": version.workers, **_parameters(flow), **graph}


def _parameters(flow: AnnouncedFlow) -> dict[str, Any]:
    params = None if flow.params is None else [{"name": name, "required": required} for name, required in flow.params]
    return {"params": params, "takes_others": flow.takes_others}
