"""`GET /executions/{executionId}/events`: who did what, when; page by page, or as server-sent events."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Query, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas, translate
from pyoco_server.http_api.api.executions.routes import ExecutionIdPath, json_response, shown
from pyoco_server.http_api.dependencies import CallerDep, GatewayDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import streams
from pyoco_server.services.gateway import Gateway
from pyoco_server.services.projections.event_history import START, EventPosition, EventTail, events_after

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


class _Stream:
    """The events of one tail, as server-sent events."""

    def __init__(self, gateway: Gateway, tail: EventTail) -> None:
        self._gateway = gateway
        self._tail = tail
        self.end = tail.end

    async def next(self) -> bytes | None:
        found = await self._tail.next()
        if found is None:
            return None
        if not found:
            return streams.comment("alive")
        told = [(item, translate.event_out(item)) for item in found]
        return b"".join(
            streams.event(plain["type"], orjson.dumps(plain), translate.place_out(item.place)) for item, plain in told
        )

    def close(self) -> None:
        self._gateway.watches.leave(self._tail)
        self._tail.close()


@router.get(
    "/{executionId}/events", response_class=Response, responses=ANSWERS, dependencies=[given_once(InvalidRequest)]
)
@requires_scope(Scope.RUNS_READ)
async def list_events(
    execution_id: ExecutionIdPath,
    request: Request,
    gateway: GatewayDep,
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
    execution = await gateway.executions.look(run_id, tenant_filter=caller.tenant_filter)
    if "text/event-stream" in request.headers.get("accept", ""):
        return await _stream(gateway, execution, translate.place_in(last_event_id) or _place(cursor))
    found, more = await events_after(gateway.stores.events, run_id, _place(cursor), limit)
    following = translate.place_out(found[-1].place) if more else None
    return json_response(
        translate.page_out([translate.event_out(item) for item in found], following, executionId=run_id)
    )


async def _stream(gateway: Gateway, execution: Execution, after: EventPosition) -> Response:
    run_id: RunId = execution.execution_id
    is_over = execution.status.is_terminal
    if is_over and not (await events_after(gateway.stores.events, run_id, after, 1))[0]:
        return Response(status_code=204)
    tail = EventTail(gateway.stores.events, run_id, after, heartbeat_sec=gateway.config.http_watch_heartbeat_sec)
    gateway.watches.enter(tail)
    try:
        await tail.open(gateway.live, is_over=is_over)
    except BaseException:
        gateway.watches.leave(tail)
        raise
    return streams.EventStream(_Stream(gateway, tail))


def _place(cursor: str | None) -> EventPosition:
    if not cursor:
        return START
    place = translate.place_in(cursor)
    if place is None:
        raise InvalidRequest("cursor: it is not the nextCursor of a page of events; leave it out to begin")
    return place
