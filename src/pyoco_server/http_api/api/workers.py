"""`/workers`: list the fleet, hide workers from the list."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.fleet.records import WorkerState, to_plain
from pyoco_server.domain.fleet.worker_status import WorkerQuery, WorkerStatus, filter_workers
from pyoco_server.domain.ids import RunId, parse_worker_id
from pyoco_server.errors import InvalidRequest, InvalidWorkersRequest, WorkerNotFound
from pyoco_server.http_api.dependencies import CallerDep, FleetDep, ListsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.fields import Open, Strict
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.protocol.request_parsing import read, services_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.services.audit.trail import AuditTrail

router = APIRouter(prefix="/workers", tags=["workers"])

StateWord = Literal["RUNNING", "IDLE", "STOPPED_GRACEFUL", "DISCONNECTED"]


class WorkerCode(BaseModel):
    """The sources of a worker's flows."""

    version: str | None = Field(description="A hash of the sources that every new run gets.", examples=["3f2a91c07d4e"])
    reload: bool = Field(description="Whether saved files are loaded while it runs (`PYOCO_CODE_RELOAD`).")
    changed: bool = Field(description="The files on disk are another version, which is not served.")
    error: str | None = Field(description="Why the saved files could not be loaded.")


class Worker(Open):
    """A worker: its last record and the resulting state. More fields may be added at any time."""

    worker_id: str = Field(examples=["gpu-1"])
    instance_id: str = Field(description="One life of the worker: new with each start.")
    state: StateWord
    hidden: bool
    last_seen_at: float = Field(description="Unix seconds, by the worker's clock.", examples=[1767225600.0])
    last_heartbeat_at: float
    heartbeat_at: float
    silent_sec: float = Field(description="The time since its last heartbeat, by this gateway's clock.")
    tags: list[str] = Field(examples=[["default", "gpu"]])
    slots: int
    slots_busy: int
    current_run_id: str | None = Field(description="The oldest of its runs.")
    current_run_ids: list[str] = Field(description="Its runs, as far as the caller may see them.")
    last_run_id: str | None
    last_run_status: str | None
    started_at: float | None
    stopped_at: float | None
    stop_reason: str | None
    wheel_sync: dict[str, Any] | None
    code: WorkerCode | None = Field(description="The version of the flows' sources that it serves; null when unknown.")
    isolation: Literal["shared", "tenant", "run"] = Field(description="What a runner of it serves one after the other.")
    runner_user: str | None = Field(description="The user that its tasks run as.", examples=["pyoco-runner"])
    flows: list[str] = Field(description="The flows that it announces; it may serve others.", examples=[["hello"]])


class WorkersQuery(Strict):
    scope: Literal["active", "all"] = Field(default="active", description="`active`: RUNNING and IDLE.")
    state: StateWord | None = Field(default=None, description="Only these; overrides `scope`.")
    include_hidden: bool = False
    limit: int = Field(default=200, ge=1, le=500)

    def asked(self) -> WorkerQuery:
        return WorkerQuery(
            include_inactive=self.scope == "all",
            state=WorkerState(self.state) if self.state else None,
            include_hidden=self.include_hidden,
        )


class WorkerPatchRequest(Strict):
    """The change of a worker."""

    model_config = ConfigDict(json_schema_extra={"example": {"hidden": True}})

    hidden: StrictBool = Field(description="Hide it from the lists; it continues to work.")


class WorkerPatched(BaseModel):
    """The stored change."""

    worker_id: str
    hidden: bool
    updated_at: float


_COUNT = {"X-Total-Count": {"description": "How many there are, whatever the limit.", "schema": {"type": "integer"}}}
_LISTED = answers(list[Worker], 422, 503)
_LISTED[200]["headers"] = _COUNT


@router.get("", responses=_LISTED, dependencies=[given_once(InvalidWorkersRequest)])
@requires_scope(Scope.WORKERS_READ)
async def list_workers(
    fleet: FleetDep, lists: ListsDep, caller: CallerDep, query: Annotated[WorkersQuery, Query()]
) -> Response:
    """Active workers by name, then lost, then stopped ones, the latest seen first. `X-Total-Count` has their number."""
    found = filter_workers(await fleet.all_workers(), query.asked())
    shown = found[: query.limit]
    visible = None if caller.tenant_filter is None else lists.runs_of(caller.tenant_filter, among=_runs(shown))
    workers = [_worker_out(seen, visible, caller.tenant_filter) for seen in shown]
    return json_response(workers, headers={"X-Total-Count": str(len(found))})


@router.patch(
    "/{worker_id}",
    responses=answers(WorkerPatched, 404, 409, 413, 422, 503),
    openapi_extra=request_body(WorkerPatchRequest),
)
@requires_scope(Scope.WORKERS_WRITE)
async def patch_worker(
    worker_id: Annotated[str, Path(description="The worker's name.")], request: Request, fleet: FleetDep
) -> Response:
    """Hide a worker from the lists, or show it again."""
    try:
        parsed = parse_worker_id(worker_id)
    except InvalidRequest as malformed:
        raise WorkerNotFound(worker_id=worker_id[:128]) from malformed
    body = await request.body()
    try:
        hidden = read(WorkerPatchRequest, body).hidden
    except InvalidRequest as rejected:
        raise InvalidWorkersRequest(rejected.detail) from rejected

    async with IdempotentRequest(request, of_json(body)) as once:
        if turn := once.attempt:
            trail, action = AuditTrail.of(services_of(request).stores), "worker.hide" if hidden else "worker.show"
            async with trail.change(action, "worker", parsed, turn.context):
                updated_at = await fleet.set_hidden(parsed, hidden)
            once.response = json_response({"worker_id": parsed, "hidden": hidden, "updated_at": updated_at})
    return once.answer


def _runs(fleet: Sequence[WorkerStatus]) -> list[RunId]:
    last = [seen.record.last_run_id for seen in fleet if seen.record.last_run_id is not None]
    return [*last, *(run_id for seen in fleet for run_id in seen.record.current_run_ids)]


def _worker_out(seen: WorkerStatus, visible: Container[RunId] | None, tenant_filter: str | None) -> dict[str, Any]:
    """The stored record with the present state, without the runs and wheels of other tenants."""
    shown = to_plain(replace(seen.record, flows=())) | {
        "flows": [flow.name for flow in seen.record.flows],
        "state": seen.state.value,
        "silent_sec": round(seen.silent_sec, 3),
        "slots_busy": seen.busy,
    }
    if visible is None:
        return shown
    if isinstance(sync := shown.get("wheel_sync"), dict) and isinstance(tenants := sync.get("tenants"), dict):
        own = {tenant_id: report for tenant_id, report in tenants.items() if tenant_id == tenant_filter}
        shown["wheel_sync"] = sync | {"tenants": own}
    current = [run_id for run_id in seen.record.current_run_ids if run_id in visible]
    shown |= {"current_run_ids": current, "current_run_id": current[0] if current else None}
    if seen.record.last_run_id not in visible:
        shown |= {"last_run_id": None, "last_run_status": None}
    return shown
