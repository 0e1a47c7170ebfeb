"""`GET /stats`: time series of the stored runs, for charts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.queries.stats import (
    DAY,
    HOUR,
    MAX_POINTS,
    MAX_WINDOW_SEC,
    NO_RUNS,
    Figures,
    StatsQuery,
    figures,
    steps_of,
)
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.overview import RetentionSec
from pyoco_server.http_api.dependencies import CallerDep, ConfigDep, ListsDep, StoresDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.fields import Strict, Tag
from pyoco_server.http_api.protocol.times import QueryTime
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers

router = APIRouter(tags=["overview"])

Seconds = Annotated[float | None, Field(description="Within 10 %; null where there was no such run.", examples=[1.19])]


class RunTotals(BaseModel):
    """Stored runs by when they were submitted, started and ended. Percentiles are by nearest rank.

    The queue time is that of runs that started, from their submission; the run time is that of runs that ended, from
    their first start.
    """

    submitted: int
    completed: int
    failed: int
    cancelled: int
    queue_p50_sec: Seconds
    queue_p95_sec: Seconds
    run_p50_sec: Seconds
    run_p95_sec: Seconds


class StatsPoint(RunTotals):
    """An interval."""

    at: int = Field(description="Its beginning, in unix seconds.", examples=[1771416000])


class StatsOut(BaseModel):
    """Whole intervals that cover the window."""

    since: int = Field(description="The beginning of the first interval, in unix seconds.")
    until: int = Field(description="The end of the last one.")
    step_sec: int = Field(description="The length of an interval.", examples=[60])
    points: list[StatsPoint] = Field(description="Every interval, also those without runs.")
    total: RunTotals
    retention_sec: RetentionSec
    kept_since: float | None = Field(
        description="Runs that ended before it are removed and count no longer; null when runs are kept for ever."
    )
    taken_at: float = Field(description="Unix seconds.", examples=[1771416000.0])


class StatsParams(Strict):
    since: QueryTime | None = Field(default=None, description="An hour before `until` by default.")
    until: QueryTime | None = Field(
        default=None, description=f"Now by default; {MAX_WINDOW_SEC // DAY} days after `since` at most."
    )
    points: int = Field(
        default=60,
        ge=1,
        le=MAX_POINTS,
        description="How many intervals are as long as the window, at most. They are from a minute to a day long, and "
        "an hour at least in a window of more than a day.",
    )
    flow: str | None = Field(default=None, min_length=1, max_length=256, description="Only runs of this flow.")
    tag: Tag | None = Field(default=None, description="Only runs with this routing tag.")


@router.get("/stats", responses=answers(StatsOut, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.RUNS_READ)
async def get_stats(
    lists: ListsDep, stores: StoresDep, config: ConfigDep, caller: CallerDep, params: Annotated[StatsParams, Query()]
) -> Response:
    """How many runs were submitted and ended, how long they waited and ran, by intervals of a window.

    Only runs that are stored count: `kept_since` says whether the window is longer than they are kept.
    """
    now = stores.clock.now()
    since, until, step_sec = steps_of(*_window(params, now), params.points)
    query = StatsQuery(
        since=since, until=until, step_sec=step_sec, tenant_id=caller.tenant_filter, flow=params.flow, tag=params.tag
    )
    found = await lists.stats(query)
    shown = {start: figures(counters) for start, counters in found.points.items()}
    return json_response(
        {
            "since": since,
            "until": until,
            "step_sec": step_sec,
            "points": [_point(start, shown.get(start, NO_RUNS)) for start in range(since, until, step_sec)],
            "total": figures(found.total)._asdict(),
            "retention_sec": config.run_retention_sec,
            "kept_since": now - config.run_retention_sec if config.run_retention_sec else None,
            "taken_at": now,
        }
    )


def _window(params: StatsParams, now: float) -> tuple[float, float]:
    until = now if params.until is None else params.until
    since = until - HOUR if params.since is None else params.since
    if since >= until:
        raise InvalidRequest("since: it is not before until")
    if until - since > MAX_WINDOW_SEC:
        days = MAX_WINDOW_SEC // DAY
        raise InvalidRequest(f"since: the window is longer than {days} days")
    return since, until


def _point(start: int, found: Figures) -> dict[str, Any]:
    return {"at": start, **found._asdict()}
