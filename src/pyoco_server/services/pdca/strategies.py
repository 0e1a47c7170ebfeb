"""The registry of strategies, their results, and how far requests are.

Strategies, results and requests belong to a tenant; other tenants' do not exist for a caller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.listing import ListedStrategy, StrategyPage, StrategyQuery
from pyoco_server.domain.pdca.strategies import RequestProgress, StoredResult, Strategy, StrategyFilter
from pyoco_server.errors import BrokerUnavailable, IndexUnavailable, InvalidRequest, StrategyNotFound
from pyoco_server.ports import StrategyResults
from pyoco_server.services.audit.trail import AuditTrail
from pyoco_server.services.audit.trail import Change as AuditedChange
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.pdca.registry import Change, register
from pyoco_server.services.pdca.result_projector import ResultProjector
from pyoco_server.services.pdca.strategy_tables import StrategyTables
from pyoco_server.services.projections.lists import FIRST_FILL_WAIT_SEC, OWN_WRITE_WAIT_SEC, list_is_stale

logger = logging.getLogger(__name__)

# Of the ids that an error names.
MAX_NAMED = 10

NOT_FILLED = "the list of strategies is being built after a start; try again in a moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyService:
    """Strategies of every tenant. Lists show this gateway's own writes."""

    stores: Stores
    results: StrategyResults
    tables: StrategyTables
    projector: ResultProjector

    async def put(self, tenant_id: str | None, strategy: Strategy, *, context: CommandContext) -> bool:
        """Register the strategy, or replace the one of its id; returns whether it is new. A repeat changes nothing."""
        present = await self.stores.strategies.get(tenant_id, strategy.id)
        if present.strategy == strategy and not context.resumed:
            return False
        async with self._audited("strategy.put", tenant_id, strategy.id, context) as audited:
            change = await register(self.stores.strategies, tenant_id, strategy)
            # An earlier attempt of the same request may have stored it.
            audited.unchanged = change is Change.NONE and not context.resumed
        if change is not Change.NONE:
            logger.info("strategy put", extra={"strategy_id": strategy.id})
        return change is Change.CREATED

    async def delete(self, tenant_id: str | None, strategy_id: StrategyId, *, context: CommandContext) -> None:
        """Remove the strategy; a missing one is no error. Its results stay as long as their runs."""
        present = await self.stores.strategies.get(tenant_id, strategy_id)
        if not present.revision:
            return
        async with self._audited("strategy.delete", tenant_id, strategy_id, context) as audited:
            await self.stores.strategies.remove(tenant_id, strategy_id)
            audited.unchanged = present.strategy is None and not context.resumed
        logger.info("strategy deleted", extra={"strategy_id": strategy_id})

    def _audited(
        self, action: str, tenant_id: str | None, strategy_id: StrategyId, context: CommandContext
    ) -> AbstractAsyncContextManager[AuditedChange]:
        return AuditTrail.of(self.stores).change(action, "strategy", strategy_id, context, tenant_id=tenant_id)

    async def get(self, tenant_id: str | None, strategy_id: StrategyId) -> ListedStrategy:
        await self._fresh()
        found = self.tables.of(tenant_id).get(strategy_id)
        if found is None:
            raise StrategyNotFound(strategy_id=strategy_id)
        return found

    async def page(self, tenant_id: str | None, query: StrategyQuery) -> StrategyPage:
        await self._fresh()
        return self.tables.of(tenant_id).page(query)

    async def select(self, tenant_id: str | None, chosen: StrategyFilter) -> list[StrategyId]:
        """The ids of the enabled strategies that a recheck of all is for, sorted."""
        await self._fresh()
        return self.tables.of(tenant_id).ids(
            StrategyQuery(
                tags_any=chosen.tags_any, health=chosen.health, instruments=chosen.instrument_any, enabled=True
            )
        )

    async def check(self, tenant_id: str | None, ids: Sequence[StrategyId]) -> None:
        """Refuse unknown strategies (`StrategyNotFound`) and disabled ones (`InvalidRequest`), by name."""
        await self._fresh()
        table = self.tables.of(tenant_id)
        doubtful = [each for each in ids if (known := table.get(each)) is None or not known.strategy.enabled]
        # Another gateway may have registered or enabled them just now.
        stored = await asyncio.gather(*(self.stores.strategies.get(tenant_id, each) for each in doubtful))
        found = dict(zip(doubtful, (each.strategy for each in stored), strict=True))
        unknown = [each for each, strategy in found.items() if strategy is None]
        if unknown:
            raise StrategyNotFound(f"there is no strategy {_named(unknown)}", strategies=unknown)
        disabled = [each for each, strategy in found.items() if strategy is not None and not strategy.enabled]
        if disabled:
            raise InvalidRequest(f"disabled strategies cannot be rechecked: {_named(disabled)}")

    async def progress(self, run_id: RunId, *, version: int) -> RequestProgress | None:
        """How far the request is, counted at this version of its execution or a later one.

        None when the execution is no request of the PDCA API.
        """
        return await self.projector.progress(run_id, version=version)

    async def history(
        self,
        tenant_id: str | None,
        strategy_id: StrategyId,
        *,
        checked_from: float | None = None,
        checked_to: float | None = None,
        limit: int,
    ) -> Sequence[StoredResult]:
        """The results of a registered strategy between two times, newest first."""
        await self.get(tenant_id, strategy_id)
        return self.results.results(
            tenant_id, strategy_id, checked_from=checked_from, checked_to=checked_to, limit=limit
        )

    async def averages(self, tenant_id: str | None, strategy_id: StrategyId, *, days: int) -> Mapping[str, float]:
        """The average of each indicator of a registered strategy over the last days."""
        await self.get(tenant_id, strategy_id)
        checked_from = self.stores.clock.now() - days * 86_400
        return self.results.averages(tenant_id, strategy_id, checked_from=checked_from)

    async def _fresh(self) -> None:
        """Wait for this gateway's own writes; refuse while the broker is away or the lists are not filled."""
        if not self.stores.broker.connected:
            raise BrokerUnavailable
        if not await self.tables.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise IndexUnavailable(NOT_FILLED)
        if not await self.projector.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise IndexUnavailable(NOT_FILLED)
        if not await self.tables.reached(self.stores.strategies.last_revision, OWN_WRITE_WAIT_SEC):
            self.stores.counters.stale_lists += 1
            list_is_stale.set(True)
            logger.warning("list without this gateway's last writes", extra={"waited_sec": OWN_WRITE_WAIT_SEC})


def _named(ids: Sequence[StrategyId]) -> str:
    more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    return ", ".join(ids[:MAX_NAMED]) + more
