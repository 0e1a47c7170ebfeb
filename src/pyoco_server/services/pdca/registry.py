"""Registers a strategy by compare-and-set; used by gateways and by the import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum

from pyoco_server.domain.pdca.strategies import Strategy
from pyoco_server.errors import AppendConflict
from pyoco_server.services.audit.trail import AuditTrail
from pyoco_server.services.audit.trail import Change as AuditedChange
from pyoco_server.services.context import CommandContext
from pyoco_server.stores import StrategyStore

MAX_RACES = 20


class Change(Enum):
    """What a registration has done."""

    CREATED = "created"
    CHANGED = "changed"
    NONE = "none"


async def register(store: StrategyStore, tenant_id: str | None, strategy: Strategy) -> Change:
    """Store the strategy in place of the one of its id, if it differs."""
    present = await store.get(tenant_id, strategy.id)
    for _ in range(MAX_RACES):
        if present.strategy == strategy:
            return Change.NONE
        conflict = await store.put(tenant_id, strategy, revision=present.revision)
        if conflict is None:
            return Change.CREATED if present.strategy is None else Change.CHANGED
        present = conflict
    raise AppendConflict(strategy_id=strategy.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRegistry:
    """The registry as one operator fills it, without a gateway."""

    store: StrategyStore
    trail: AuditTrail
    context: CommandContext

    @asynccontextmanager
    async def importing(self, tenant_id: str | None, file_name: str, strategies: int) -> AsyncIterator[AuditedChange]:
        """One import: one record in the audit trail, `attempted` if it is killed."""
        detail = {"strategies": strategies}
        async with self.trail.change(
            "strategy.import", "strategy", file_name, self.context, tenant_id=tenant_id, detail=detail
        ) as audited:
            yield audited
