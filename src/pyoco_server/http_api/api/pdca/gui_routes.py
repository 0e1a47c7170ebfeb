"""`/gui/strategies`: strategies by page, and the results of one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.pdca.ids import StrategyId, is_strategy_id
from pyoco_server.errors import InvalidRequest, StrategyNotFound
from pyoco_server.http_api.api.pdca import strategy_schemas as schemas
from pyoco_server.http_api.api.pdca.recheck_routes import in_time
from pyoco_server.http_api.api.pdca.strategy_routes import StrategyIdPath
from pyoco_server.http_api.dependencies import CallerDep, StrategiesDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import PDCA

router = APIRouter(prefix="/gui/strategies", tags=["pdca"], dependencies=[given_once(InvalidRequest)])


def _answers(model: Any, example: Any, *failures: int) -> dict[int | str, dict[str, Any]]:
    content = {"application/json": {"example": example}}
    return {200: {"model": model, "content": content}, **PDCA.failures(400, *failures, 429, 500)}


@router.get("", responses=_answers(schemas.StrategyList, schemas.LIST_EXAMPLE))
@requires_scope(Scope.PDCA_READ)
async def list_strategies(
    strategies: StrategiesDep, caller: CallerDep, query: Annotated[schemas.StrategiesQuery, Query()]
) -> Response:
    """Strategies with their newest results, by page.

    Strategies that were never checked are the last ones of `last_checked_at.desc`; those with equal fields are in the
    order of their ids.
    """
    async with in_time():
        page = await strategies.page(caller.tenant_id, query.of())
    return json_response(schemas.page_out(query, page))


@router.get("/{id}", responses=_answers(schemas.StrategyDetail, schemas.DETAIL_EXAMPLE, 404))
@requires_scope(Scope.PDCA_READ)
async def get_strategy(
    strategy_id: StrategyIdPath,
    strategies: StrategiesDep,
    caller: CallerDep,
    query: Annotated[schemas.DetailQuery, Query()],
) -> Response:
    """A strategy with averages, its newest results and their files. Results are kept as long as their runs."""
    tenant_id, known, days = caller.tenant_id, _known(strategy_id), query.summary_window_days
    async with in_time():
        listed = await strategies.get(tenant_id, known)
        results = await strategies.history(tenant_id, known, limit=query.limit_history)
        averages = await strategies.averages(tenant_id, known, days=days)
    return json_response(schemas.detail_out(listed, results, averages, days))


@router.get("/{id}/results", responses=_answers(schemas.ResultList, schemas.RESULTS_EXAMPLE, 404))
@requires_scope(Scope.PDCA_READ)
async def get_results(
    strategy_id: StrategyIdPath,
    strategies: StrategiesDep,
    caller: CallerDep,
    query: Annotated[schemas.ResultsQuery, Query()],
) -> Response:
    """The results of a strategy, newest first."""
    async with in_time():
        results = await strategies.history(
            caller.tenant_id,
            _known(strategy_id),
            checked_from=query.checked_from,
            checked_to=query.checked_to,
            limit=query.limit,
        )
    return json_response({"items": schemas.results_out(results)})


def _known(text: str) -> StrategyId:
    """No strategy has an id of another form."""
    if not is_strategy_id(text):
        raise StrategyNotFound("no strategy has an id of this form")
    return StrategyId(text)
