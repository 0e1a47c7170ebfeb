"""What a gateway does unasked: finish what a dead process left half done, and remove what has had its time.

Everything here may be done by every gateway at once, because compare-and-set makes a second try harmless:

    repair      a snapshot behind its log for a second is advanced; a run nobody queued is queued
    cancels     a requested cancel whose holder is gone is confirmed
    times       a node whose wait or whose last lease is over has failed
    strays      a run without a sign of life, although a worker is free for it, is queued again
    retention   finished runs leave: logs and events first, then the snapshot, so that a crash in between is found again
    workers     those that nobody has seen for a month are forgotten
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import ExpireNode
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import empty_execution
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState, state_of
from pyoco_server.domain.fleet.worker_status import expired_workers
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, PyocoError
from pyoco_server.ports import RunIndex, RunQuery
from pyoco_server.services.context import GATEWAY, Stores
from pyoco_server.services.executions.cancel import confirm_or_signal
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.services.executions.holder import holder_is_alive
from pyoco_server.services.executions.submit import job_again, may_queue_again
from pyoco_server.services.maintenance.error_handling import log_and_continue
from pyoco_server.stores import Feed

logger = logging.getLogger(__name__)

REPAIR_EVERY_SEC = 0.5
REPAIR_AFTER_SEC = 1.0
CANCELS_EVERY_SEC = 2.0
TIMES_EVERY_SEC = 0.5
STRAYS_EVERY_SEC = 10.0
RETENTION_EVERY_SEC = 10.0
WORKERS_EVERY_SEC = 600.0
# How far the repair has read the log, kept beside the index.
CHECKED = "checked_commits"
AT_A_TIME = 200
# More runs than one tag has at work at a time: the healthy ones among the candidates must not hide the others.
MOST_STRAYS = 2_000
# Subject purges beside load halve the append rate, so they go one by one.
RETENTION_PAUSE_SEC = 0.02


class Maintenance:
    """The unasked work of one gateway."""

    def __init__(self, stores: Stores, index: RunIndex, feed: Feed, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._index = index
        self._feed = feed
        self._config = config
        self._unchecked: dict[RunId, tuple[int, float]] = {}
        self._last_seen = index.mark(CHECKED)
        self._vouched: set[RunId] = set()
        self._requeued_at: dict[RunId, float] = {}

    def mark_submitted(self, run_id: RunId) -> None:
        """This gateway saw the whole submit of the run succeed: its job need not be looked after."""
        self._vouched.add(run_id)

    async def run(self) -> None:
        """Look after everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._for_ever("commits", REPAIR_EVERY_SEC, self.note_commits))
            group.create_task(self._for_ever("repair", REPAIR_EVERY_SEC, self.repair))
            group.create_task(self._for_ever("cancels", CANCELS_EVERY_SEC, self.see_cancels_through))
            group.create_task(self._for_ever("times", TIMES_EVERY_SEC, self.expire_nodes))
            group.create_task(self._for_ever("strays", STRAYS_EVERY_SEC, self.requeue_strays))
            group.create_task(self._for_ever("retention", RETENTION_EVERY_SEC, self.remove_old))
            group.create_task(self._for_ever("workers", WORKERS_EVERY_SEC, self.forget_workers))

    async def _for_ever(self, name: str, every_sec: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(every_sec)
            with log_and_continue(name):
                await work()

    async def note_commits(self, pause_sec: float = REPAIR_EVERY_SEC) -> None:
        """Note every commit for the repair; returns when the log is another one than before, to begin anew."""
        if await self._feed.last_commit() < self._last_seen:
            logger.warning("the event log is another one; checking all of it")
            self._last_seen = 0
        async for batch in self._feed.commits(after=self._last_seen):
            now = self._stores.clock.monotonic()
            for seen in batch:
                self._unchecked[seen.run_id] = (seen.sequence, now)
                self._last_seen = seen.sequence
            if len(batch) < AT_A_TIME:
                await asyncio.sleep(pause_sec)  # there is no hurry, and many at a time are cheaper

    # --- repair -------------------------------------------------------------------------------------------------------

    async def repair(self) -> None:
        """Compare the commits of a second ago with what the index has of their runs, and mend the difference."""
        ripe = self._stores.clock.monotonic() - REPAIR_AFTER_SEC
        due = [run_id for run_id, (_, seen_at) in self._unchecked.items() if seen_at <= ripe]
        for start in range(0, len(due), AT_A_TIME):
            part = due[start : start + AT_A_TIME]
            shown = self._index.known(part)
            for run_id in part:
                await self._check(run_id, shown.get(run_id, (0, "")))
            await asyncio.sleep(0)
        checked = min((sequence for sequence, _ in self._unchecked.values()), default=self._last_seen + 1) - 1
        if checked != self._index.mark(CHECKED):
            self._index.set_mark(CHECKED, checked)

    async def _check(self, run_id: RunId, shown: tuple[int, str]) -> None:
        # Taken out first: a commit that arrives meanwhile is noted anew, and a run that cannot be mended does not
        # stand in the way of all others for ever.
        sequence, seen_at = self._unchecked.pop(run_id)
        version, status = shown
        if version < sequence or (status == "PENDING" and run_id not in self._vouched):
            try:
                await self._mend(run_id)
            except BrokerUnavailable:
                self._unchecked.setdefault(run_id, (sequence, seen_at))
                raise
        self._vouched.discard(run_id)

    async def _mend(self, run_id: RunId) -> None:
        loaded = await self._stores.snapshots.load(run_id)
        known = loaded.execution if loaded else empty_execution(run_id)
        execution = fold_commits(await self._stores.events.read(run_id, after=known.version), known)
        if not execution.exists:
            return  # retention took it meanwhile
        if execution.version > known.version:
            await self._stores.snapshots.advance(execution, known=loaded, create=loaded is None)
            logger.info("advanced the snapshot of a writer that was lost", extra={"run_id": run_id})
        # A gateway with a new index looks at every run there is, however old.
        if may_queue_again(execution, self._stores.clock.now()):
            job = await job_again(self._stores, execution)
            await self._stores.queue.publish(job, created_sequence=execution.version)

    # --- cancels ------------------------------------------------------------------------------------------------------

    async def see_cancels_through(self) -> None:
        """Confirm what nobody holds, tell holders again, and end what was not confirmed in time."""
        for run_id in self._index.run_ids(RunQuery(status="CANCELLING", limit=AT_A_TIME)):
            try:
                await self._see_cancel_through(run_id)
            except BrokerUnavailable:
                raise
            except PyocoError:
                # It comes first in the next round too: the cancels behind it must not wait for ever.
                logger.exception("a cancel could not be seen through", extra={"run_id": run_id})

    async def _see_cancel_through(self, run_id: RunId) -> None:
        loaded = await self._stores.snapshots.load(run_id)
        if loaded is not None:
            await confirm_or_signal(self._stores, loaded.execution, grace_sec=self._config.cancel_grace_period_sec)

    # --- times --------------------------------------------------------------------------------------------------------

    async def expire_nodes(self) -> None:
        """Draw the consequence of deadlines that are over, and of leases that nobody may take any more."""
        now = self._stores.clock.now()
        for node in self._index.due(before=now, limit=AT_A_TIME):
            facts = {"run_id": node.run_id, "node_id": node.node_id, "attempt": node.attempt}
            try:
                expire = ExpireNode(at=now, node_id=node.node_id, attempt=node.attempt)
                handled = await handle(self._stores, node.run_id, expire, GATEWAY)
            except BrokerUnavailable:
                raise
            except PyocoError:
                # It is due in the next round too, before the others.
                logger.exception("a node's time could not be ended", extra=facts)
                continue
            if handled.events:
                logger.info("a node's time was over", extra=facts)

    # --- strays -------------------------------------------------------------------------------------------------------

    async def requeue_strays(self) -> None:
        """A run whose job is gone, whatever the reason: put it in again. One that lies there given up is `Sweep`'s."""
        now = self._stores.clock.now()
        silence_sec = silence_of_strays_sec(self._config)
        candidates = [
            run_id
            # Only where a worker is free: runs that wait for one are not strays, and must not hide those that are.
            for tag in await self._free_tags(await self._stores.registry.all(), now)
            for status in ("RUNNING", "PENDING")
            for run_id in self._index.unfinished(
                status=status, tag=tag, updated_before=now - silence_sec, limit=MOST_STRAYS
            )
        ]
        for run_id in candidates:
            loaded = await self._stores.snapshots.load(run_id)
            if loaded is None or loaded.execution.status.is_terminal or not loaded.execution.is_queued:
                continue
            silent = now - loaded.heartbeat_at > silence_sec
            patient = now - self._requeued_at.get(run_id, 0.0) > silence_sec
            if silent and patient and not await holder_is_alive(self._stores, loaded.execution):
                self._requeued_at[run_id] = now
                logger.warning("queued a run again that had no sign of life", extra={"run_id": run_id})
                # The same number for all gateways that see it in the same period: the broker keeps one of their jobs.
                await self._stores.queue.publish(
                    await job_again(self._stores, loaded.execution),
                    created_sequence=loaded.execution.version,
                    nth=2 + int(now // silence_sec),
                )
        self._requeued_at = {run_id: at for run_id, at in self._requeued_at.items() if now - at < 2 * silence_sec}

    async def _free_tags(self, records: Iterable[WorkerRecord], now: float) -> set[str]:
        free: set[str] = set()
        for record in records:
            matters = len(record.current_run_ids) < record.slots and not free.issuperset(record.tags)
            if matters and await self._is_there(record, now):
                free.update(record.tags)
        return free

    async def _is_there(self, record: WorkerRecord, now: float) -> bool:
        timeout_sec = self._config.worker_disconnect_timeout_sec
        state = state_of(record, silent_sec=now - record.last_seen_at, disconnect_timeout_sec=timeout_sec)
        if state is WorkerState.DISCONNECTED:
            return await self._stores.signals.answers(record.instance_id)  # perhaps it is only its clock that is slow
        return state is not WorkerState.STOPPED_GRACEFUL

    # --- retention ----------------------------------------------------------------------------------------------------

    async def remove_old(self) -> None:
        """Finished runs leave after their time."""
        if self._config.run_retention_sec == 0:
            return
        ended_before = self._stores.clock.now() - self._config.run_retention_sec
        removed, before = 0, -1
        # A round in which nothing went is the last: the index is behind, or these cannot be removed at all.
        while removed > before and (old := self._index.finished_before(ended_before, AT_A_TIME)):
            before = removed
            for run_id in old:
                removed += await self._remove(run_id)
                await asyncio.sleep(RETENTION_PAUSE_SEC)
            if len(old) < AT_A_TIME:
                break
        if removed:
            logger.info("removed runs whose time was over", extra={"runs": removed})

    async def forget_workers(self) -> None:
        """Workers that have had their time leave; one that speaks meanwhile stays."""
        removed = 0
        for record in expired_workers(await self._stores.registry.all(), self._stores.clock.now()):
            removed += await self._stores.registry.remove(record)
            await asyncio.sleep(RETENTION_PAUSE_SEC)
        if removed:
            logger.info("forgot workers that were not seen for long", extra={"workers": removed})

    async def _remove(self, run_id: RunId) -> bool:
        loaded = await self._stores.snapshots.load(run_id)
        if loaded is None or not loaded.execution.status.is_terminal:
            return False
        await self._stores.run_logs.purge(run_id)
        await self._stores.events.purge(run_id)
        return await self._stores.snapshots.remove(run_id, loaded.revision)


def silence_of_strays_sec(config: NatsBackendConfig) -> float:
    """How long a run is silent, although a worker is free, before it is queued again."""
    return 2 * config.consumer_ack_wait_sec + 30.0
