"""Counts the results of requests from the event log, as soon as the run index shows that a request has changed.

    start ─▶ of this event stream? ──no──▶ forget all ─▶ requests of the index that are ahead of what is counted ─┐
      ▲                                                                                                           ▼
      └─ damaged file, other stream ◀── checked every few seconds ── read each changed request's log behind its position

The log is not followed as a whole: commits of other runs cost one comparison in the run index. A gateway whose file is
new reads the logs of requests only, not those of all runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.counting import CountedRequest, count, progress_of
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from pyoco_server.domain.pdca.strategies import RequestProgress
from pyoco_server.domain.queries.query import RunQuery, SnapshotSeen
from pyoco_server.errors import InternalError
from pyoco_server.ports import RunIndex, StrategyResults
from pyoco_server.services.context import Stores
from pyoco_server.services.loops import log_and_continue, wait_event
from pyoco_server.services.pdca.strategy_tables import StrategyTables
from pyoco_server.services.projections.indexer import Indexer

logger = logging.getLogger(__name__)

T = TypeVar("T")

VERIFY_EVERY_SEC = 5.0
PAUSE_SEC = 1.0
# Commits that are decoded and counted before others get the event loop: some ten milliseconds.
READ_AT_A_TIME = 50
# Of the index, at a start.
PAGE = 500
# Requests that are kept in memory; a request of 100,000 strategies takes 10 MB.
MAX_RECENT = 32
REMOVED_AT_A_TIME = 200


class ResultProjector:
    """Counts while `run` runs; `progress` counts by itself what is missing of its request."""

    def __init__(
        self,
        stores: Stores,
        index: RunIndex,
        indexer: Indexer,
        results: StrategyResults,
        tables: StrategyTables,
        *,
        retention_sec: float,
        verify_every_sec: float = VERIFY_EVERY_SEC,
    ) -> None:
        self._stores = stores
        self._index = index
        self._indexer = indexer
        self._results = results
        self._tables = tables
        self._retention_sec = retention_sec
        self._verify_every_sec = verify_every_sec
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="strategy-results")
        # Requests in the order of their last use.
        self._recent: dict[RunId, CountedRequest] = {}
        self._changed: set[RunId] = set()
        self._awaited = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._counting = asyncio.Lock()

    async def run(self) -> None:
        """Count until cancelled. Joins the writer thread, so that the results may be closed when this returns."""
        try:
            while True:
                with log_and_continue("results of strategies"):
                    await self._project()
                self._caught_up.clear()
                await asyncio.sleep(PAUSE_SEC)
        finally:
            self._writer.shutdown(cancel_futures=True)

    async def wait_caught_up(self, timeout_sec: float) -> bool:
        """Wait until everything that was stored at the start is counted; False on a timeout."""
        return await wait_event(self._caught_up, timeout_sec)

    async def progress(self, run_id: RunId, *, version: int) -> RequestProgress | None:
        """How far the request is at this version or a later one; None for any other execution."""
        request = self._recent.get(run_id)
        if request is None or request.version < version:
            request = await self._advance(run_id, version)
        return None if request is None else progress_of(request)

    def on_indexed(self, batch: Sequence[SnapshotSeen]) -> None:
        """Note the requests among changed runs."""
        for seen in batch:
            if seen.plain is not None and seen.plain.get("flow_name") == REQUEST_FLOW:
                self._changed.add(seen.run_id)
                self._awaited.set()

    async def _project(self) -> None:
        """Count until the results are damaged or the event stream is another one."""
        stream = (await self._stores.events.state()).created
        if await self._in_writer(self._results.stream) != stream:
            await self._reset(stream)
        await self._indexer.wait_caught_up()
        self._changed.clear()
        await self._catch_up()
        self._caught_up.set()
        clock = self._stores.clock
        verify_at = clock.monotonic() + self._verify_every_sec
        while True:
            await wait_event(self._awaited, max(0.0, verify_at - clock.monotonic()))
            self._awaited.clear()
            changed, self._changed = self._changed, set()
            for run_id, known in self._index.known(list(changed)).items():
                await self._count(run_id, known.version)
            if clock.monotonic() >= verify_at:
                verify_at = clock.monotonic() + self._verify_every_sec
                created = (await self._stores.events.state()).created
                if created != stream or await self._in_writer(self._results.stream) != stream:
                    return
                await self._remove_old()

    async def _reset(self, stream: str) -> None:
        async with self._counting:
            await self._in_writer(partial(self._results.reset, stream))
            self._recent.clear()
            await self._tables.forget_results()

    async def _catch_up(self) -> None:
        """Count what the index has and the results have not: changes while this gateway was away."""
        for archived in (False, True):
            query = RunQuery(flow=REQUEST_FLOW, archived=archived, limit=PAGE)
            while rows := self._index.rows(query):
                run_ids = [row.run_id for row in rows]
                counted = await self._in_writer(partial(self._results.versions, run_ids))
                for run_id, known in self._index.known(run_ids).items():
                    if counted.get(run_id, 0) < known.version:
                        await self._count(run_id, known.version)
                query = RunQuery(flow=REQUEST_FLOW, archived=archived, limit=PAGE, before=rows[-1].key)

    async def _count(self, run_id: RunId, version: int) -> None:
        """Count one of many requests: one whose log cannot be read must not hide the results of all others."""
        try:
            await self._advance(run_id, version)
        except InternalError:
            logger.exception("request cannot be counted", extra={"run_id": run_id})

    async def _advance(self, run_id: RunId, version: int) -> CountedRequest | None:
        """Count the commits of the request that are not counted yet; those of other executions are left alone."""
        async with self._counting:
            request = self._recent.pop(run_id, None) or await self._in_writer(partial(self._results.load, run_id))
            while request is None or request.version < version:
                after = 0 if request is None else request.version
                commits = await self._stores.events.read(run_id, after=after, limit=READ_AT_A_TIME)
                counted = count(commits, request, run_id)
                if not commits or counted is None:
                    break
                request = counted.request
                await self._tables.note(await self._in_writer(partial(self._results.save, counted)))
            if request is not None:
                self._recent[run_id] = request
                if len(self._recent) > MAX_RECENT:
                    del self._recent[next(iter(self._recent))]
            return request

    async def _remove_old(self) -> None:
        """Remove requests whose log is gone: results are kept as long as their run."""
        if self._retention_sec == 0:
            return
        ended_before = self._stores.clock.now() - self._retention_sec
        old: Sequence[RunId] = await self._in_writer(
            partial(self._results.ended_before, ended_before, REMOVED_AT_A_TIME)
        )
        for run_id in old:
            if await self._stores.events.last_sequence(run_id) == 0:
                async with self._counting:
                    self._recent.pop(run_id, None)
                    await self._tables.note(await self._in_writer(partial(self._results.remove, run_id)))

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)
