"""The routes of `/jobs`: authorise, translate, call, translate."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import RunNotFound
from pyoco_server.http_api.api.jobs import schemas, translate
from pyoco_server.http_api.api.jobs.list_query import JOBS_GIVEN_ONCE, JobsQueryDep
from pyoco_server.http_api.dependencies import (
    NO_QUERY,
    CallerDep,
    ExecutionsDep,
    ListsDep,
    RawRoute,
    refuse_query,
)
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.protocol.request_parsing import caller_of, services_of
from pyoco_server.http_api.responses.problems import job_failures, json_request

router = APIRouter(prefix="/jobs", tags=["jobs"])

JobIdPath = Annotated[str, Path(alias="id", description="The job's id, as given at submit.")]

_LOCATION = {"description": "Where the job is.", "schema": {"type": "string"}, "example": f"/jobs/{schemas.JOB_ID}"}
_CREATED: dict[int | str, dict[str, Any]] = {
    201: {
        "model": schemas.Job,
        "description": "Stored and queued; no kill of any process can lose it now",
        "headers": {"Location": _LOCATION},
    },
    **job_failures(409, 413, 422, 503),
}


def json_response(plain: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(plain), status_code=status, headers=headers, media_type="application/json")


@requires_scope(Scope.RUNS_WRITE)
async def submit_job(request: Request) -> Response:
    """Store and queue a job. 201 means: no kill of any process can lose it now."""
    refuse_query(request)
    executions, body = services_of(request).executions, await request.body()
    asked, labels = translate.submit_request(body, executions.config, caller_of(request))

    async with IdempotentRequest(request, of_json(body), new_id=executions.stores.ids.run_id) as once:
        if turn := once.attempt:
            execution = await executions.submit(asked, labels, turn.context, run_id=RunId(turn.resource_id))
            job = translate.job_out(to_snapshot(execution), parameters=True)
            once.response = json_response(job, 201, {"Location": f"/jobs/{job['id']}"})
    return once.answer


router.add_api_route(
    "",
    submit_job,
    methods=["POST"],
    status_code=201,
    route_class_override=RawRoute,
    responses=_CREATED,
    openapi_extra=json_request(schemas.JobSubmitRequest, required=True),
)


@router.get(
    "",
    responses={200: {"model": schemas.JobList}, **job_failures(422, 503)},
    dependencies=[JOBS_GIVEN_ONCE],
)
@requires_scope(Scope.RUNS_READ)
async def list_jobs(lists: ListsDep, caller: CallerDep, asked: JobsQueryDep) -> Response:
    """The newest jobs come first; archived ones stay out. Runs and executions are among them.

    A page may be short, even empty, and not be the last: there are more as long as there is a `nextToken`. Whatever
    happens to the jobs meanwhile, each that stays is shown once.
    """
    query = asked.of(caller.tenant_filter)
    return json_response(translate.page_out(await lists.jobs(query), query, asked.status))


@router.get(
    "/{id}",
    responses={200: {"model": schemas.Job}, **job_failures(404, 422, 503)},
    dependencies=[NO_QUERY],
)
@requires_scope(Scope.RUNS_READ)
async def get_job(job_id: JobIdPath, executions: ExecutionsDep, caller: CallerDep) -> Response:
    """One job as it is now."""
    snapshot = await executions.get_snapshot(parse_run_id(job_id), tenant_filter=caller.tenant_filter)
    return json_response(translate.job_out(snapshot, parameters=True))


@router.delete(
    "/{id}",
    status_code=204,
    response_class=Response,
    responses=job_failures(409, 422, 503),
    dependencies=[NO_QUERY],
)
@requires_scope(Scope.RUNS_CANCEL)
async def delete_job(job_id: JobIdPath, request: Request, executions: ExecutionsDep) -> Response:
    """Stop a job; one that is finished leaves the lists, and can still be read by its id until retention removes it.

    What is not there, for this caller, is deleted already.
    """
    async with IdempotentRequest(request, of_json()) as once:
        if turn := once.attempt:
            with suppress(RunNotFound):
                await executions.discard(parse_run_id(job_id), turn.context)
            once.response = Response(status_code=204)
    return once.answer
