"""Lists of runs, as summaries or whole, at once or page by page, and of their labels: from the index, never by a scan
of the bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyoco_server.domain.queries import cursors
from pyoco_server.errors import BrokerUnavailable, IndexUnavailable, InvalidListQuery
from pyoco_server.ports import JobPage, JobQuery, LabelCount, LabelQuery, Listed, RunIndex, RunQuery
from pyoco_server.services.context import Stores
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.services.projections.paging import Page, page
from pyoco_server.stores import LoadedSnapshot

# How long a list waits until the index shows what this gateway itself has just written.
OWN_WRITE_WAIT_SEC = 0.05
# How long a list waits for an index that is being built.
FIRST_FILL_WAIT_SEC = 1.5
# How long a page waits until this gateway has read what another had when it gave out the cursor.
CURSOR_WAIT_SEC = 1.5
# What a list of whole snapshots may weigh, as stored: some thirty of the largest. Beyond, a page ends early, and an
# array goes on with summaries.
MAX_WHOLE_BYTES = 8 * 1024 * 1024
LOADED_AT_A_TIME = 16
# Lists that load whole snapshots at a time. A broker that has more than 64 MiB to send to somebody hangs up on them: a
# few dozen lists at once would cut the gateway off.
HEAVY_LISTS = 4

NOT_FILLED = "the run index is being built after a start; try again in a moment"
FAILING = "the run index cannot be built at present; this gateway's log has the reason"

Item = bytes | Mapping[str, Any]
"""A summary, as JSON, or a whole snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """What one page shows, and the cursor of the next; None at the end."""

    items: Sequence[Item]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What can be asked of this gateway's index."""

    stores: Stores
    index: RunIndex
    follower: Indexer
    heavy: asyncio.Semaphore
    settle: Callable[[], Awaitable[None]]

    async def summaries(self, query: RunQuery) -> Sequence[bytes]:
        """The runs that fit, as JSON."""
        await self.fresh()
        return self.index.summaries(query)

    async def snapshots(self, query: RunQuery) -> Sequence[Item]:
        """The runs that fit, whole while that is not too heavy, then as summaries; without those removed meanwhile."""
        await self.fresh()
        found = self.index.rows(query)
        whole = await self._load(found)
        return [*_there(whole), *(run.summary for run in found[len(whole) :])]

    async def page(self, query: RunQuery, cursor: str) -> ItemPage:
        """The runs that fit behind the cursor (an empty one starts), as JSON."""
        shown = await self._page(query, cursor)
        return self._out(query, shown, [run.summary for run, _ in shown.items])

    async def whole_page(self, query: RunQuery, cursor: str) -> ItemPage:
        """The same, whole; the page ends before it becomes too heavy."""
        shown = await self._page(query, cursor)
        whole = await self._load([run for run, _ in shown.items])
        return self._out(query, shown.cut(len(whole)), _there(whole))

    async def jobs(self, query: JobQuery) -> JobPage:
        """The jobs that fit, the newest first."""
        await self.fresh()
        return self.index.jobs(query)

    async def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        """The labels that fit, each with the number of unarchived jobs that have it."""
        await self.fresh()
        return self.index.labels(query)

    async def _page(self, query: RunQuery, cursor: str) -> Page:
        await self.fresh()
        if not cursor:
            # Of the follower, not of the index: that may be further already, and then a change would be left out.
            return page(self.index, query, cursors.Walk(mark=self.follower.sequence))
        place = cursors.decode(cursor, query, self.follower.stream)
        await self._reach(place.mark)
        return page(self.index, query, place)

    def _out(self, query: RunQuery, shown: Page, items: Sequence[Item]) -> ItemPage:
        place = shown.next
        return ItemPage(
            items=items, next_cursor=None if place is None else cursors.encode(place, query, self.follower.stream)
        )

    async def _load(self, runs: Sequence[Listed]) -> list[LoadedSnapshot | None]:
        """The snapshots of the first of these runs, as many as are not too heavy (but one)."""
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
        """Wait for what another gateway had read already: an older state of a run must not follow a newer one."""
        if mark <= self.follower.sequence:
            return
        if mark > await self.follower.last_stored():
            raise InvalidListQuery("cursor: it was not made by this server; start with an empty one")
        if not await self.follower.reached(mark, CURSOR_WAIT_SEC):
            raise BrokerUnavailable("this gateway has not read as far as the cursor yet; try again in a moment")

    async def fresh(self) -> None:
        """A stale list would look true: refuse it while the broker is away or the index is not filled."""
        if not self.stores.broker.connected:
            raise BrokerUnavailable
        if not await self.follower.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise IndexUnavailable(NOT_FILLED if self.follower.failing is None else FAILING)
        await self.settle()
        await self.follower.reached(self.stores.snapshots.last_revision, OWN_WRITE_WAIT_SEC)


def _there(loaded: Sequence[LoadedSnapshot | None]) -> list[Mapping[str, Any]]:
    return [snapshot.plain for snapshot in loaded if snapshot is not None]
