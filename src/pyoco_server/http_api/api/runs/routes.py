"""The routes of `/runs`, except logs and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.execution.state import Request as Run
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.domain.queries.explain import Reason, ServedTag
from pyoco_server.domain.queries.explain_texts import render_reason
from pyoco_server.errors import InvalidListQuery
from pyoco_server.http_api.api.runs import schemas, translate
from pyoco_server.http_api.dependencies import (
    CallerDep,
    ExecutionsDep,
    ExplanationsDep,
    FleetDep,
    ListsDep,
    RawRoute,
    given_once,
)
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.fields import Open
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.protocol.request_parsing import (
    bounded_json,
    caller_of,
    labels_of,
    largest_params,
    read_optional,
    read_with_params,
    request_of,
    services_of,
)
from pyoco_server.http_api.protocol.submissions import check_run
from pyoco_server.http_api.protocol.times import QueryAsOf, parse_as_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.projections.explain import RunHolder, RunQueue

router = APIRouter(prefix="/runs", tags=["runs"])

RunIdPath = Annotated[str, Path(description="The run's id, as given at submit.")]
Include = Annotated[
    list[schemas.IncludeWord] | None, Query(description="`records` adds task_records; `full` and `all` add all.")
]


def _shown(fleet: FleetView, snapshot: Mapping[str, Any], *, records: bool) -> bytes:
    return translate.run_out(snapshot, fleet.facts_of(snapshot), records=records)


@requires_scope(Scope.RUNS_WRITE)
async def submit_run(request: Request) -> Response:
    """Store and queue a run. 200 means: no kill of any process can lose it now."""
    executions, body = services_of(request).executions, await request.body()
    asked, labels, strict = parse_submit(body, executions.config, caller_of(request))

    async with IdempotentRequest(request, of_json(body), new_id=executions.stores.ids.run_id) as once:
        if turn := once.attempt:
            found = await check_run(request, asked, turn, strict=strict)
            execution = await executions.submit(asked, labels, turn.context, run_id=RunId(turn.resource_id))
            once.response = accepted(execution, executions.stores.durability, found)
    return once.answer


def parse_submit(body: bytes, config: NatsBackendConfig, caller: Caller) -> tuple[Run, tuple[str, ...], bool]:
    """The run, its labels, and whether it is rejected where no worker can run it."""
    asked = read_with_params(schemas.RunSubmitRequest, body, config)
    run = request_of(
        caller,
        config,
        flow_name=asked.flow_name,
        params=bounded_json(asked.params, largest_params(config), "params"),
        tag=asked.routing_tag,
        timeout_sec=asked.timeout_sec,
    )
    return run, (run.tag,) if asked.tags is None else labels_of(asked.tags), asked.strict


def accepted(execution: Execution, durability: str, warnings: Sequence[str] = ()) -> Response:
    body: dict[str, Any] = {"run_id": execution.execution_id, "status": "PENDING", "durability": durability}
    return json_response(body | {"warnings": warnings} if warnings else body)


router.add_api_route(
    "",
    submit_run,
    methods=["POST"],
    route_class_override=RawRoute,
    responses=answers(schemas.RunAccepted, 409, 413, 422, 503),
    openapi_extra=request_body(schemas.RunSubmitRequest),
)


@router.get(
    "",
    responses=answers(list[schemas.RunSummary | schemas.RunSnapshot] | schemas.RunListResponse, 422, 503),
    dependencies=[given_once(InvalidListQuery, repeatable=("tags", "include"))],
)
@requires_scope(Scope.RUNS_READ)
async def list_runs(
    lists: ListsDep, fleet: FleetDep, caller: CallerDep, asked: Annotated[schemas.ListQuery, Query()]
) -> Response:
    """The runs changed last come first; archived ones stay out.

    An array, `[]` when there are none. With `cursor`, `updated_after`, `error` or `workflow_yaml_sha256` an object, to
    be read page by page until `next_cursor` is null. However the runs change meanwhile, one that stays as it was is
    shown once, and one that changed and still fits at least once in its newer state: behind the oldest come those that
    moved.
    """
    query = asked.of(caller.tenant_filter)
    if not asked.wants_page:
        items = await (lists.snapshots(query) if asked.include else lists.summaries(query))
        return json_response(translate.list_out(items, fleet.facts_of))
    page = await lists.page(query, asked.cursor or "", whole=bool(asked.include))
    return json_response(translate.page_out(page, fleet.facts_of))


@router.get("/{run_id}", responses=answers(schemas.RunSnapshot, 404, 422, 503))
@requires_scope(Scope.RUNS_READ)
async def get_run(
    run_id: RunIdPath,
    executions: ExecutionsDep,
    fleet: FleetDep,
    caller: CallerDep,
    include: Include = None,
    at: QueryAsOf = None,
) -> Response:
    """One run as it is now, or as it was, then without facts about its worker."""
    parsed = parse_run_id(run_id)
    if at is not None:
        past = await executions.get_snapshot_as_of(parsed, parse_as_of(at), tenant_filter=caller.tenant_filter)
        return json_response(translate.run_out(past, {}, records=bool(include)))
    snapshot = await executions.get_snapshot(parsed, tenant_filter=caller.tenant_filter)
    return json_response(_shown(fleet, snapshot, records=bool(include)))


@router.get("/{run_id}/tasks", responses=answers(schemas.RunTasks, 404, 422, 503))
@requires_scope(Scope.RUNS_READ)
async def get_tasks(run_id: RunIdPath, executions: ExecutionsDep, caller: CallerDep) -> Response:
    """The tasks of a run with their records."""
    return json_response(
        translate.tasks_out(await executions.get_snapshot(parse_run_id(run_id), tenant_filter=caller.tenant_filter))
    )


@router.post(
    "/{run_id}/cancel",
    responses=answers(schemas.RunSnapshot, 404, 409, 413, 422, 503),
    openapi_extra=request_body(schemas.RunCancelRequest),
)
@requires_scope(Scope.RUNS_CANCEL)
async def cancel_run(run_id: RunIdPath, request: Request, executions: ExecutionsDep, fleet: FleetDep) -> Response:
    """Stop a run. Of a finished run it shows the present state; asking twice is asking once."""
    parsed, body = parse_run_id(run_id), await request.body()
    reason = read_optional(schemas.RunCancelRequest, body).reason

    async with IdempotentRequest(request, of_json(body)) as once:
        if turn := once.attempt:
            handled = await executions.cancel(parsed, reason, turn.context)
            is_finished = handled.refused is not None and handled.refused.why is RejectionReason.FINISHED
            execution = handled.execution if is_finished else handled.accepted()
            once.response = json_response(_shown(fleet, to_snapshot(execution), records=False))
    return once.answer


class ReasonOut(BaseModel):
    """One reason: a code for programs, a text for people, and the facts behind both."""

    code: str = Field(examples=["no_worker_for_tag"])
    message: str = Field(examples=["No worker serves the tag gpu."])
    hint: str = Field(examples=["Start one: pyoco-worker --tags gpu …"])
    facts: dict[str, Any]


class ExplanationOut(Open):
    """Why; the most telling reason first. More fields, facts and codes may be added at any time."""

    run_id: str
    status: schemas.RunStatus
    summary: str
    reasons: list[ReasonOut]
    queue: RunQueue | None
    worker: RunHolder | None
    served_tags: list[ServedTag]
    dead_letter: dict[str, Any] | None


@router.get("/{run_id}/explain", responses=answers(ExplanationOut, 404, 422, 503))
@requires_scope(Scope.RUNS_READ)
async def get_explanation(
    run_id: RunIdPath, request: Request, explanations: ExplanationsDep, caller: CallerDep
) -> Response:
    """Why the run is not running, or ended so; in English, or in Japanese by `Accept-Language`."""
    explanation = await explanations.explain(parse_run_id(run_id), tenant_filter=caller.tenant_filter)
    reasons = [_reason_out(reason, preferred_language(request)) for reason in explanation.reasons]
    body = asdict(explanation) | {"summary": reasons[0]["message"], "reasons": reasons}
    return json_response(body, headers={"Vary": "Accept-Language"})


def _reason_out(reason: Reason, language: str) -> dict[str, Any]:
    message, hint = render_reason(reason, language)
    facts = {name: round(value, 3) if isinstance(value, float) else value for name, value in reason.facts.items()}
    return {"code": reason.code, "message": message, "hint": hint, "facts": facts}
