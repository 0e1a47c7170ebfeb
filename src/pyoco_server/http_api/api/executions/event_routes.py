"""`GET /executions/{executionId}/events`: who did what, when; page by page, or as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Query, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas, translate
from pyoco_server.http_api.api.executions.routes import ExecutionIdPath, json_response, shown
from pyoco_server.http_api.dependencies import CallerDep, ExecutionsDep, StoresDep, TopicsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import streams
from pyoco_server.services.projections.event_history import START, EventPosition, events_after
from pyoco_server.services.streaming.topics import RunTopics
from pyoco_server.stores import EventLog

router = APIRouter(prefix="/executions", tags=["executions"])

EXAMPLE = """\
retry: 2000

id: 41.0
event: EXECUTION_CREATED
data: {"eventId":"0198….0","type":"EXECUTION_CREATED","occurredAt":"2026-01-01T00:00:00.000Z","version":41}

: alive
"""
ANSWERS = shown(schemas.EventList, 404, 422, 503)
ANSWERS[200] |= {
    "description": (
        "JSON, or with `Accept: text/event-stream` each event as it is stored, with its type as the event's name and "
        "an `id` to resume from; comments show life, and the stream ends when the execution has."
    ),
    "content": {streams.EventStream.media_type: {"schema": {"type": "string"}, "example": EXAMPLE}},
}
ANSWERS[204] = {"description": "The execution has ended and the caller has seen its end: do not connect again."}


@router.get(
    "/{executionId}/events", response_class=Response, responses=ANSWERS, dependencies=[given_once(InvalidRequest)]
)
@requires_scope(Scope.RUNS_READ)
async def list_events(
    execution_id: ExecutionIdPath,
    request: Request,
    executions: ExecutionsDep,
    stores: StoresDep,
    topics: TopicsDep,
    caller: CallerDep,
    cursor: Annotated[
        str | None, Query(max_length=64, description="The `nextCursor` of the page before, or the id of an event.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many; a stream has no limit.")] = 200,
    last_event_id: Annotated[
        str | None, Header(description="Go on behind this event; browsers send it by themselves.")
    ] = None,
) -> Response:
    """What happened to an execution, in order."""
    run_id = parse_run_id(execution_id)
    if "text/event-stream" in request.headers.get("accept", ""):
        after = translate.place_in(last_event_id) or _place(cursor)
        return await streams.EventStream.of(_events(topics, stores.events, run_id, caller.tenant_filter, after))
    await executions.look(run_id, tenant_filter=caller.tenant_filter)
    found, more = await events_after(stores.events, run_id, _place(cursor), limit)
    following = translate.place_out(found[-1].place) if more else None
    return json_response(
        translate.page_out([translate.event_out(item) for item in found], following, executionId=run_id)
    )


async def _events(
    topics: RunTopics, log: EventLog, run_id: RunId, tenant_filter: str | None, after: EventPosition
) -> AsyncGenerator[bytes, None]:
    async with topics.join(run_id, tenant_filter=tenant_filter) as topic:
        if topic.is_over and not (await events_after(log, run_id, after, 1))[0]:
            return
        yield streams.RETRY
        async with aclosing(topic.follow_events(after)) as batches:
            async for batch in batches:
                events = [(item, translate.event_out(item)) for item in batch]
                yield b"".join(
                    streams.event(plain["type"], orjson.dumps(plain), translate.place_out(item.place))
                    for item, plain in events
                ) or streams.comment("alive")


def _place(cursor: str | None) -> EventPosition:
    if not cursor:
        return START
    place = translate.place_in(cursor)
    if place is None:
        raise InvalidRequest("cursor: it is not the nextCursor of a page of events; leave it out to begin")
    return place
