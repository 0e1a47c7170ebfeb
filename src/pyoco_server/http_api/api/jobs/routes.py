"""The routes of `/jobs` and `/tags`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field, model_validator

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.ids import MAX_LABEL_CHARS, RunId, parse_label, parse_run_id
from pyoco_server.domain.queries.jobs import JobQuery, LabelQuery, decode_token
from pyoco_server.domain.queries.page_token import MAX_TOKEN_CHARS
from pyoco_server.errors import InvalidListQuery, InvalidRequest, RunNotFound
from pyoco_server.http_api.api.jobs import schemas, translate
from pyoco_server.http_api.dependencies import (
    CallerDep,
    ExecutionsDep,
    ListsDep,
    RawRoute,
    given_once,
)
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.fields import Label, RangesQuery, Strict, one_of
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.protocol.request_parsing import caller_of, read, services_of
from pyoco_server.http_api.protocol.submissions import check_run
from pyoco_server.http_api.protocol.times import QueryAsOf, parse_as_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import job_failures

router = APIRouter(tags=["jobs"])

JobIdPath = Annotated[str, Path(alias="id", description="The job's id, as given at submit.")]

_LOCATION = {"description": "Where the job is.", "schema": {"type": "string"}, "example": f"/jobs/{schemas.JOB_ID}"}
_CREATED: dict[int | str, dict[str, Any]] = {
    201: {
        "model": schemas.JobCreated,
        "description": "Stored and queued; no kill of any process can lose it now",
        "headers": {"Location": _LOCATION},
    },
    **job_failures(409, 413, 422, 503),
}


class JobsQuery(RangesQuery):
    """Filters, all of which apply."""

    tag: list[Label] | None = Field(
        default=None, max_length=8, description="Repeated: a job has all of them.", examples=["urgent"]
    )
    label: list[Label] | None = Field(default=None, max_length=8, description="Another name of `tag`.")
    status: schemas.JobStatus | None = Field(default=None, examples=["running"])
    limit: int = Field(default=50, ge=1, le=200)
    next_token: str | None = Field(
        default=None,
        alias="nextToken",
        max_length=MAX_TOKEN_CHARS,
        description="The `nextToken` of the page before, with the same filters.",
    )

    @model_validator(mode="after")
    def _has_one_list_of_labels(self) -> Self:
        one_of("tag", self.tag, "label", self.label)
        return self

    def of(self, tenant_id: str | None) -> JobQuery:
        """The query of the index, for the jobs of this tenant."""
        query = JobQuery(
            limit=self.limit,
            status=() if self.status is None else translate.RUN_STATUSES[self.status],
            tenant_id=tenant_id,
            labels=tuple(one_of("tag", self.tag, "label", self.label) or ()),
            submitted_after=self.submitted_after,
            submitted_before=self.submitted_before,
            id_prefix=self.id_prefix,
        )
        return query if self.next_token is None else replace(query, before=decode_token(self.next_token, query))


class GetQuery(Strict):
    at: QueryAsOf = None


class TagsQuery(Strict):
    prefix: str = Field(default="", max_length=MAX_LABEL_CHARS, description="Their prefix.", examples=["ur"])
    limit: int = Field(default=100, ge=1, le=1000)
    next_token: str | None = Field(
        default=None,
        alias="nextToken",
        max_length=MAX_TOKEN_CHARS,
        description="The `nextToken` of the page before, with the same prefix.",
    )

    def of(self, tenant_id: str | None) -> LabelQuery:
        """The query of the index: one label more than shown, to know whether there is another page."""
        query = LabelQuery(prefix=self.prefix, tenant_id=tenant_id, limit=self.limit + 1)
        return query if self.next_token is None else replace(query, after=decode_token(self.next_token, query))


@requires_scope(Scope.RUNS_WRITE)
async def submit_job(request: Request) -> Response:
    """Store and queue a job. 201 means: no kill of any process can lose it now."""
    executions, body = services_of(request).executions, await request.body()
    asked, labels, strict = translate.submit_request(body, executions.config, caller_of(request))

    async with IdempotentRequest(request, of_json(body), new_id=executions.stores.ids.run_id) as once:
        if turn := once.attempt:
            found = await check_run(request, asked, turn, strict=strict)
            execution = await executions.submit(asked, labels, turn.context, run_id=RunId(turn.resource_id))
            job = translate.job_out(to_snapshot(execution), parameters=True) | ({"warnings": found} if found else {})
            once.response = json_response(job, 201, {"Location": f"/jobs/{job['id']}"})
    return once.answer


router.add_api_route(
    "/jobs",
    submit_job,
    methods=["POST"],
    status_code=201,
    route_class_override=RawRoute,
    responses=_CREATED,
    openapi_extra=request_body(schemas.JobSubmitRequest),
)


@router.get(
    "/jobs",
    responses={200: {"model": schemas.JobList}, **job_failures(422, 503)},
    dependencies=[given_once(InvalidListQuery, repeatable=("tag", "label"))],
)
@requires_scope(Scope.RUNS_READ)
async def list_jobs(lists: ListsDep, caller: CallerDep, asked: Annotated[JobsQuery, Query()]) -> Response:
    """The newest jobs come first; archived ones stay out. Runs and executions are among them.

    A page may be short, even empty, and not be the last: there are more as long as there is a `nextToken`. Whatever
    happens to the jobs meanwhile, each that stays is shown once.
    """
    query = asked.of(caller.tenant_filter)
    return json_response(translate.page_out(await lists.jobs(query), query, asked.status))


@router.get(
    "/jobs/{id}",
    responses={200: {"model": schemas.Job}, **job_failures(404, 422, 503)},
    dependencies=[given_once(InvalidRequest)],
)
@requires_scope(Scope.RUNS_READ)
async def get_job(
    job_id: JobIdPath, executions: ExecutionsDep, caller: CallerDep, asked: Annotated[GetQuery, Query()]
) -> Response:
    """One job as it is now, or as it was."""
    parsed = parse_run_id(job_id)
    if asked.at is None:
        snapshot = await executions.get_snapshot(parsed, tenant_filter=caller.tenant_filter)
    else:
        snapshot = await executions.get_snapshot_as_of(
            parsed, parse_as_of(asked.at), tenant_filter=caller.tenant_filter
        )
    return json_response(translate.whole_job_out(snapshot))


@router.delete(
    "/jobs/{id}",
    status_code=204,
    response_class=Response,
    responses=job_failures(409, 422, 503),
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


TagPath = Annotated[str, Path(description="The tag, percent-encoded; a slash in it may stand as it is.")]


@router.get("/jobs/{id}/tags", responses={200: {"model": list[str]}, **job_failures(404, 422, 503)})
@requires_scope(Scope.RUNS_READ)
async def get_tags(job_id: JobIdPath, executions: ExecutionsDep, caller: CallerDep) -> Response:
    """The tags of a job, in the order in which they were given."""
    snapshot = await executions.get_snapshot(parse_run_id(job_id), tenant_filter=caller.tenant_filter)
    return json_response(translate.job_out(snapshot, parameters=False)["tags"])


@router.post(
    "/jobs/{id}/tags",
    responses={200: {"model": list[str]}, **job_failures(404, 409, 413, 422, 503)},
    openapi_extra=request_body(schemas.TagRequest),
)
@requires_scope(Scope.RUNS_WRITE)
async def add_tag(job_id: JobIdPath, request: Request, executions: ExecutionsDep) -> Response:
    """Put a tag on a job, finished or not, and see all that it has then. Asking twice is asking once."""
    parsed, body = parse_run_id(job_id), await request.body()
    label = parse_label(read(schemas.TagRequest, body).tag)

    async with IdempotentRequest(request, of_json(body)) as once:
        if turn := once.attempt:
            handled = await executions.add_label(parsed, label, turn.context)
            once.response = json_response(handled.accepted().labels)
    return once.answer


@router.delete(
    "/jobs/{id}/tags/{tag:path}",
    status_code=204,
    response_class=Response,
    responses=job_failures(404, 409, 422, 503),
)
@requires_scope(Scope.RUNS_WRITE)
async def remove_tag(job_id: JobIdPath, tag: TagPath, request: Request, executions: ExecutionsDep) -> Response:
    """Remove a tag from a job, finished or not; removing a missing one succeeds."""
    parsed = parse_run_id(job_id)

    async with IdempotentRequest(request, of_json()) as once:
        if turn := once.attempt:
            (await executions.remove_label(parsed, tag, turn.context)).accepted()
            once.response = Response(status_code=204)
    return once.answer


@router.get(
    "/tags",
    responses={200: {"model": schemas.TagList}, **job_failures(422, 503)},
    dependencies=[given_once(InvalidListQuery)],
)
@requires_scope(Scope.RUNS_READ)
async def list_tags(lists: ListsDep, caller: CallerDep, asked: Annotated[TagsQuery, Query()]) -> Response:
    """The tags that jobs have, by their code points, each with the number of jobs; archived ones do not count."""
    query = asked.of(caller.tenant_filter)
    return json_response(translate.tags_out(await lists.labels(query), query, asked.limit))
