"""`GET /executions/{executionId}/events`: the events of an execution, as pages or as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, RunId, parse_run_id
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas, translate
from pyoco_server.http_api.api.executions.routes import ExecutionIdPath, shown
from pyoco_server.http_api.dependencies import CallerDep, ExecutionsDep, HolderDep, StoresDep, TopicsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import json_response, streams
from pyoco_server.services.context import Stores
from pyoco_server.services.projections.event_history import (
    START,
    EventEntry,
    EventPosition,
    events_after,
    selected_events,
)
from pyoco_server.services.streaming.topics import RunTopics

router = APIRouter(prefix="/executions", tags=["executions"])

EXAMPLE = """\
retry: 2000

id: 41.0
event: EXECUTION_CREATED
data: {"eventId":"0198….0","type":"EXECUTION_CREATED","occurredAt":"2026-01-01T00:00:00.000Z","version":41}

: alive
"""
ANSWERS = shown(schemas.EventList, 404, 422, 503)
ANSWERS[200] |= streams.described(
    "JSON, or with `Accept: text/event-stream` each event as it is stored, with its type as the event's name and an "
    "`id` to resume from; comments are heartbeats, and the stream ends when the execution has.",
    EXAMPLE,
)
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
    holder: HolderDep,
    cursor: Annotated[
        str | None, Query(max_length=64, description="The `nextCursor` of the page before, or the id of an event.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Of a page; a stream has no limit.")] = 200,
    order: Annotated[Literal["asc", "desc"], Query(description="Of pages: `desc` begins with the newest.")] = "asc",
    node_id: Annotated[
        str | None,
        Query(alias="nodeId", max_length=MAX_NODE_ID_CHARS, description="Of pages: only the events of this node."),
    ] = None,
    last_event_id: streams.LastEventId = None,
) -> Response:
    """The events of an execution, in order."""
    run_id = parse_run_id(execution_id)
    if "text/event-stream" in request.headers.get("accept", ""):
        after = translate.place_in(last_event_id) or _place(cursor)
        return await streams.EventStream.of(_events(stores, topics, run_id, caller, holder, after))
    await executions.look(run_id, tenant_filter=caller.tenant_filter)
    if order == "asc" and node_id is None:
        found, more = await events_after(stores.events, run_id, _place(cursor), limit)
    else:
        found, more = await selected_events(
            stores.events, run_id, _place(cursor), limit, node_id=node_id, is_newest_first=order == "desc"
        )
    following = translate.place_out(found[-1].place) if more else None
    return json_response(
        translate.page_out([translate.event_out(item) for item in found], following, executionId=run_id)
    )


async def _events(
    stores: Stores, topics: RunTopics, run_id: RunId, caller: Caller, holder: str, after: EventPosition
) -> AsyncGenerator[bytes, None]:
    async with topics.join(run_id, tenant_filter=caller.tenant_filter, caller=caller, holder=holder) as topic:
        if topic.is_over and not (await events_after(stores.events, run_id, after, 1))[0]:
            return
        yield streams.RETRY
        async with aclosing(topic.follow_events(after)) as batches:
            async for batch in batches:
                yield b"".join([_event(item) for item in batch]) or streams.comment("alive")


def _event(item: EventEntry) -> bytes:
    plain = translate.event_out(item)
    return streams.event(plain["type"], orjson.dumps(plain), translate.place_out(item.place))


def _place(cursor: str | None) -> EventPosition:
    if not cursor:
        return START
    place = translate.place_in(cursor)
    if place is None:
        raise InvalidRequest("cursor: it is not the nextCursor of a page of events; leave it out to begin")
    return place
