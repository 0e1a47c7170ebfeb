"""Registers a strategy by compare-and-set; used by gateways and by the import."""

from __future__ import annotations

from enum import Enum

from pyoco_server.domain.pdca.strategies import Strategy
from pyoco_server.errors import AppendConflict
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
