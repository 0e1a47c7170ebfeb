"""`/pdca/strategies`: register, replace and remove strategies."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.pdca.ids import is_strategy_id, parse_strategy_id
from pyoco_server.domain.pdca.strategies import new_strategy
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.pdca import strategy_schemas as schemas
from pyoco_server.http_api.api.pdca.recheck_routes import in_time
from pyoco_server.http_api.dependencies import CallerDep, StrategiesDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.protocol.request_parsing import read
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import PDCA

router = APIRouter(prefix="/pdca/strategies", tags=["pdca"])

StrategyIdPath = Annotated[
    str, Path(alias="id", description="The strategy's id: a-z 0-9 . _ -", examples=[schemas.STRATEGY_ID])
]

_EXAMPLE = {"application/json": {"example": schemas.STRATEGY_EXAMPLE}}
_BODY = request_body(schemas.StrategyPut)
_BODY["requestBody"]["content"]["application/json"]["example"] = schemas.STRATEGY_EXAMPLE
_PUT: dict[int | str, dict[str, Any]] = {
    200: {"model": schemas.StrategyOut, "description": "Replaced, or as it was", "content": _EXAMPLE},
    201: {"model": schemas.StrategyOut, "description": "A new strategy", "content": _EXAMPLE},
    **PDCA.failures(400, 409, 429, 500),
}


@router.put("/{id}", responses=_PUT, openapi_extra=_BODY)
@requires_scope(Scope.PDCA_ADMIN)
async def put_strategy(
    strategy_id: StrategyIdPath, request: Request, strategies: StrategiesDep, caller: CallerDep
) -> Response:
    """Register a strategy, or replace the one of this id. The next list of this gateway shows it."""
    parsed, body = parse_strategy_id(strategy_id), await request.body()
    given = read(schemas.StrategyPut, body)
    if given.id not in (None, parsed):
        raise InvalidRequest("id: the body names another strategy than the path")
    strategy = new_strategy(
        strategy_id=parsed, title=given.title, instrument=given.instrument, enabled=given.enabled, tags=given.tags
    )
    async with in_time(), IdempotentRequest(request, of_json(body)) as once:
        if turn := once.attempt:
            is_new = await strategies.put(caller.tenant_id, strategy, context=turn.context)
            once.response = json_response(schemas.strategy_out(strategy), 201 if is_new else 200)
    return once.answer


@router.delete("/{id}", status_code=204, response_class=Response, responses=PDCA.failures(400, 409, 429, 500))
@requires_scope(Scope.PDCA_ADMIN)
async def delete_strategy(
    strategy_id: StrategyIdPath, request: Request, strategies: StrategiesDep, caller: CallerDep
) -> Response:
    """Remove a strategy; what is not there is removed already. Its results stay as long as their runs."""
    async with in_time(), IdempotentRequest(request, of_json()) as once:
        if turn := once.attempt:
            if is_strategy_id(strategy_id):
                await strategies.delete(caller.tenant_id, parse_strategy_id(strategy_id), context=turn.context)
            once.response = Response(status_code=204)
    return once.answer
