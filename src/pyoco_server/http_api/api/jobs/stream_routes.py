"""`GET /jobs/{id}/logs/stream`: what a job writes, line by line as it is stored, as server-sent events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.domain.run_logs.lines import LineFilter
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import InvalidLogQuery
from pyoco_server.http_api.api.jobs import stream_encoding
from pyoco_server.http_api.api.jobs.log_schemas import LinesQuery
from pyoco_server.http_api.api.jobs.routes import JobIdPath
from pyoco_server.http_api.api.jobs.translate import status_of
from pyoco_server.http_api.dependencies import CallerDep, ExecutionsDep, LogStreamsDep, WatchesDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import streams
from pyoco_server.http_api.responses.problems import job_failures
from pyoco_server.services.streaming.log_stream_hub import LogFollower, LogStreamHub, Sign
from pyoco_server.services.streaming.watch_hub import WatchHub

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
# Of one event, as those tools want it that know streams.
EVENT = {
    "type": "object",
    "required": ["event", "id", "data"],
    "properties": {
        "event": {"enum": ["logEntry", "end"]},
        "id": {"type": "string", "description": "A place in the log; `Last-Event-ID` goes on behind it."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": (
            "Events `logEntry`, one per line, with an `id` to go on from; comments show life. When the job is over, "
            "and all its lines are told, `end` says how it ended, and the stream closes."
        ),
        "content": {streams.EventStream.media_type: {"schema": EVENT, "example": EXAMPLE}},
    },
    204: {"description": "The job is over and the caller was told so: a browser does not connect again."},
    **job_failures(404, 422, 503),
}


class _Events:
    """What one follower is told, as server-sent events. It counts as a stream until it is closed."""

    def __init__(self, watches: WatchHub, log_streams: LogStreamHub) -> None:
        self._watches = watches
        self._log_streams = log_streams
        self._follower: LogFollower | None = None
        self._opening = b""
        self._is_ended = False
        watches.enter(self)

    async def open(
        self, run_id: RunId, *, tenant_filter: str | None, place: LogPosition, tail: int | None, only: LineFilter
    ) -> None:
        try:
            self._follower = await self._log_streams.follow(
                run_id, tenant_filter=tenant_filter, place=place, tail=tail, only=only
            )
        finally:
            if self._follower is None:
                self.close()
        if tail is not None:
            # Where the tail began: who is cut off before its first line must not be told a later tail.
            self._opening = stream_encoding.place_event(self._follower.place)

    async def next(self) -> bytes | None:
        if self._is_ended or self._follower is None:
            return None
        if self._opening:
            opening, self._opening = self._opening, b""
            return opening
        told = await self._follower.next()
        match told:
            case Sign.STOPPED:
                return None
            case Sign.ALIVE:
                return streams.comment("alive")
            case Sign.OVER:
                self._is_ended = True
                return stream_encoding.end_event(status_of(self._follower.view.plain), self._follower.place)
            case _:
                return b"".join(
                    [stream_encoding.log_events(stretch) for stretch in await self._follower.with_more(told)]
                )

    def end(self) -> None:
        self._is_ended = True
        if self._follower is not None:
            self._follower.end()

    def close(self) -> None:
        self._watches.leave(self)
        if self._follower is not None:
            self._follower.close()


@router.get("/{id}/logs/stream", response_class=Response, responses=ANSWERS, dependencies=[given_once(InvalidLogQuery)])
@requires_scope(Scope.RUNS_READ)
async def follow_job_log(
    job_id: JobIdPath,
    executions: ExecutionsDep,
    watches: WatchesDep,
    log_streams: LogStreamsDep,
    caller: CallerDep,
    query: Annotated[LinesQuery, Query()],
    last_event_id: Annotated[
        str | None, Header(description="Go on behind this event; browsers send it by themselves.")
    ] = None,
) -> Response:
    """Follow what a job writes, from its first line or from any other, until the job is over."""
    run_id, place = parse_run_id(job_id), query.place(parse_run_id(job_id))
    had = stream_encoding.resume_point(last_event_id)
    if had is not None and had.end:
        snapshot = await executions.get_snapshot(run_id, tenant_filter=caller.tenant_filter)
        if snapshot["status"] in TERMINAL_RUN_STATUSES:
            return Response(status_code=204)
    events = _Events(watches, log_streams)
    await events.open(
        run_id,
        tenant_filter=caller.tenant_filter,
        place=place if had is None else had.place,
        tail=query.tail if had is None else None,  # a browser that comes back asks for the same as before
        only=query.only,
    )
    return streams.EventStream(events)
