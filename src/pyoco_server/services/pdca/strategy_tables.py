"""The registered strategies of all tenants in memory, each with its newest result.

They follow the registry's bucket from its beginning, and the projection of results tells what is newest.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing

from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.strategies import Strategy
from pyoco_server.domain.pdca.strategy_table import Latest, StrategyTable
from pyoco_server.ports import StrategyResults
from pyoco_server.services.loops import log_and_continue, wait_event
from pyoco_server.stores.strategies import StrategySeen, StrategyStore

PAUSE_SEC = 1.0

_EMPTY = StrategyTable()

Registered = defaultdict[str | None, dict[StrategyId, Strategy]]


class StrategyTables:
    """They follow the registry while `run` runs; the rest may be called at any time on the same event loop."""

    def __init__(self, store: StrategyStore, results: StrategyResults) -> None:
        self._store = store
        self._results = results
        self._tables: dict[str | None, StrategyTable] = {}
        self._revision = 0
        self._moved = asyncio.Event()
        self._caught_up = asyncio.Event()
        # While tables are built in a thread, what is newest must not be told to the old ones.
        self._building = asyncio.Lock()

    def of(self, tenant_id: str | None) -> StrategyTable:
        return self._tables.get(tenant_id, _EMPTY)

    async def run(self) -> None:
        """Follow until cancelled. A recreated registry is read from its beginning."""
        while True:
            with log_and_continue("registry of strategies"):
                await self._follow()
            self._caught_up.clear()
            await asyncio.sleep(PAUSE_SEC)

    async def wait_caught_up(self, timeout_sec: float) -> bool:
        """Wait until every stored strategy is known here; False on a timeout."""
        return await wait_event(self._caught_up, timeout_sec)

    async def reached(self, revision: int, timeout_sec: float) -> bool:
        """Wait until the tables have this revision of the registry; False on a timeout."""
        try:
            async with asyncio.timeout(timeout_sec):
                while self._revision < revision:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def note(self, news: Sequence[Latest]) -> None:
        """These are the newest results of their strategies now."""
        async with self._building:
            for latest in news:
                self._tables.setdefault(latest.tenant_id, StrategyTable()).note(latest)

    async def forget_results(self) -> None:
        """No results are known any more: the log is counted again."""
        async with self._building:
            for table in self._tables.values():
                table.forget_results()

    async def _follow(self) -> None:
        registered: Registered = defaultdict(dict)
        last = 0
        async with aclosing(self._store.follow()) as batches:
            async for changes, upto in batches:
                last = max(last, upto)
                if self._caught_up.is_set():
                    for seen in changes:
                        self._change(seen)
                elif upto:
                    _gather(registered, changes)
                    continue
                else:
                    async with self._building:
                        self._tables = await asyncio.to_thread(self._built, registered)
                    registered = defaultdict(dict)
                    self._caught_up.set()
                self._revision = last
                self._moved.set()
                self._moved = asyncio.Event()

    def _built(self, registered: Registered) -> dict[str | None, StrategyTable]:
        latest: defaultdict[str | None, list[Latest]] = defaultdict(list)
        for each in self._results.latest():
            latest[each.tenant_id].append(each)
        return {
            tenant_id: StrategyTable(registered[tenant_id].values(), latest[tenant_id])
            for tenant_id in {*registered, *latest}
        }

    def _change(self, seen: StrategySeen) -> None:
        table = self._tables.setdefault(seen.tenant_id, StrategyTable())
        if seen.strategy is None:
            table.remove(seen.strategy_id)
        else:
            table.put(seen.strategy)


def _gather(registered: Registered, changes: Sequence[StrategySeen]) -> None:
    for seen in changes:
        if seen.strategy is None:
            registered[seen.tenant_id].pop(seen.strategy_id, None)
        else:
            registered[seen.tenant_id][seen.strategy_id] = seen.strategy
