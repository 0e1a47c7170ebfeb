"""`GET /overview`: the present in one small answer, for people and scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from pyoco_server import __version__
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.snapshot import RUN_STATUSES
from pyoco_server.domain.queries.steps import StepKind
from pyoco_server.http_api.dependencies import CallerDep, ConfigDep, OverviewDep, StoresDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.http_api.responses.problems import RUNS, Problem, answers
from pyoco_server.services.projections.overview import Fleet, Overview, TagQueue
from pyoco_server.services.projections.run_figures import MAX_TAGS

router = APIRouter(tags=["overview"])

RetentionSec = Annotated[
    float, Field(description="How long finished runs are kept. 0: for ever.", examples=[2592000.0])
]


class RunCounts(BaseModel):
    """The stored runs by status."""

    PENDING: int
    RUNNING: int
    CANCELLING: int
    COMPLETED: int
    FAILED: int
    CANCELLED: int


class QueueOut(BaseModel):
    """A tag: the runs that wait for a worker of it, and its workers. Those are null without `workers:read`."""

    tag: str = Field(examples=["default"])
    pending: int
    oldest_since: float | None = Field(description="Unix seconds; since when the oldest one has not changed.")
    workers: int | None = Field(description="Running workers that serve the tag.")
    slots: int | None = Field(description="How many runs they can execute at a time.")
    slots_free: int | None


class WorkerCounts(BaseModel):
    """The workers that are not hidden, by state, and the slots of the running ones."""

    RUNNING: int
    IDLE: int
    DISCONNECTED: int
    STOPPED_GRACEFUL: int
    slots: int
    slots_busy: int


class GatewayHealth(BaseModel):
    """Whether this gateway accepts runs, and how far its index is."""

    status: Literal["ready", "unready"]
    reasons: list[Problem] = Field(description="Why it is not ready.")
    index_behind: int = Field(description="Changes of runs that are stored and not in the index yet, at most.")


class OverviewOut(BaseModel):
    """The present. Parts that the caller's scopes do not cover are null."""

    runs: RunCounts
    queues: list[QueueOut] = Field(description=f"The longest first, then other served tags; {MAX_TAGS} at most.")
    workers: WorkerCounts | None = Field(description="null without `workers:read`.")
    waits: int = Field(description="Nodes that wait for input: `GET /waits` lists them.")
    dead_letters: int | None = Field(
        description="null without `dlq:read`, and for a caller of one tenant: they are those of all tenants."
    )
    health: GatewayHealth
    durability: Literal["fsynced", "replicated", "buffered"] = Field(description="When a run counts as stored.")
    retention_sec: RetentionSec
    version: str = __version__
    taken_at: float = Field(description="Unix seconds.", examples=[1771416000.0])


@router.get("/overview", responses=answers(OverviewOut, 422, 503))
@requires_scope(Scope.RUNS_READ)
async def get_overview(
    request: Request, overview: OverviewDep, stores: StoresDep, config: ConfigDep, caller: CallerDep
) -> Response:
    """Runs by status, queues by tag, workers by state, waiting nodes, dead letters and the health of this gateway.

    503 while the broker is away or the index is being built: `GET /ready` says why.
    """
    found = await overview.gather(tenant_filter=caller.tenant_filter)
    reads_workers = caller.may(Scope.WORKERS_READ)
    return json_response(
        {
            "runs": {status: found.runs.counts.get(status, 0) for status in RUN_STATUSES},
            "queues": [_queue_out(queue, reads_workers) for queue in found.queues if reads_workers or queue.pending],
            "workers": _fleet_out(found.fleet) if reads_workers else None,
            "waits": found.runs.nodes[StepKind.WAITING],
            "dead_letters": found.runs.dead_letters if _counts_dead_letters(caller) else None,
            "health": _health(found, preferred_language(request)),
            "durability": stores.durability,
            "retention_sec": config.run_retention_sec,
            "version": __version__,
            "taken_at": found.runs.taken_at,
        }
    )


def _counts_dead_letters(caller: Caller) -> bool:
    return caller.may(Scope.DLQ_READ) and caller.tenant_filter is None


def _queue_out(queue: TagQueue, reads_workers: bool) -> dict[str, Any]:
    shown = asdict(queue)
    shown["oldest_since"] = shown.pop("since")
    return shown if reads_workers else shown | {"workers": None, "slots": None, "slots_free": None}


def _fleet_out(fleet: Fleet) -> dict[str, int]:
    states = {state.value: count for state, count in fleet.states.items()}
    return states | {"slots": fleet.slots, "slots_busy": fleet.slots_busy}


def _health(found: Overview, language: str) -> dict[str, Any]:
    reasons = [RUNS.body(fault, language, 503, "/overview") for fault in found.faults]
    return {
        "status": "unready" if reasons else "ready",
        "reasons": reasons,
        "index_behind": found.runs.index_behind,
    }
