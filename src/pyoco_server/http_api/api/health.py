"""`GET /health`: whether the gateway is alive; works without the broker. `GET /ready`: whether it accepts runs."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from pyoco_server import __version__
from pyoco_server.errors import EngineMisconfigured
from pyoco_server.http_api.dependencies import AirflowDep, ReadinessDep, StoresDep
from pyoco_server.http_api.middleware.authentication import public_route
from pyoco_server.http_api.protocol.query_names import accepts_any_query
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.http_api.responses.problems import RETRY_AFTER_SEC, RUNS, Problem
from pyoco_server.services.pdca.engine_watch import EngineWatch

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """`status` is about this process; `nats` says whether runs can be accepted right now."""

    status: Literal["ok"] = "ok"
    nats: Literal["connected", "away"]
    version: str = __version__


class Airflow(BaseModel):
    """What this gateway found when it last looked at Airflow, at most a few seconds ago."""

    status: Literal["up", "down", "misconfigured", "unchecked"] = Field(
        description="`misconfigured`: an operator has to correct Airflow or the PYOCO_AIRFLOW settings."
    )
    detail: str | None = Field(default=None, description="Why it is not up.")


class Ready(BaseModel):
    """The gateway accepts runs."""

    status: Literal["ready"] = "ready"
    nats: Literal["connected"] = "connected"
    events: Literal["complete", "lost"] = Field(
        description="`lost`: the broker has lost events of some runs; the metrics and the log say how many."
    )
    airflow: Airflow | None = Field(
        default=None, description="Only where Airflow runs the batches of rechecks. Other runs do not need it."
    )
    version: str = __version__


class Unready(Problem):
    """The gateway accepts no runs: the first reason, and all of them."""

    status: Literal["unready"] = "unready"
    reasons: list[Problem] = Field(description="Broker, index and writes, as far as they could be checked.")


@router.get("/health")
@accepts_any_query
@public_route
async def health(stores: StoresDep) -> Health:
    """The gateway is alive; `nats` is the state of its broker connection."""
    return Health(nats="connected" if stores.broker.connected else "away")


@router.get("/ready", responses={200: {"model": Ready}, 503: {"model": Unready}})
@accepts_any_query
@public_route
async def ready(request: Request, readiness: ReadinessDep, stores: StoresDep, airflow: AirflowDep) -> Response:
    """The gateway is connected, its index is complete, and a write was acknowledged within the last second."""
    faults = await readiness.faults()
    if not faults:
        lost = stores.counters.runs_with_lost_events or stores.counters.lost_event_bytes
        found = Ready(events="lost" if lost else "complete", airflow=_shown(airflow, preferred_language(request)))
        return json_response(found.model_dump(exclude_none=True))
    # Not logged per request: probes come every few seconds, and the service logs each change.
    language = preferred_language(request)
    reasons: list[dict[str, Any]] = [RUNS.body(fault, language, 503, "/ready") for fault in faults]
    body = {"status": "unready", **reasons[0], "reasons": reasons}
    return json_response(body, 503, {"Retry-After": RETRY_AFTER_SEC})


def _shown(watch: EngineWatch | None, language: str) -> Airflow | None:
    if watch is None:
        return None
    if watch.fault is None:
        return Airflow(status="up" if watch.was_checked else "unchecked")
    is_misconfigured = isinstance(watch.fault, EngineMisconfigured)
    return Airflow(status="misconfigured" if is_misconfigured else "down", detail=watch.fault.detail_in(language))
