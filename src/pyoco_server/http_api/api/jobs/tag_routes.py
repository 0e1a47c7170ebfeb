"""The tags of a job, each an event of its execution, also after its end; and `/tags`, all that there are."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.http_api.api.jobs import schemas, translate
from pyoco_server.http_api.api.jobs.list_query import TAGS_GIVEN_ONCE, TagsQueryDep
from pyoco_server.http_api.api.jobs.routes import JobIdPath, json_response
from pyoco_server.http_api.dependencies import NO_QUERY, CallerDep, ExecutionsDep, ListsDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.responses.problems import job_failures, json_request

router = APIRouter(tags=["jobs"])

TagPath = Annotated[str, Path(description="The tag, percent-encoded; a slash in it may stand as it is.")]


@router.get(
    "/jobs/{id}/tags",
    responses={200: {"model": list[str]}, **job_failures(404, 422, 503)},
    dependencies=[NO_QUERY],
)
@requires_scope(Scope.RUNS_READ)
async def get_tags(job_id: JobIdPath, executions: ExecutionsDep, caller: CallerDep) -> Response:
    """The tags of a job, in the order in which they were given."""
    snapshot = await executions.get_snapshot(parse_run_id(job_id), tenant_filter=caller.tenant_filter)
    return json_response(translate.job_out(snapshot, parameters=False)["tags"])


@router.post(
    "/jobs/{id}/tags",
    responses={200: {"model": list[str]}, **job_failures(404, 409, 413, 422, 503)},
    openapi_extra=json_request(schemas.TagRequest, required=True),
    dependencies=[NO_QUERY],
)
@requires_scope(Scope.RUNS_WRITE)
async def add_tag(job_id: JobIdPath, request: Request, executions: ExecutionsDep) -> Response:
    """Put a tag on a job, finished or not, and see all that it has then. Asking twice is asking once."""
    parsed, body = parse_run_id(job_id), await request.body()
    label = translate.tag_request(body)

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
    dependencies=[NO_QUERY],
)
@requires_scope(Scope.RUNS_WRITE)
async def remove_tag(job_id: JobIdPath, tag: TagPath, request: Request, executions: ExecutionsDep) -> Response:
    """Take a tag off a job, finished or not; one that it does not have is off already."""
    parsed = parse_run_id(job_id)

    async with IdempotentRequest(request, of_json()) as once:
        if turn := once.attempt:
            (await executions.remove_label(parsed, tag, turn.context)).accepted()
            once.response = Response(status_code=204)
    return once.answer


@router.get(
    "/tags",
    responses={200: {"model": schemas.TagList}, **job_failures(422, 503)},
    dependencies=[TAGS_GIVEN_ONCE],
)
@requires_scope(Scope.RUNS_READ)
async def list_tags(lists: ListsDep, caller: CallerDep, asked: TagsQueryDep) -> Response:
    """The tags that jobs have, by their code points, each with the number of jobs; archived ones do not count."""
    query = asked.of(caller.tenant_filter)
    return json_response(translate.tags_out(await lists.labels(query), query, asked.limit))
