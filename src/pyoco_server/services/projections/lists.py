"""Lists of runs, jobs, labels and waiting nodes: from this gateway's index, never by a scan of the bucket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence, Set
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import orjson

from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries import cursors
from pyoco_server.domain.queries.stats import Stats, StatsQuery
from pyoco_server.domain.queries.steps import WaitingNode, WaitQuery
from pyoco_server.errors import BrokerUnavailable, IndexUnavailable, InvalidListQuery
from pyoco_server.ports import JobPage, JobQuery, LabelCount, LabelQuery, Listed, RunIndex, RunQuery
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.service import read_whole
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.services.projections.paging import Page, page
from pyoco_server.stores import LoadedSnapshot

logger = logging.getLogger(__name__)

# A list waits until the index has this gateway's own writes, usually a millisecond. One that waited longer says so.
OWN_WRITE_WAIT_SEC = 2.0
# For an index that is being built.
FIRST_FILL_WAIT_SEC = 1.5
# For an index that is behind the gateway which issued the cursor.
CURSOR_WAIT_SEC = 1.5
# The stored size of a list of whole snapshots: some thirty of the largest. Beyond it a page ends early, and an array
# continues with summaries.
MAX_WHOLE_BYTES = 8 * 1024 * 1024
LOADED_AT_A_TIME = 16
# Lists that load whole snapshots at a time. A broker disconnects a client for which it has more than 64 MiB to send: a
# few dozen such lists would cut the gateway off.
HEAVY_LISTS = 4

NOT_FILLED = "the run index is being built after a start; try again in a moment"
FAILING = "the run index cannot be built at present; this gateway's log has the reason"

list_is_stale: ContextVar[bool] = ContextVar("list_is_stale", default=False)
"""Set in the context of a request whose list may lack this gateway's own last writes."""

Item = bytes | Mapping[str, Any]
"""A summary as JSON, or a whole snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """One page, the cursor of the next (None at the end), and the length of the list, where the index knows it."""

    items: Sequence[Item]
    next_cursor: str | None
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListService:
    """The queries on this gateway's index; `heavy` bounds how many load whole snapshots."""

    stores: Stores
    index: RunIndex
    indexer: Indexer
    cache: ExecutionCache
    heavy: asyncio.Semaphore

    async def summaries(self, query: RunQuery) -> Sequence[bytes]:
        await self.fresh()
        return [run.summary for run in self.index.rows(query)]

    async def snapshots(self, query: RunQuery) -> Sequence[Item]:
        """The matching runs, whole up to `MAX_WHOLE_BYTES`, then as summaries; without those removed meanwhile."""
        await self.fresh()
        found = self.index.rows(query)
        whole = await self._load(found)
        return [*_present(whole), *(run.summary for run in found[len(whole) :])]

    async def page(self, query: RunQuery, cursor: str, *, whole: bool = False, route: str = cursors.RUNS) -> ItemPage:
        """The matching runs behind the cursor of the same route (empty: from the start), as JSON.

        `whole` returns snapshots, and ends the page before it exceeds `MAX_WHOLE_BYTES`.
        """
        shown = await self._page(query, cursor, route)
        items: Sequence[Item] = [run.summary for run, _ in shown.items]
        if whole:
            loaded = await self._load([run for run, _ in shown.items])
            shown, items = shown.cut(len(loaded)), _present(loaded)
        place = shown.next
        next_cursor = None if place is None else cursors.encode(place, query, self.indexer.stream, route)
        return ItemPage(items=items, next_cursor=next_cursor, total=self.index.count(query))

    async def jobs(self, query: JobQuery) -> JobPage:
        await self.fresh()
        return self.index.jobs(query)

    async def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        """The matching labels, each with its number of unarchived jobs."""
        await self.fresh()
        return self.index.labels(query)

    async def stats(self, query: StatsQuery) -> Stats:
        """The time series of the stored runs."""
        await self.fresh()
        return self.index.stats(query)

    async def waits(self, query: WaitQuery) -> tuple[Sequence[tuple[WaitingNode, Any]], bool]:
        """The nodes that wait for input, longest wait first, each with its prompt; and whether there are more."""
        await self.fresh()
        found = self.index.waits(replace(query, limit=query.limit + 1))
        waits = found[: query.limit]
        # Read from the events, once per execution, where the snapshot had to truncate the prompt.
        truncated: dict[RunId, dict[NodeId, Any]] = {wait.run_id: {} for wait in waits if wait.prompt == b""}
        for run_id in truncated:
            whole = await read_whole(self.stores, run_id)
            truncated[run_id] = {node_id: node.prompt for node_id, node in whole.nodes.items()}
        prompts = [
            truncated[wait.run_id].get(wait.node_id) if wait.prompt == b"" else orjson.loads(wait.prompt or b"null")
            for wait in waits
        ]
        return list(zip(waits, prompts, strict=True)), len(found) > query.limit

    def runs_of(self, tenant_id: str, among: Sequence[RunId]) -> Set[RunId]:
        """Which of these runs belong to the tenant, as far as the index knows."""
        return {run_id for run_id, known in self.index.known(among).items() if known.tenant_id == tenant_id}

    async def _page(self, query: RunQuery, cursor: str, route: str) -> Page:
        await self.fresh()
        if not cursor:
            # The indexer's position, not the index's: that may be further, and a change would be left out.
            return page(self.index, query, cursors.Walk(mark=self.indexer.sequence))
        place = cursors.decode(cursor, query, self.indexer.stream, route)
        await self._reach(place.mark)
        return page(self.index, query, place)

    async def _load(self, runs: Sequence[Listed]) -> list[LoadedSnapshot | None]:
        """The snapshots of the first runs up to `MAX_WHOLE_BYTES`, at least one."""
        loaded: list[LoadedSnapshot | None] = []
        weight = 0
        async with self.heavy:
            for first in range(0, len(runs), LOADED_AT_A_TIME):
                some = [self.stores.snapshots.load(run.run_id) for run in runs[first : first + LOADED_AT_A_TIME]]
                for snapshot in await asyncio.gather(*some):
                    weight += 0 if snapshot is None else len(snapshot.value)
                    if weight > MAX_WHOLE_BYTES and loaded:
                        return loaded
                    loaded.append(snapshot)
        return loaded

    async def _reach(self, mark: int) -> None:
        """Wait for the position of another gateway's cursor: an older state of a run must not follow a newer one."""
        if mark <= self.indexer.sequence:
            return
        if mark > await self.indexer.last_stored():
            raise InvalidListQuery("cursor: it was not made by this server; start with an empty one")
        if not await self.indexer.reached(mark, CURSOR_WAIT_SEC):
            raise BrokerUnavailable("this gateway has not read as far as the cursor yet; try again in a moment")

    async def fresh(self) -> None:
        """Wait for this gateway's own writes; refuse while the broker is unavailable or the index is not filled."""
        if not self.stores.broker.connected:
            raise BrokerUnavailable
        if not await self.indexer.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise IndexUnavailable(NOT_FILLED if self.indexer.failing_since is None else FAILING)
        await self.cache.flush()
        if not await self.indexer.reached(self.stores.snapshots.last_revision, OWN_WRITE_WAIT_SEC):
            self.stores.counters.stale_lists += 1
            list_is_stale.set(True)
            logger.warning("list without this gateway's last writes", extra={"waited_sec": OWN_WRITE_WAIT_SEC})


def _present(loaded: Sequence[LoadedSnapshot | None]) -> list[Mapping[str, Any]]:
    return [snapshot.plain for snapshot in loaded if snapshot is not None]
