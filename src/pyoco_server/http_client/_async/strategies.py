"""Methods for strategies and rechecks: list and show them."""

from __future__ import annotations

from typing import Literal

from pyoco_server.http_client._async.base import AsyncMethods
from pyoco_server.http_client.models.strategies import Recheck, StrategyDetails, StrategyPage
from pyoco_server.http_client.requests import Request, Strings, get, id_path, joined, read_page


class AsyncStrategyMethods(AsyncMethods):
    async def list_strategies(
        self,
        q: str | None = None,
        tags_any: Strings = None,
        health: Strings = None,
        instrument: Strings = None,
        enabled: Literal["all", "on", "off"] | None = None,
        sort: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> StrategyPage:
        """One page of the strategies; `q` is a part of the id or the title, and of several values any fits."""
        request: Request[StrategyPage] = get(
            "/gui/strategies",
            read=read_page(),
            q=q,
            tags_any=joined(tags_any),
            health=joined(health),
            instrument=joined(instrument),
            enabled=enabled,
            sort=sort,
            page=page,
            page_size=page_size,
        )
        return await self._transport.send(request)

    async def get_strategy(
        self, strategy_id: str, summary_window_days: int | None = None, limit_history: int | None = None
    ) -> StrategyDetails:
        """A strategy with averages over the last days, its newest results and their files."""
        path = id_path("/gui/strategies", "strategy_id", strategy_id)
        return await self._transport.send(
            get(path, summary_window_days=summary_window_days, limit_history=limit_history)
        )

    async def get_recheck(self, request_id: str) -> Recheck:
        """The progress of a request for a recheck."""
        return await self._transport.send(get(id_path("/pdca/recheck", "request_id", request_id)))
