"""The registered strategies of tenants, changed by compare-and-set; entries that are no strategies are ignored."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from pyoco_server.domain.pdca.ids import StrategyId, is_strategy_id
from pyoco_server.domain.pdca.strategies import Strategy
from pyoco_server.ports.broker import Entry, KeyValue, RevisionConflict

logger = logging.getLogger(__name__)


class StrategySeen(NamedTuple):
    """One change of the registry; `strategy` is None when it was deleted or cannot be read."""

    tenant_id: str | None
    strategy_id: StrategyId
    revision: int
    strategy: Strategy | None


class StrategyChanges(NamedTuple):
    """Changes of the registry, and the revision up to which they are complete (0: nothing is pending)."""

    changes: Sequence[StrategySeen]
    upto: int


class StoredStrategy(NamedTuple):
    """What the registry has under an id: no strategy after a deletion, whose revision the next put needs."""

    revision: int
    strategy: Strategy | None


class StrategyStore:
    """Strategies by tenant (None: without tenants) and id."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket
        self._last_revision = 0

    @property
    def last_revision(self) -> int:
        """The newest revision that this process has written; 0 before the first."""
        return self._last_revision

    async def get(self, tenant_id: str | None, strategy_id: StrategyId) -> StoredStrategy:
        entry = await self._bucket.get(strategy_key(tenant_id, strategy_id))
        return StoredStrategy(0, None) if entry is None else StoredStrategy(entry.revision, _decode(entry))

    async def put(self, tenant_id: str | None, strategy: Strategy, *, revision: int) -> StoredStrategy | None:
        """Store the strategy in place of what has this revision (0: nothing).

        None: stored. Otherwise another writer was first, and what is there now.
        """
        key, value = strategy_key(tenant_id, strategy.id), msgspec.json.encode(strategy)
        stored = await self._bucket.put(key, value, revision=revision)
        if isinstance(stored, RevisionConflict):
            present = stored.entry
            return StoredStrategy(0, None) if present is None else StoredStrategy(present.revision, _decode(present))
        self._last_revision = max(self._last_revision, stored.version)
        return None

    async def remove(self, tenant_id: str | None, strategy_id: StrategyId) -> None:
        removal = await self._bucket.purge(strategy_key(tenant_id, strategy_id))
        if removal is not None:
            self._last_revision = max(self._last_revision, removal)

    async def follow(self) -> AsyncGenerator[StrategyChanges, None]:
        """All strategies, then their changes, as `KeyValue.follow` has them."""
        async with aclosing(self._bucket.follow(after=0)) as batches:
            async for batch in batches:
                changes = [seen for seen in map(_seen, batch) if seen is not None]
                yield StrategyChanges(changes, batch[-1].revision if batch else 0)


def strategy_key(tenant_id: str | None, strategy_id: StrategyId) -> str:
    """The key of a strategy. Its id may have dots where a key may not. No encoded tenant is a lone dash."""
    tenant = "-" if tenant_id is None else _encoded(tenant_id)
    return f"{tenant}.{_encoded(strategy_id)}"


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()


def _decoded(token: str) -> str:
    """The encoded name; empty for a token that is not the encoding of one."""
    try:
        name = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True).decode()
    except ValueError:
        return ""
    return name if _encoded(name) == token else ""


def _seen(entry: Entry) -> StrategySeen | None:
    tenant, _, token = entry.key.partition(".")
    tenant_id, strategy_id = None if tenant == "-" else _decoded(tenant), _decoded(token)
    if tenant_id == "" or not is_strategy_id(strategy_id):
        return None  # a key of another program
    strategy = _decode(entry)
    if strategy is not None and strategy.id != strategy_id:
        strategy = None
    return StrategySeen(tenant_id, StrategyId(strategy_id), entry.revision, strategy)


def _decode(entry: Entry) -> Strategy | None:
    if entry.value is None:
        return None
    try:
        return msgspec.json.decode(entry.value, type=Strategy)
    except msgspec.MsgspecError:
        logger.warning("unreadable strategy", extra={"revision": entry.revision})
        return None
