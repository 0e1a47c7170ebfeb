"""Drives the requests of the PDCA API that this gateway owns; `request_run` drives one of them.

    index: changed snapshots ─┬─ a new request ────────────────▶ one task per request
    index: queries, sometimes ┘  the end of a batch's run ─────▶ wakes the task of its request

Requests are found in the index, so nothing is lost when a gateway is killed, and a request that another gateway has
accepted is driven as soon as its snapshot is indexed here. A waiting request costs a look every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, STOPPING
from pyoco_server.domain.queries.query import RunQuery, SnapshotSeen
from pyoco_server.ports import RunIndex
from pyoco_server.ports.pdca import BatchEngine
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.gateway_roster import GatewayRoster
from pyoco_server.services.loops import Periodic, log_and_continue
from pyoco_server.services.pdca.plans import PlanCache
from pyoco_server.services.pdca.request_run import FIRST_RETRY_SEC, Parts, RequestRun

logger = logging.getLogger(__name__)

# The index tells of new requests; the query finds those that another gateway has left.
FIND_EVERY_SEC = 1.0
# The same for canceled requests whose engine did not stop their batches in time.
FIND_STOPPING_EVERY_SEC = 5.0
# Of one gateway; further ones wait for these to end.
MAX_REQUESTS = 2_000
# Batches that are started or ended at a time.
CONCURRENT_BATCHES = 32
# At least as many as one query finds: what is forgotten is looked at again, each second.
MAX_IGNORED = 2 * MAX_REQUESTS
UNFINISHED = ("PENDING", "RUNNING", "CANCELLING")


class BatchDriver:
    """The driver of one gateway. `run` does the work; all other methods may be called at any time."""

    def __init__(
        self,
        executions: ExecutionService,
        index: RunIndex,
        engine: BatchEngine,
        roster: GatewayRoster,
        *,
        first_retry_sec: float = FIRST_RETRY_SEC,
    ) -> None:
        self._index = index
        self._roster = roster
        self._plans = PlanCache(executions.stores.events)
        self._parts = Parts(
            executions=executions,
            engine=engine,
            artifacts=executions.stores.artifacts,
            plans=self._plans,
            slots=asyncio.Semaphore(CONCURRENT_BATCHES),
            owns=roster.owns,
            first_retry_sec=first_retry_sec,
        )
        self._driven: dict[RunId, RequestRun] = {}
        self._asked: dict[RunId, None] = {}
        self._ignored: dict[RunId, None] = {}
        self._woken = asyncio.Event()

    def wake(self, run_id: RunId) -> None:
        """Look at this request at once, if this gateway owns it."""
        known = self._driven.get(run_id)
        if known is not None:
            known.wake()
        elif run_id not in self._ignored:
            self._asked[run_id] = None
            self._woken.set()

    def on_indexed(self, batch: Sequence[SnapshotSeen]) -> None:
        """Take note of changed snapshots: of requests, and of the runs of their batches that have ended."""
        for seen in batch:
            plain = seen.plain
            if plain is None:
                continue
            awaiting = self._parts.awaiting.get(seen.run_id)
            if awaiting is not None and plain.get("status") in TERMINAL_RUN_STATUSES:
                awaiting.wake()
            elif plain.get("flow_name") == REQUEST_FLOW:
                known = self._driven.get(seen.run_id)
                if known is None and plain.get("status") in UNFINISHED:
                    self.wake(seen.run_id)
                elif known is not None and plain.get("version", 0) > known.version:
                    known.wake()

    async def run(self) -> None:
        """Drive requests until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Periodic("pdca requests", FIND_EVERY_SEC, self._find).run())
            group.create_task(Periodic("canceled pdca requests", FIND_STOPPING_EVERY_SEC, self._find_stopping).run())
            with log_and_continue("pdca requests"):
                await self._find()
            while True:
                await self._woken.wait()
                self._woken.clear()
                for run_id in self._asked:
                    if run_id not in self._driven and len(self._driven) < MAX_REQUESTS and self._roster.owns(run_id):
                        self._driven[run_id] = RequestRun(run_id, self._parts)
                        group.create_task(self._drive(self._driven[run_id]))
                self._asked.clear()

    async def _find(self) -> None:
        """Look for requests that nothing told of: those of a gateway that is gone, and all when this one starts."""
        self._wake_found(RunQuery(flow=REQUEST_FLOW, statuses=UNFINISHED, limit=MAX_REQUESTS))

    async def _find_stopping(self) -> None:
        for archived in (False, True):
            self._wake_found(
                RunQuery(
                    flow=REQUEST_FLOW, status="CANCELLED", labels=(STOPPING,), archived=archived, limit=MAX_REQUESTS
                )
            )

    def _wake_found(self, query: RunQuery) -> None:
        for found in self._index.rows(query):
            if found.run_id not in self._driven:
                self.wake(found.run_id)

    async def _drive(self, request: RequestRun) -> None:
        try:
            await request.run()
        finally:
            del self._driven[request.run_id]
            request.close()
        if not request.is_request:
            self._ignored[request.run_id] = None
            while len(self._ignored) > MAX_IGNORED:
                del self._ignored[next(iter(self._ignored))]
            logger.warning("execution is no request of the PDCA API, left alone", extra={"run_id": request.run_id})
