"""Returns the runs of lost workers to the queue.

    snapshot renewed (heartbeat) ──▶ alive
    five heartbeats missed ──▶ ask the holder ── "I hold it" ──▶ alive
                                   │ no answer, or "not mine"
                                   ▼
                  claim (compare-and-set on the snapshot: one gateway wins) ──▶ NAK ──▶ redelivered

Silence is measured by this gateway's monotonic clock and starts again when the gateway itself was disconnected. The
claim renews the snapshot too, so all gateways wait another five heartbeats before the next try. Nothing records the
jobs that a lost worker had prefetched: with its first lost run, all jobs of that tag that are delivered and not started
are returned. Live workers do not notice it. Nothing here ends a run: the next holder starts a higher attempt, and the
log then refuses the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState, state_of
from pyoco_server.domain.ids import InstanceId, RunId
from pyoco_server.ports import RunIndex
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.cancel import holder_is_alive
from pyoco_server.services.executions.submit import queue_again
from pyoco_server.services.maintenance.dead_jobs import names_in
from pyoco_server.stores import LoadedSnapshot

logger = logging.getLogger(__name__)

CHECK_EVERY_SEC = 0.5
MISSED_HEARTBEATS = 5
# A returned job may go to another dead worker, whose open pull requests the broker still has. It is returned again
# soon, a few times, and then as rarely as all others (perhaps no worker is free). The total is bounded: each delivery
# counts towards the broker's limit, and a worker may have it by now and wait for a free slot.
RETRY_SEC = 2.0
SOON_RETRIES = 3
MAX_RETURNS = 5
# Longer than a late check. A gateway that was stopped or disconnected for longer has missed heartbeats itself.
AWAY_AFTER_SEC = 3.0
# More than a fleet runs at a time; further ones return after AckWait.
MAX_RUNS = 10_000
# More than a few workers prefetch. They are the oldest of their tag, apart from those that run.
MAX_PREFETCHED = 200
NOT_STARTED = "PENDING"
STRAYS_EVERY_SEC = 10.0
# More runs than one tag has running at a time: the healthy ones among the candidates must not hide the others.
MAX_STRAYS = 2_000


class _Returned(NamedTuple):
    attempt: int
    times: int


class _Seen(NamedTuple):
    revision: int
    at: float


class LostWorkerRescuer:
    """Watches the heartbeats of running runs."""

    def __init__(self, stores: Stores, index: RunIndex, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._index = index
        self._silence_sec = MISSED_HEARTBEATS * config.run_heartbeat_interval_sec
        self._seen: dict[RunId, _Seen] = {}
        self._returned: dict[RunId, _Returned] = {}
        self._checked_at = stores.clock.monotonic()

    async def check(self) -> None:
        """Record the heartbeats, and return the runs of silent holders."""
        now = self._stores.clock.monotonic()
        if not self._stores.broker.connected or now - self._checked_at > AWAY_AFTER_SEC:
            self._seen.clear()
        self._note(self._index.at_work(MAX_RUNS), now)
        silent = {
            run_id: one.revision for run_id, one in self._seen.items() if now - one.at >= self._max_silence_sec(run_id)
        }
        try:
            if silent:
                await self._rescue(silent)
        finally:
            self._checked_at = self._stores.clock.monotonic()

    def _note(self, shown: Mapping[RunId, int], now: float) -> None:
        before = self._seen
        self._seen = {
            run_id: known if (known := before.get(run_id)) and known.revision == revision else _Seen(revision, now)
            for run_id, revision in shown.items()
        }
        self._returned = {run_id: past for run_id, past in self._returned.items() if run_id in shown}

    def _max_silence_sec(self, run_id: RunId) -> float:
        past = self._returned.get(run_id)
        soon = past is not None and past.times <= SOON_RETRIES
        return min(RETRY_SEC, self._silence_sec) if soon else self._silence_sec

    async def _rescue(self, silent: Mapping[RunId, int]) -> None:
        by_holder: dict[InstanceId, list[LoadedSnapshot]] = {}
        for run_id, revision in silent.items():
            loaded = await self._stores.snapshots.load(run_id)
            # Another revision than the silent one: our index is behind, or another gateway was first.
            if loaded is not None and loaded.revision == revision and loaded.execution.is_held:
                holder = loaded.execution.holder
                if holder is not None and holder.instance_id is not None and holder.return_to is not None:
                    by_holder.setdefault(holder.instance_id, []).append(loaded)
        # Concurrently: a holder that hangs must not delay the others.
        asking = [self._ask(instance_id, runs) for instance_id, runs in by_holder.items()]
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ask(self, instance_id: InstanceId, runs: Sequence[LoadedSnapshot]) -> None:
        there = await self._stores.signals.answers(instance_id)
        lost: dict[str, str] = {}
        for loaded in runs:
            run_id = loaded.execution.execution_id
            if there and await self._stores.signals.holds(instance_id, run_id):
                self._seen[run_id] = _Seen(loaded.revision, self._stores.clock.monotonic())
                self._returned.pop(run_id, None)
            elif (returned_to := await self._return_job(loaded)) is not None and not there:
                lost[loaded.execution.request.tag] = returned_to
        for tag, like in lost.items():
            await self._return_prefetched(tag, like)

    async def _return_prefetched(self, tag: str, like: str) -> None:
        stored = await self._stores.queue.stored(tag, limit=MAX_PREFETCHED)
        jobs = {run_id: job for job in stored if (run_id := names_in(job)[0]) is not None}
        known = self._index.known(list(jobs))
        waiting = [jobs[run_id] for run_id, run in known.items() if run.status == NOT_STARTED]
        if waiting:
            await self._stores.queue.take_back(waiting, like=like)

    async def _return_job(self, loaded: LoadedSnapshot) -> str | None:
        """Return the job to the queue; None when another gateway does so, or the maximum is reached."""
        run_id, holder = loaded.execution.execution_id, loaded.execution.holder
        if holder is None or holder.return_to is None:
            return None
        past = self._returned.get(run_id)
        times = past.times if past is not None and past.attempt == holder.attempt else 0
        if times >= MAX_RETURNS or not await self._stores.snapshots.claim(loaded):
            return None
        self._returned[run_id] = _Returned(holder.attempt, times + 1)
        await self._stores.queue.give_back(holder.return_to)
        facts = {"run_id": run_id, "worker_id": holder.worker_id, "attempt": holder.attempt}
        logger.warning("returned the job of a lost worker", extra=facts)
        return holder.return_to


class StrayRequeuer:
    """Queues runs again that have no job for any reason. Exhausted jobs are left to `DeadJobSweeper`."""

    def __init__(self, stores: Stores, index: RunIndex, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._index = index
        self._config = config
        self._requeued_at: dict[RunId, float] = {}

    async def requeue(self) -> None:
        """Queue every run that was silent for too long, although a worker of its tag is free."""
        now = self._stores.clock.now()
        silence_sec = stray_silence_sec(self._config)
        candidates = [
            run.run_id
            # Only where a worker is free: runs that wait for one are no strays, and must not hide those that are.
            for tag in await self._free_tags(await self._stores.registry.all(), now)
            for status in ("RUNNING", "PENDING")
            for run in self._index.oldest(status, tag=tag, updated_before=now - silence_sec, limit=MAX_STRAYS)
        ]
        for run_id in candidates:
            loaded = await self._stores.snapshots.load(run_id)
            if loaded is None or loaded.execution.status.is_terminal or not loaded.execution.is_queued:
                continue
            is_silent = now - loaded.heartbeat_at > silence_sec
            is_due = now - self._requeued_at.get(run_id, 0.0) > silence_sec
            if is_silent and is_due and not await holder_is_alive(self._stores, loaded.execution):
                self._requeued_at[run_id] = now
                logger.warning("queued a run without a sign of life again", extra={"run_id": run_id})
                # The same number at all gateways within one period: the broker keeps one of their jobs.
                await queue_again(self._stores, loaded.execution, nth=2 + int(now // silence_sec))
        self._requeued_at = {run_id: at for run_id, at in self._requeued_at.items() if now - at < 2 * silence_sec}

    async def _free_tags(self, records: Iterable[WorkerRecord], now: float) -> set[str]:
        free: set[str] = set()
        for record in records:
            has_slot = len(record.current_run_ids) < record.slots and not free.issuperset(record.tags)
            if has_slot and await self._is_present(record, now):
                free.update(record.tags)
        return free

    async def _is_present(self, record: WorkerRecord, now: float) -> bool:
        timeout_sec = self._config.worker_disconnect_timeout_sec
        state = state_of(record, silent_sec=now - record.last_seen_at, disconnect_timeout_sec=timeout_sec)
        if state is WorkerState.DISCONNECTED:
            return await self._stores.signals.answers(record.instance_id)  # perhaps only its clock is slow
        return state is not WorkerState.STOPPED_GRACEFUL


def stray_silence_sec(config: NatsBackendConfig) -> float:
    """How long a run is silent, although a worker is free, before it is queued again."""
    return 2 * config.consumer_ack_wait_sec + 30.0
