"""The routes of `/executions`: authorise, translate, call, translate; each command once per idempotency key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import NodeId, RunId, parse_run_id
from pyoco_server.domain.queries.cursors import MAX_CURSOR_CHARS
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas, translate
from pyoco_server.http_api.api.executions.commands import SPECS, Spec, node_id_in
from pyoco_server.http_api.api.executions.openapi import describe
from pyoco_server.http_api.dependencies import CallerDep, ExecutionsDep, ListsDep, RawRoute, given_once, services_of
from pyoco_server.http_api.middleware.authentication import caller_of, requires_scope
from pyoco_server.http_api.protocol import json_body, request_parsing
from pyoco_server.http_api.protocol.idempotency import no_id, of_json, run_once
from pyoco_server.http_api.responses.problems import ExecutionProblem, failures
from pyoco_server.services.executions.command_handler import CommandResult
from pyoco_server.services.executions.service import NewExecution
from pyoco_server.services.idempotency import IdempotentAttempt

router = APIRouter(prefix="/executions", tags=["executions"])

ExecutionIdPath = Annotated[str, Path(alias="executionId", description="The execution's id, as given at its creation.")]
Does = Callable[[RunId, IdempotentAttempt], Awaitable[CommandResult]]

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": schemas.Accepted, "description": "Accepted; when it is answered no kill of any process can lose it"},
    200: {"model": schemas.Accepted, "description": "The same request was accepted before"},
    **failures(404, 409, 413, 422, 503, model=ExecutionProblem),
}


def shown(model: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route answers and how it may fail, for the OpenAPI document."""
    return {200: {"model": model}, **failures(*statuses, model=ExecutionProblem)}


def json_response(body: bytes, status: int = 200) -> Response:
    return Response(body, status_code=status, media_type="application/json")


async def commanded(request: Request, name: str, body: bytes, does: Does) -> Response:
    """Have a command carried out once, and say that it was accepted."""
    run_id = parse_run_id(request.path_params["executionId"])

    async def work(turn: IdempotentAttempt) -> Response:
        handled = await does(run_id, turn)
        translate.rejected(handled, name)
        return json_response(translate.accepted_out(handled, name, turn.context), 202)

    return await run_once(request, of_json(body), work, required=True, replay_status=200, resource_id=no_id)


# --- commands ---------------------------------------------------------------------------------------------------------


@requires_scope(Scope.RUNS_WRITE)
async def create_execution(request: Request) -> Response:
    """Bring an execution into being. It begins with its start."""
    executions, caller, body = services_of(request).executions, caller_of(request), await request.body()
    asked = _new_execution(body, executions.config)

    async def work(turn: IdempotentAttempt) -> Response:
        new = NewExecution(
            graph_id=asked.graph_id,
            input=asked.input,
            tag=asked.tag,
            tenant_id=caller.tenant_id,
            api_key_id=caller.api_key_id,
        )
        handled = await executions.create(new, RunId(turn.resource_id), turn.context)
        translate.rejected(handled, "CreateExecution")
        return json_response(translate.accepted_out(handled, "CreateExecution", turn.context), 202)

    return await run_once(request, of_json(body), work, required=True, replay_status=200)


@requires_scope(Scope.RUNS_WRITE)
async def start_execution(request: Request) -> Response:
    """Let it begin: the first nodes of a graph are ready; the job of a flow is in the queue of its tag."""
    executions, body = services_of(request).executions, await request.body()
    translate.read(schemas.EmptyBody, body)
    return await commanded(request, "StartExecution", body, lambda run_id, turn: executions.start(run_id, turn.context))


@requires_scope(Scope.RUNS_CANCEL)
async def cancel_execution(request: Request) -> Response:
    """Stop it. Accepted at any time before the end, and again after the cancel; nothing else can come of it then."""
    executions, body = services_of(request).executions, await request.body()
    reason = translate.read(schemas.CancelBody, body).reason
    return await commanded(
        request, "CancelExecution", body, lambda run_id, turn: executions.cancel(run_id, reason, turn.context)
    )


def _new_execution(body: bytes, config: NatsBackendConfig) -> schemas.CreateBody:
    # As much as of a run's params, so that the execution still has room to say what became of it.
    most_bytes = request_parsing.largest_params(config)
    asked = translate.read(schemas.CreateBody, body, marks=most_bytes + json_body.FEW_MARKS)
    if not asked.graph_id.isprintable():
        raise InvalidRequest("graphId must be printable text")
    translate.bounded(asked.input, most_bytes, "input")
    return asked


def _endpoint(spec: Spec) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        executions, body = services_of(request).executions, await request.body()
        node_id = node_id_in(request.path_params["nodeId"]) if spec.is_node_command else NodeId("")
        asked = translate.read(spec.body, body)
        command = spec.build(asked, node_id, executions.stores.clock.now())
        return await commanded(
            request, spec.name, body, lambda run_id, turn: executions.command(run_id, command, turn.context)
        )

    return requires_scope(spec.scope)(endpoint)


def _add(path: str, endpoint: Callable[[Request], Awaitable[Response]], *, name: str, about: str, extra: Any) -> None:
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
        openapi_extra=extra,
    )


for _path, _does, _name, _body, _ids, _required in (
    ("", create_execution, "CreateExecution", schemas.CreateBody, (), True),
    ("/{executionId}/start", start_execution, "StartExecution", schemas.EmptyBody, ("executionId",), False),
    ("/{executionId}/cancel", cancel_execution, "CancelExecution", schemas.CancelBody, ("executionId",), False),
):
    _add(_path, _does, name=_name, about=_does.__doc__ or "", extra=describe(_body, *_ids, required=_required))

for _spec in SPECS:
    _node = ("nodeId",) if _spec.is_node_command else ()
    _extra = describe(_spec.body, "executionId", *_node, required=_spec.is_body_required)
    _add(_spec.path, _endpoint(_spec), name=_spec.name, about=_spec.about, extra=_extra)


# --- looking ----------------------------------------------------------------------------------------------------------


class ExecutionsQuery(BaseModel):
    """Which executions. A name that is not here is refused: a misspelled filter would give a wrong list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """The executions changed last come first. Runs and jobs are among them: they are the same thing by other names."""
    statuses = () if query.status is None else translate.RUN_STATUSES[query.status]
    asked = RunQuery(
        limit=query.limit,
        statuses=statuses,
        flow=query.graph_id,
        tenant_id=caller.tenant_filter,
        archived=query.archived,
    )
    page = await lists.page(asked, query.cursor)
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
    at: Annotated[
        int | None, Query(ge=1, le=2**53, description="As it was with the event of this version; absent: as it is now.")
    ] = None,
    include: Annotated[
        Literal["records", "graph"] | None,
        Query(description="`records`: every output, however many; `graph`: also its nodes and edges."),
    ] = None,
) -> Response:
    """An execution as its events have made it."""
    execution = await executions.look(parse_run_id(execution_id), tenant_filter=caller.tenant_filter, at=at)
    if include == "records":
        execution = await executions.whole(execution)
    return json_response(translate.execution_out(execution, graph=include == "graph"))
