"""`/pdca/recheck`: requests for rechecks, and their progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import run_id_of, ulid_of
from pyoco_server.errors import Unanswered
from pyoco_server.http_api.api.pdca import recheck_schemas as schemas
from pyoco_server.http_api.api.pdca import translate
from pyoco_server.http_api.dependencies import CallerDep, RawRoute, RequestsDep
from pyoco_server.http_api.middleware.access_log import set_pdca_request
from pyoco_server.http_api.middleware.authentication import accepts_audience, requires_one_of, requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json, parameters
from pyoco_server.http_api.protocol.request_parsing import caller_of, read, services_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.http_api.responses.problems import PDCA
from pyoco_server.services.pdca.requests import Asked, RequestService

router = APIRouter(tags=["pdca"])

KEY_CHARS = (8, 64)
# Of the contract's ten seconds, of which authentication may take one; reading the body is the caller's time.
ANSWER_WITHIN_SEC = 8.0
# It names nothing that is done.
NOT_COMPARED = ("trace_id",)

RequestIdPath = Annotated[str, Path(description="The id of the request, a ULID.", examples=[schemas.REQUEST_ID])]

_ESTIMATE = {"strategies": 1, "batches": 1}
ACCEPTED_EXAMPLE = {
    "status": "accepted",
    "request_id": schemas.REQUEST_ID,
    "estimated": _ESTIMATE,
    "dag": {"name": "pdca.recheck", "run_id": "019a9bf1-3d14-7c4d-9d40-6f0c3b1a2e55"},
}
STATUS_EXAMPLE = {
    "request_id": schemas.REQUEST_ID,
    "status": "success",
    "submitted_at": "2025-08-24T03:34:56.000Z",
    "progress": {"total_batches": 1, "completed_batches": 1, "total_strategies": 1, "completed_strategies": 1},
    "summary": {"success": 1, "failed": 0, "health": {"healthy": 1, "degraded": 0, "unknown": 0}},
    "last_update": "2025-08-24T03:35:12.000Z",
    "artifacts": [
        {
            "id": schemas.ARTIFACT_ID,
            "name": "report.md",
            "bytes": 412,
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "media_type": "text/markdown",
        }
    ],
    "dag": {"name": "pdca.recheck", "run_ids": ["019a9bf1-3d14-7c4d-9d40-6f0c3b1a2e55"]},
}
RECHECK_EXAMPLE = {
    "strategies": ["strat.meanrev.m1"],
    "window": {"lookback_days": 14},
    "reason": "manual",
    "dry_run": False,
    "params": {"recalc_metrics": ["sharpe"]},
}
RECHECK_ALL_EXAMPLE = {
    "filter": {"tags_any": ["daily"], "health": ["unknown"]},
    "batch_size": 25,
    "window": {"lookback_days": 7},
    "reason": "daily-bulk",
    "dry_run": False,
}


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """Ends the block, and answers, before the contract's limit."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_SEC):
            yield
    except TimeoutError as error:
        raise Unanswered from error


def _note(request: Request, request_id: RunId) -> None:
    """Name the request in the access log and the trace of this call."""
    ulid = request.scope["pdca_request_id"] = ulid_of(request_id)
    set_pdca_request(request, ulid)


async def _accept(request: Request, asked: Asked, body: bytes) -> Response:
    services = services_of(request)
    digest = of_json(body, leave_out=NOT_COMPARED)
    new_id = services.stores.ids.run_id
    async with (
        in_time(),
        IdempotentRequest(request, digest, required=True, new_id=new_id, key_chars=KEY_CHARS) as once,
    ):
        if turn := once.attempt:
            accepted = await services.requests.accept(asked, caller_of(request), turn)
            _note(request, accepted.request_id)
            once.response = json_response(translate.accepted_out(accepted), 202)
    return once.answer


@requires_scope(Scope.PDCA_RECHECK)
async def recheck(request: Request) -> Response:
    """Check the named strategies again, in batches of 25.

    202 means: no kill of any process can lose the request now. A dry run is only estimated, and its id leads nowhere.
    """
    body = await request.body()
    return await _accept(request, read(schemas.RecheckRequest, body).of(caller_of(request).client_id), body)


@requires_scope(Scope.PDCA_RECHECK_ALL)
async def recheck_all(request: Request) -> Response:
    """Check all enabled strategies again that the filter admits.

    A filter that admits none is a request without batches, which has succeeded at once. More than 2,000 batches are
    refused: raise `batch_size`, or narrow the filter.
    """
    body = await request.body()
    return await _accept(request, read(schemas.RecheckAllRequest, body).of(caller_of(request).client_id), body)


def _add(path: str, endpoint: Any, model: Any, example: Mapping[str, Any], *more: int) -> None:
    described = request_body(model)
    described["requestBody"]["content"]["application/json"]["example"] = example
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        status_code=202,
        route_class_override=RawRoute,
        responses={
            202: {
                "model": schemas.RecheckAccepted,
                "description": "Stored and started, or answered before with the same key",
                "content": {"application/json": {"example": ACCEPTED_EXAMPLE}},
            },
            **PDCA.failures(400, *more, 409, 429, 500, 502),
        },
        openapi_extra={"parameters": parameters(required=True, key_chars=KEY_CHARS), **described},
    )


_add("/pdca/recheck", recheck, schemas.RecheckRequest, RECHECK_EXAMPLE, 404)
_add("/pdca/recheck_all", recheck_all, schemas.RecheckAllRequest, RECHECK_ALL_EXAMPLE)

_SHOWN: dict[int | str, dict[str, Any]] = {
    200: {"model": schemas.RecheckStatus, "content": {"application/json": {"example": STATUS_EXAMPLE}}},
    **PDCA.failures(400, 404, 429, 500),
}


async def _show(request: Request, request_id: str, requests: RequestService, caller: Caller) -> Response:
    run_id = run_id_of(request_id)
    _note(request, run_id)
    async with in_time():
        shown = await requests.show(run_id, tenant_filter=caller.tenant_filter)
    return json_response(translate.status_out(shown, preferred_language(request)))


@router.get("/pdca/recheck/{request_id}", responses=_SHOWN)
@accepts_audience("pdca", "pdca.gui")
@requires_one_of(Scope.PDCA_READ, Scope.PDCA_RECHECK, Scope.PDCA_RECHECK_ALL)
async def get_recheck(
    request_id: RequestIdPath, request: Request, requests: RequestsDep, caller: CallerDep
) -> Response:
    """How far a request is, in numbers that add up."""
    return await _show(request, request_id, requests, caller)


@router.get("/gui/requests/{request_id}", responses=_SHOWN)
@requires_scope(Scope.PDCA_READ)
async def get_gui_request(
    request_id: RequestIdPath, request: Request, requests: RequestsDep, caller: CallerDep
) -> Response:
    """The same as `GET /pdca/recheck/{request_id}`, for tokens of the GUI."""
    return await _show(request, request_id, requests, caller)
