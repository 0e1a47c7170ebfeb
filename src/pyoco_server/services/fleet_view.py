"""The fleet as this gateway sees it: follows the registry, keeps every record in memory, and times silence by itself.

No request reads the registry. Silence runs from the moment a word arrived here, by this process's own monotonic clock,
so no two clocks have to agree. What is found at the start is as old as the store says by its own clock.

    in touch ─────── away ─────── in touch again
    silence runs     it stands    those who were not lost before begin anew: it was we who could not hear them
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, state_of
from pyoco_server.domain.fleet.worker_status import (
    WorkerQuery,
    WorkerStatus,
    announced,
    filter_workers,
    is_alive,
    run_facts,
)
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import BrokerUnavailable, InternalError, WorkerNotFound
from pyoco_server.ports import Broker, Clock
from pyoco_server.stores import WorkerRegistry, WorkerSeen

logger = logging.getLogger(__name__)

TICK_SEC = 0.5
# Longer than a tick that comes late; shorter than anything a worker could be blamed for.
AWAY_AFTER_SEC = 2.0
PAUSE_SEC = 1.0
# How long a request waits for the first fill after a start.
FIRST_FILL_WAIT_SEC = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    record: WorkerRecord
    sequence: int
    heard_at: float


class FleetView:
    """The records of one gateway. `run` is its whole life; everything else may be asked at any time."""

    def __init__(self, registry: WorkerRegistry, broker: Broker, clock: Clock, config: NatsBackendConfig) -> None:
        self._registry = registry
        self._broker = broker
        self._clock = clock
        self._config = config
        self._heard: dict[WorkerId, _Heard] = {}
        self._in_touch_at = clock.monotonic()
        self._caught_up = asyncio.Event()
        self._announced: tuple[object, Mapping[str, AnnouncedFlow]] = ((), {})

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick_for_ever())
            group.create_task(self._follow_for_ever())

    async def wait_caught_up(self, timeout_sec: float) -> bool:
        """Wait until everything that was stored is known here; False when that took too long."""
        try:
            async with asyncio.timeout(timeout_sec):
                await self._caught_up.wait()
        except TimeoutError:
            return False
        return True

    async def all_workers(self) -> Sequence[WorkerStatus]:
        """Every worker; refused while the records may be incomplete: a missing worker would look like a dead one."""
        if not self._broker.connected:
            raise BrokerUnavailable
        if not await self.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise BrokerUnavailable("the list of workers is being built after a start; try again in a moment")
        return self.workers()

    async def list_workers(self, query: WorkerQuery) -> Sequence[WorkerStatus]:
        """The matching workers, in order."""
        return filter_workers(await self.all_workers(), query)

    async def flows(self) -> Mapping[str, AnnouncedFlow]:
        """The flows that active workers announce, by name; refused while the records may be incomplete."""
        await self.all_workers()
        return self.announced_flows()

    async def find_flow(self, name: str) -> AnnouncedFlow | None:
        """One of these flows."""
        return (await self.flows()).get(name)

    def workers(self) -> Sequence[WorkerStatus]:
        """Every worker there is, as it stands now."""
        present = self._present()
        return [self._status(heard, present) for heard in self._heard.values()]

    def worker(self, worker_id: WorkerId) -> WorkerStatus | None:
        """One worker as it stands now."""
        present = self._present()
        heard = self._heard.get(worker_id)
        return None if heard is None else self._status(heard, present)

    def alive(self) -> int:
        """How many workers live: not stopped, and heard of lately."""
        within_sec = self._config.workers_kv_ttl_sec
        return sum(is_alive(seen, seen.record.instance_id, within_sec=within_sec) for seen in self.workers())

    def announced_flows(self) -> Mapping[str, AnnouncedFlow]:
        """The flows that active workers announce, by name, as far as this gateway knows."""
        active = [seen for seen in self.workers() if seen.is_active]
        # Quickly compared: what is announced again is the same value (`flows_from_plain`).
        key = [(one.record.worker_id, one.record.started_at, one.record.tags, one.record.flows) for one in active]
        if key != self._announced[0]:
            self._announced = key, announced(active)
        return self._announced[1]

    def facts_of(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        """What to show of the worker beside a run's snapshot."""
        return run_facts(
            snapshot,
            self.worker,
            now=self._clock.now(),
            alive_within_sec=self._config.workers_kv_ttl_sec,
            run_heartbeat_sec=self._config.run_heartbeat_interval_sec,
        )

    async def set_hidden(self, worker_id: WorkerId, hidden: bool) -> float:
        """Hide a worker from the lists, or show it again; when that was stored. The next list here shows it."""
        at = self._clock.now()
        seen = await self._registry.set_hidden(worker_id, hidden, at=at)
        if seen is None:
            raise WorkerNotFound(worker_id=worker_id)
        self._take(seen, self._heard, self._heard)
        return at

    # --- following ----------------------------------------------------------------------------------------------------

    async def _follow_for_ever(self) -> None:
        while True:
            try:
                await self._follow()
            except BrokerUnavailable as away:
                logger.info("the fleet cannot be followed", extra={"reason": away.detail})
            except Exception:
                # One of the outer loops: whatever breaks it must not end the gateway.
                logger.exception("following the fleet broke")
            await asyncio.sleep(PAUSE_SEC)

    async def _follow(self) -> None:
        # Beside the old ones until it is whole: a store that was made anew must not leave records of the old one.
        fresh: dict[WorkerId, _Heard] = {}
        batches = self._registry.follow()
        try:
            async for batch in batches:
                for seen in batch:
                    self._take(seen, fresh, self._heard)
                if not batch:
                    self._heard = fresh
                    self._caught_up.set()
        finally:
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()
        raise InternalError("the feed of workers ended")

    def _take(self, seen: WorkerSeen, into: dict[WorkerId, _Heard], known: Mapping[WorkerId, _Heard]) -> None:
        present = self._present()
        before = into.get(seen.worker_id)
        if before is not None and before.sequence >= seen.sequence:
            return
        if seen.record is None:
            into.pop(seen.worker_id, None)
            return
        heard_at = self._heard_at(seen.record, seen.age_sec, known.get(seen.worker_id), present)
        into[seen.worker_id] = _Heard(record=seen.record, sequence=seen.sequence, heard_at=heard_at)

    def _heard_at(self, record: WorkerRecord, age_sec: float | None, before: _Heard | None, present: float) -> float:
        if before is not None and _word(before.record) == _word(record):
            return before.heard_at  # not the worker's doing: an operator's, or told to us again
        if age_sec is None:
            age_sec = max(0.0, self._clock.now() - record.last_seen_at)
        return present - age_sec

    # --- silence ------------------------------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            self._present()
            await asyncio.sleep(TICK_SEC)

    def _present(self) -> float:
        """The moment up to which silence counts: now, or when we were last in touch ourselves."""
        now = self._clock.monotonic()
        if self._broker.connected:
            if now - self._in_touch_at > AWAY_AFTER_SEC:
                self._begin_anew(lost_at=self._in_touch_at, now=now)
            self._in_touch_at = now
        return self._in_touch_at

    def _begin_anew(self, *, lost_at: float, now: float) -> None:
        patience_sec = self._config.worker_disconnect_timeout_sec
        for worker_id, heard in self._heard.items():
            silent_sec = max(0.0, lost_at - heard.heard_at)
            was_lost = silent_sec > patience_sec
            self._heard[worker_id] = replace(heard, heard_at=now - silent_sec if was_lost else now)

    def _status(self, heard: _Heard, present: float) -> WorkerStatus:
        silent_sec = max(0.0, present - heard.heard_at)
        timeout_sec = self._config.worker_disconnect_timeout_sec
        state = state_of(heard.record, silent_sec=silent_sec, disconnect_timeout_sec=timeout_sec)
        return WorkerStatus(record=heard.record, silent_sec=silent_sec, state=state)


def _word(record: WorkerRecord) -> tuple[str, float]:
    return record.instance_id, record.last_seen_at
