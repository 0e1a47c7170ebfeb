"""Repairs what a killed process left unfinished: a snapshot behind its events, a run without a job."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from zlib import crc32

from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import empty_execution
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import KnownRun
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.ports import RunIndex
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.submit import may_queue_again, queue_again
from pyoco_server.stores.feed import Feed

logger = logging.getLogger(__name__)

EVERY_SEC = 0.5
# How long a writer has for its snapshot before it is repaired.
REPAIR_AFTER_SEC = 1.0
# Marks beside the index: up to which commit all is repaired, and in which event stream.
CHECKED = "checked_commits"
CHECKED_STREAM = "checked_stream"
BATCH = 200


class SnapshotRepairer:
    """Compares every commit of the event stream with the index; `queued` has the runs that were submitted here."""

    def __init__(self, stores: Stores, index: RunIndex, feed: Feed, queued: set[RunId]) -> None:
        self._stores = stores
        self._index = index
        self._feed = feed
        self._queued = queued
        self._unchecked: dict[RunId, tuple[int, float]] = {}
        self._last_seen = index.mark(CHECKED)

    async def note_commits(self, pause_sec: float = EVERY_SEC) -> None:
        """Note every commit for the repair; returns when the event stream was replaced, to start again."""
        created, last = await self._feed.commit_stream()
        stream = crc32(created.encode())
        if self._index.mark(CHECKED_STREAM) not in (0, stream) or last < self._last_seen:
            logger.warning("event stream replaced, checking all of it")
            self._last_seen = 0
            self._unchecked.clear()
            self._index.set_mark(CHECKED, 0)
        self._index.set_mark(CHECKED_STREAM, stream)
        async with aclosing(self._feed.commits(after=self._last_seen)) as batches:
            async for batch in batches:
                now = self._stores.clock.monotonic()
                for seen in batch:
                    self._unchecked[seen.run_id] = (seen.sequence, now)
                    self._last_seen = seen.sequence
                if len(batch) < BATCH:
                    await asyncio.sleep(pause_sec)  # not urgent, and large batches are cheaper

    async def repair(self) -> None:
        """Compare the commits that are old enough with the index, and repair the runs that differ."""
        ripe = self._stores.clock.monotonic() - REPAIR_AFTER_SEC
        due = [run_id for run_id, (_, seen_at) in self._unchecked.items() if seen_at <= ripe]
        for start in range(0, len(due), BATCH):
            part = due[start : start + BATCH]
            known = self._index.known(part)
            for run_id in part:
                await self._check(run_id, known.get(run_id))
            await asyncio.sleep(0)
        checked = min((sequence for sequence, _ in self._unchecked.values()), default=self._last_seen + 1) - 1
        if checked != self._index.mark(CHECKED):
            self._index.set_mark(CHECKED, checked)

    async def _check(self, run_id: RunId, known: KnownRun | None) -> None:
        # Removed first: a commit that arrives meanwhile is noted again, and a run that cannot be repaired does not
        # block all others.
        sequence, seen_at = self._unchecked.pop(run_id)
        is_behind = known is None or known.version < sequence
        if is_behind or (known is not None and known.status == "PENDING" and run_id not in self._queued):
            try:
                await self._repair(run_id)
            except BrokerUnavailable:
                self._unchecked.setdefault(run_id, (sequence, seen_at))
                raise
        self._queued.discard(run_id)

    async def _repair(self, run_id: RunId) -> None:
        loaded = await self._stores.snapshots.load(run_id)
        known = loaded.execution if loaded else empty_execution(run_id)
        execution = fold_commits(await self._stores.events.read(run_id, after=known.version), known)
        if not execution.exists:
            return  # removed by retention meanwhile
        if execution.version > known.version:
            await self._stores.snapshots.advance(execution, known=loaded, create=loaded is None)
            logger.info("advanced the snapshot of a lost writer", extra={"run_id": run_id})
        # A gateway with a new index checks every run, however old.
        if may_queue_again(execution, self._stores.clock.now()):
            await queue_again(self._stores, execution)
