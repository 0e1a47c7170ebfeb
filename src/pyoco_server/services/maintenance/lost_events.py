"""Finds runs whose stored events end before their snapshot, and ends the unfinished ones.

A snapshot is written after its events, so this means that the broker has lost events: it drops the damaged part of a
file when it starts. A version is checked by one read of the last event of its run, page by page. The missing events
cannot be restored, and no command can be appended behind them. An unfinished run is therefore ended FAILED in its
snapshot, the only record that is left of it; the log stays as it is. Commits that are lost in the middle of a run do
not show here, only in the bytes that the broker reports as lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

from pyoco_server.domain.execution.commands import FailExecution
from pyoco_server.domain.execution.decide import Rejection, decide_and_fold
from pyoco_server.domain.execution.state import Failure
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.errors import EventsLost
from pyoco_server.ports import RunIndex, StreamState
from pyoco_server.services.context import Stores

logger = logging.getLogger(__name__)

LOOK_EVERY_SEC = 10.0
# A broker loses events when it starts, which its state shows in most cases; a full check finds the others.
CHECK_EVERY_SEC = 3600.0
PAGE = 200
# The check takes its time: it must not be noticed.
PAUSE_SEC = 0.02


class LostEventsChecker:
    """Compares the index with the event log, at the start and whenever the log may have lost something."""

    def __init__(self, stores: Stores, index: RunIndex) -> None:
        self._stores = stores
        self._index = index
        self._state: StreamState | None = None
        self._checked_at = float("-inf")

    async def check(self) -> None:
        """One check, if it is time for it or the broker has started with fewer events."""
        state, before = await self._stores.events.state(), self._state
        is_due = self._stores.clock.monotonic() - self._checked_at >= CHECK_EVERY_SEC
        if not is_due and before is not None and not _may_have_lost(before, state):
            self._state = state
            return
        lost, ended = 0, 0
        for page in self._pages():
            for run_id in await self._behind(page):
                lost += 1
                ended += await self._end(run_id)
            await asyncio.sleep(PAUSE_SEC)
        self._state, self._checked_at = state, self._stores.clock.monotonic()
        counters = self._stores.counters
        found = (lost, state.lost_bytes)
        if any(found) and found != (counters.runs_with_lost_events, counters.lost_event_bytes):
            facts: dict[str, object] = {"runs": lost, "ended": ended, "lost_bytes": state.lost_bytes}
            logger.error("the broker has lost events of runs", extra=facts | EventsLost.ids())
        counters.runs_with_lost_events, counters.lost_event_bytes = lost, state.lost_bytes

    def _pages(self) -> Iterator[Sequence[RunId]]:
        for archived in (False, True):
            before: tuple[float, str] | None = None
            while page := self._index.rows(RunQuery(limit=PAGE, archived=archived, before=before)):
                before = page[-1].key
                yield [run.run_id for run in page]

    async def _behind(self, page: Sequence[RunId]) -> list[RunId]:
        """The runs of a page whose events end before their version."""
        known = self._index.known(page)
        last = await asyncio.gather(*(self._stores.events.last_sequence(run_id) for run_id in known))
        # A run that retention removes has no events any more, and soon no snapshot.
        suspects = [run_id for run_id, sequence in zip(known, last, strict=True) if sequence < known[run_id].version]
        return [run_id for run_id in suspects if await self._is_lost(run_id)]

    async def _is_lost(self, run_id: RunId) -> bool:
        loaded = await self._stores.snapshots.load(run_id)
        return loaded is not None and await has_lost_events(self._stores, run_id, loaded.execution.version)

    async def _end(self, run_id: RunId) -> bool:
        """End an unfinished run; False for a finished one, or when its snapshot was changed meanwhile."""
        loaded = await self._stores.snapshots.load(run_id)
        if loaded is None or loaded.execution.status.is_terminal:
            return False
        error = Failure(code=EventsLost.err_id, message=EventsLost.message())
        verdict, after = decide_and_fold(loaded.execution, FailExecution(at=self._stores.clock.now(), error=error))
        if isinstance(verdict, Rejection) or not await self._stores.snapshots.end(after, known=loaded):
            return False
        logger.warning("ended a run whose events are lost", extra={"run_id": run_id, **EventsLost.ids()})
        return True


async def has_lost_events(stores: Stores, run_id: RunId, version: int) -> bool:
    """Whether the stored events of a run end before this version of its snapshot."""
    return await stores.events.last_sequence(run_id) < version


def _may_have_lost(before: StreamState, now: StreamState) -> bool:
    return (
        now.created != before.created or now.lost_bytes != before.lost_bytes or now.last_sequence < before.last_sequence
    )
