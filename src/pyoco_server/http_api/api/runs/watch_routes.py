"""`GET /runs/{run_id}/watch`: a run as it changes, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.http_api.api.runs import translate
from pyoco_server.http_api.api.runs.routes import Include, RunIdPath
from pyoco_server.http_api.dependencies import CallerDep, FleetDep, HolderDep, TopicsDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import streams
from pyoco_server.http_api.responses.problems import failures

router = APIRouter(prefix="/runs", tags=["runs"])

EXAMPLE = """\
retry: 2000

id: 41
event: snapshot
data: {"run_id":"0198…","snapshot":{"run_id":"0198…","status":"RUNNING","tasks":{"a":"RUNNING"}},"ts":1762300000.1}

event: heartbeat
data: {"run_id":"0198…","snapshot":{"run_id":"0198…","status":"RUNNING","tasks":{"a":"RUNNING"}},"ts":1762300015.2}

id: 44
event: snapshot
data: {"run_id":"0198…","snapshot":{"run_id":"0198…","status":"COMPLETED","tasks":{"a":"SUCCEEDED"}},"ts":1762300016}
"""

ANSWERS: dict[int | str, dict[str, Any]] = {
    200: streams.described(
        "Events `snapshot` (something changed; has an `id` to resume from) and `heartbeat` (nothing did). The data of "
        "each is `{run_id, snapshot, ts}`: a RunSnapshot and the unix seconds at which the run was in that state. The "
        "stream ends right after the snapshot of a finished run.",
        EXAMPLE,
        ("snapshot", "heartbeat"),
    ),
    204: {"description": "The run is finished and the caller has seen it: a browser does not connect again."},
    **failures(404, 422, 503),
}


@router.get("/{run_id}/watch", status_code=200, response_class=Response, responses=ANSWERS)
@requires_scope(Scope.RUNS_READ)
async def watch_run(
    run_id: RunIdPath,
    topics: TopicsDep,
    fleet: FleetDep,
    caller: CallerDep,
    holder: HolderDep,
    include: Include = None,
    since: Annotated[float | None, Query(allow_inf_nan=False, description="Unix seconds: only later changes.")] = None,
    timeout_sec: Annotated[
        int | None, Query(ge=1, le=600, description="End the stream after this; absent: with the run.")
    ] = None,
    last_event_id: streams.LastEventId = None,
) -> Response:
    """Follow a run: what it is now, then every change, until it is finished."""
    after = translate.version_of(last_event_id)

    async def events() -> AsyncGenerator[bytes, None]:
        async with topics.join(
            parse_run_id(run_id), tenant_filter=caller.tenant_filter, caller=caller, holder=holder
        ) as topic:
            if topic.is_end_known(after, since):
                return
            yield streams.RETRY
            async with aclosing(topic.follow_run(after=after, since=since, timeout_sec=timeout_sec)) as updates:
                async for update in updates:
                    yield translate.watch_event(update, fleet.facts_of, records=bool(include))

    return await streams.EventStream.of(events())
