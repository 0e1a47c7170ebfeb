"""The routes of `/executions`; each command is executed once per idempotency key."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from inspect import cleandoc
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.domain.queries import cursors
from pyoco_server.domain.queries.cursors import MAX_CURSOR_CHARS
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas, translate
from pyoco_server.http_api.api.executions.commands import SPECS, Spec
from pyoco_server.http_api.dependencies import CallerDep, ExecutionsDep, ListsDep, RawRoute, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import command_request
from pyoco_server.http_api.protocol.fields import Strict
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.protocol.request_parsing import (
    bounded_json,
    caller_of,
    largest_params,
    read_optional,
    read_with_params,
    services_of,
)
from pyoco_server.http_api.protocol.submissions import check_execution
from pyoco_server.http_api.protocol.times import QueryAsOf, parse_as_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import EXECUTIONS
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions.command_handler import CommandResult
from pyoco_server.services.executions.service import NewExecution

router = APIRouter(prefix="/executions", tags=["executions"])

ExecutionIdPath = Annotated[str, Path(alias="executionId", description="The execution's id, as given at its creation.")]
Endpoint = Callable[[Request], Awaitable[Response]]

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": schemas.Accepted, "description": "Accepted; when it is answered no kill of any process can lose it"},
    200: {"model": schemas.Accepted, "description": "The same request was accepted before"},
    **EXECUTIONS.failures(404, 409, 413, 422, 503),
}
shown = EXECUTIONS.answers


def _command(request: Request, body: bytes, **options: Any) -> IdempotentRequest:
    return IdempotentRequest(request, of_json(body), required=True, replay_status=200, **options)


def _accepted(handled: CommandResult, name: str, context: CommandContext, **more: Any) -> Response:
    translate.raise_rejection(handled, name)
    return json_response(translate.accepted_out(handled, name, context, **more), 202)


@requires_scope(Scope.RUNS_WRITE)
async def create_execution(request: Request) -> Response:
    """Create an execution. It begins with its start."""
    executions, caller, body = services_of(request).executions, caller_of(request), await request.body()
    asked = read_with_params(schemas.CreateBody, body, executions.config)
    if not asked.graph_id.isprintable():
        raise InvalidRequest("graphId must be printable text")
    new = NewExecution(
        graph_id=asked.graph_id,
        input=bounded_json(asked.input, largest_params(executions.config), "input"),
        tag=asked.routing_tag,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
    )
    async with _command(request, body, new_id=executions.stores.ids.run_id) as once:
        if turn := once.attempt:
            found = await check_execution(request, new, turn, strict=asked.strict)
            handled = await executions.create(new, RunId(turn.resource_id), turn.context)
            once.response = _accepted(handled, "CreateExecution", turn.context, **{"warnings": found} if found else {})
    return once.answer


@requires_scope(Scope.RUNS_WRITE)
async def start_execution(request: Request) -> Response:
    """Start an execution: the first nodes of a graph are ready; the job of a flow is in the queue of its tag."""
    executions, body = services_of(request).executions, await request.body()
    read_optional(schemas.EmptyBody, body)
    run_id = parse_run_id(request.path_params["executionId"])
    async with _command(request, body) as once:
        if turn := once.attempt:
            handled = await executions.start(run_id, turn.context)
            once.response = _accepted(handled, "StartExecution", turn.context)
    return once.answer


@requires_scope(Scope.RUNS_CANCEL)
async def cancel_execution(request: Request) -> Response:
    """Cancel an execution. Accepted at any time before its end, also repeatedly; it then ends CANCELED."""
    executions, body = services_of(request).executions, await request.body()
    reason = read_optional(schemas.CancelBody, body).reason
    run_id = parse_run_id(request.path_params["executionId"])
    async with _command(request, body) as once:
        if turn := once.attempt:
            handled = await executions.cancel(run_id, reason, turn.context)
            once.response = _accepted(handled, "CancelExecution", turn.context)
    return once.answer


def _endpoint(spec: Spec) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        executions, body = services_of(request).executions, await request.body()
        asked = read_optional(spec.body, body)
        command = spec.build(asked, request.path_params.get("nodeId"), executions.stores.clock.now())
        run_id = parse_run_id(request.path_params["executionId"])
        async with _command(request, body) as once:
            if turn := once.attempt:
                handled = await executions.command(run_id, command, turn.context)
                once.response = _accepted(handled, spec.name, turn.context)
        return once.answer

    return requires_scope(spec.scope)(endpoint)


def _add(path: str, endpoint: Endpoint, name: str, body: type[BaseModel], about: str | None = None) -> None:
    about = about or cleandoc(endpoint.__doc__ or "")
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        status_code=202,
        name=name,
        operation_id=name,
        summary=about.partition(".")[0],
        description=about,
        route_class_override=RawRoute,
        responses=_ACCEPTED,
        openapi_extra=command_request(body, *re.findall(r"{(\w+)}", path)),
    )


_add("", create_execution, "CreateExecution", schemas.CreateBody)
_add("/{executionId}/start", start_execution, "StartExecution", schemas.EmptyBody)
_add("/{executionId}/cancel", cancel_execution, "CancelExecution", schemas.CancelBody)
for _spec in SPECS:
    _add(_spec.path, _endpoint(_spec), _spec.name, _spec.body, _spec.about)


class ExecutionsQuery(Strict):
    status: schemas.ExecutionStatus | None = None
    graph_id: str | None = Field(default=None, alias="graphId", min_length=1, max_length=256)
    archived: bool = Field(default=False, description="Those that were archived instead of the others.")
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str = Field(
        default="",
        max_length=MAX_CURSOR_CHARS,
        description="The `nextCursor` of the page before, with the same filters.",
    )


@router.get("", responses=shown(schemas.ExecutionList, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.RUNS_READ)
async def list_executions(lists: ListsDep, caller: CallerDep, query: Annotated[ExecutionsQuery, Query()]) -> Response:
    """The executions changed last come first. Runs and jobs are among them."""
    statuses = () if query.status is None else translate.RUN_STATUSES[query.status]
    asked = RunQuery(
        limit=query.limit,
        statuses=statuses,
        flow=query.graph_id,
        tenant_id=caller.tenant_filter,
        archived=query.archived,
    )
    page = await lists.page(asked, query.cursor, route=cursors.EXECUTIONS)
    items = [translate.listed_out(item) for item in page.items if isinstance(item, bytes)]
    return json_response(translate.page_out(items, page.next_cursor))


@router.get(
    "/{executionId}", responses=shown(schemas.ExecutionOut, 404, 422, 503), dependencies=[given_once(InvalidRequest)]
)
@requires_scope(Scope.RUNS_READ)
async def get_execution(
    execution_id: ExecutionIdPath,
    executions: ExecutionsDep,
    caller: CallerDep,
    at: QueryAsOf = None,
    include: Annotated[
        Literal["records", "graph"] | None,
        Query(
            description="`records`: every output, however many; `graph`: also its nodes and edges, if they are known."
        ),
    ] = None,
) -> Response:
    """An execution as its events have made it."""
    as_of = None if at is None else parse_as_of(at)
    execution = await executions.look(parse_run_id(execution_id), tenant_filter=caller.tenant_filter, at=as_of)
    if include == "records":
        execution = await executions.whole(execution)
    edges = await executions.edges_of(execution) if include == "graph" else None
    return json_response(translate.execution_out(execution, edges))
