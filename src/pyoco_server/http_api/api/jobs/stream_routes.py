"""`GET /jobs/{id}/logs/stream`: the log of a job, line by line as it is stored, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.errors import InvalidLogQuery
from pyoco_server.http_api.api.jobs import stream_encoding
from pyoco_server.http_api.api.jobs.log_schemas import LinesQuery
from pyoco_server.http_api.api.jobs.routes import JobIdPath
from pyoco_server.http_api.api.jobs.translate import status_of
from pyoco_server.http_api.dependencies import CallerDep, HolderDep, TopicsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import streams
from pyoco_server.http_api.responses.problems import job_failures

router = APIRouter(prefix="/jobs", tags=["jobs"])

EXAMPLE = """\
retry: 2000

id: 2.0
event: logEntry
data: {"timestamp":"2026-02-18T12:00:10.000Z","message":"Step 2 complete.","n":1,"task":"fit","level":"INFO", …}

: alive

id: 3.87.end
event: end
data: {"status":"completed"}
"""
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: streams.described(
        "Events `logEntry`, one per line, with an `id` to resume from; comments are heartbeats. When the job is over "
        "and all its lines are sent, `end` has its status, and the stream closes.",
        EXAMPLE,
        ("logEntry", "end"),
    ),
    204: {"description": "The job is over and the caller has its end: a browser does not connect again."},
    **job_failures(404, 422, 503),
}


@router.get("/{id}/logs/stream", response_class=Response, responses=ANSWERS, dependencies=[given_once(InvalidLogQuery)])
@requires_scope(Scope.RUNS_READ)
async def follow_job_log(
    job_id: JobIdPath,
    topics: TopicsDep,
    caller: CallerDep,
    holder: HolderDep,
    query: Annotated[LinesQuery, Query()],
    last_event_id: streams.LastEventId = None,
) -> Response:
    """Follow the log of a job, from its first line or any other, until the job is over."""
    run_id = parse_run_id(job_id)
    place, tail, has_seen_end = query.place(run_id), query.tail, False
    if (resume := stream_encoding.resume_point(last_event_id)) is not None:
        # A browser that comes back sends the same query as before.
        place, tail, has_seen_end = resume.place, None, resume.end

    async def events() -> AsyncGenerator[bytes, None]:
        async with topics.join(run_id, tenant_filter=caller.tenant_filter, caller=caller, holder=holder) as topic:
            if has_seen_end and topic.is_over:
                return
            begin = await topic.open_log(place, tail)
            yield streams.RETRY
            if tail is not None:
                # A reader that is cut off before its first line resumes here and not at a later tail.
                yield stream_encoding.place_event(begin)
            async with aclosing(topic.follow_log(begin, query.only)) as updates:
                async for update in updates:
                    if update.ended:
                        yield stream_encoding.end_event(status_of(update.ended.plain), update.place)
                    elif update.batches:
                        yield b"".join([stream_encoding.log_events(batch) for batch in update.batches])
                    else:
                        yield streams.comment("alive")

    return await streams.EventStream.of(events())
