"""The fleet as this gateway sees it: follows the worker registry and measures the silence of every worker.

No request reads the registry. Silence starts when a heartbeat arrives here, by this process's monotonic clock, so no
two clocks have to agree. The age of a record that is found at the start is measured by the broker's clock.

    connected ─────── disconnected ─────── connected again
    silence grows     silence stands       the silence of workers that were not lost before starts again
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, state_of
from pyoco_server.domain.fleet.submissions import ServedTag, served_tags
from pyoco_server.domain.fleet.worker_status import WorkerStatus, announced, is_alive, run_facts
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import BrokerUnavailable, InternalError, WorkerNotFound
from pyoco_server.ports import Broker, Clock
from pyoco_server.services.loops import log_and_continue, wait_event
from pyoco_server.stores import WorkerRegistry, WorkerSeen

TICK_SEC = 0.5
# Longer than a late tick, shorter than every timeout of a worker.
AWAY_AFTER_SEC = 2.0
PAUSE_SEC = 1.0
# How long a request waits for the first fill after a start.
FIRST_FILL_WAIT_SEC = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    record: WorkerRecord
    sequence: int
    seen_at: float


class FleetView:
    """The records of one gateway. They follow the registry while `run` runs; the rest may be called at any time."""

    def __init__(self, registry: WorkerRegistry, broker: Broker, clock: Clock, config: NatsBackendConfig) -> None:
        self._registry = registry
        self._broker = broker
        self._clock = clock
        self._config = config
        self._known: dict[WorkerId, _Known] = {}
        self._connected_at = clock.monotonic()
        self._caught_up = asyncio.Event()
        self._announced: tuple[object, Mapping[str, AnnouncedFlow]] = ((), {})
        self._served: Mapping[str, ServedTag] = {}
        self._served_until = -1.0

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick_for_ever())
            group.create_task(self._follow_for_ever())

    async def wait_caught_up(self, timeout_sec: float) -> bool:
        """Wait until every stored record is known here; False on a timeout."""
        return await wait_event(self._caught_up, timeout_sec)

    async def all_workers(self) -> Sequence[WorkerStatus]:
        """Every worker; `BrokerUnavailable` while records may be missing: a missing worker looks like a dead one."""
        if not self._broker.connected:
            raise BrokerUnavailable
        if not await self.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise BrokerUnavailable("the list of workers is being built after a start; try again in a moment")
        return self.workers()

    async def flows(self) -> Mapping[str, AnnouncedFlow]:
        """The flows that active workers announce, by name; `BrokerUnavailable` while records may be missing."""
        await self.all_workers()
        return self.announced_flows()

    async def find_flow(self, name: str) -> AnnouncedFlow | None:
        return (await self.flows()).get(name)

    def workers(self) -> Sequence[WorkerStatus]:
        present = self._present()
        return [self._status(known, present) for known in self._known.values()]

    def worker(self, worker_id: WorkerId) -> WorkerStatus | None:
        present = self._present()
        known = self._known.get(worker_id)
        return None if known is None else self._status(known, present)

    def alive(self) -> int:
        """The number of workers that have not stopped and were not silent for too long."""
        within_sec = self._config.workers_kv_ttl_sec
        return sum(is_alive(seen, seen.record.instance_id, within_sec=within_sec) for seen in self.workers())

    def announced_flows(self) -> Mapping[str, AnnouncedFlow]:
        """The flows that active workers announce, by name, as far as this gateway knows."""
        active = [seen for seen in self.workers() if seen.is_active]
        # Compared by identity first: equal stored flows are the same value (`flows_from_plain`).
        key = [(one.record.worker_id, one.record.started_at, one.record.tags, one.record.flows) for one in active]
        if key != self._announced[0]:
            self._announced = key, announced(active)
        return self._announced[1]

    def served(self) -> Mapping[str, ServedTag]:
        """What active workers serve, by tag, as far as this gateway knows.

        For every submission: computed when a worker came, went or changed, and otherwise once in a while.
        """
        if not self._caught_up.is_set():
            return {}  # a missing record must not refuse anything
        now = self._clock.monotonic()
        if now >= self._served_until:
            self._served, self._served_until = served_tags(self.workers()), now + TICK_SEC
        return self._served

    def facts_of(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        """The facts about its worker to show beside a run's snapshot."""
        return run_facts(
            snapshot,
            self.worker,
            now=self._clock.now(),
            alive_within_sec=self._config.workers_kv_ttl_sec,
            run_heartbeat_sec=self._config.run_heartbeat_interval_sec,
        )

    async def set_hidden(self, worker_id: WorkerId, hidden: bool) -> float:
        """Hide a worker from the lists, or show it again; the next list here shows the change. Returns its time."""
        at = self._clock.now()
        seen = await self._registry.set_hidden(worker_id, hidden, at=at)
        if seen is None:
            raise WorkerNotFound(worker_id=worker_id)
        self._take(seen, self._known, self._known)
        return at

    async def _follow_for_ever(self) -> None:
        while True:
            with log_and_continue("fleet"):
                await self._follow()
            await asyncio.sleep(PAUSE_SEC)

    async def _follow(self) -> None:
        # Beside the old records until it is complete: a recreated bucket must not leave records of the old one.
        fresh: dict[WorkerId, _Known] = {}
        async with aclosing(self._registry.follow()) as batches:
            async for batch in batches:
                for seen in batch:
                    self._take(seen, fresh, self._known)
                if not batch:
                    self._known = fresh
                    self._served_until = -1.0
                    self._caught_up.set()
        raise InternalError("the feed of workers has ended")

    def _take(self, seen: WorkerSeen, into: dict[WorkerId, _Known], known: Mapping[WorkerId, _Known]) -> None:
        present = self._present()
        before = into.get(seen.worker_id)
        if before is not None and before.sequence >= seen.sequence:
            return
        if seen.record is None:
            into.pop(seen.worker_id, None)
            self._served_until = -1.0
            return
        last = known.get(seen.worker_id)
        if last is None or _service(last.record) != _service(seen.record):
            self._served_until = -1.0
        if last is not None and _heartbeat(last.record) == _heartbeat(seen.record):
            seen_at = last.seen_at  # an operator's change, or the same heartbeat again
        elif seen.age_sec is None:
            seen_at = present - max(0.0, self._clock.now() - seen.record.last_seen_at)
        else:
            seen_at = present - seen.age_sec
        into[seen.worker_id] = _Known(record=seen.record, sequence=seen.sequence, seen_at=seen_at)

    async def _tick_for_ever(self) -> None:
        while True:
            self._present()
            await asyncio.sleep(TICK_SEC)

    def _present(self) -> float:
        """Until when silence is measured: now, or the last moment with a connection."""
        now = self._clock.monotonic()
        if self._broker.connected:
            if now - self._connected_at > AWAY_AFTER_SEC:
                self._restart_silence(lost_at=self._connected_at, now=now)
            self._connected_at = now
        return self._connected_at

    def _restart_silence(self, *, lost_at: float, now: float) -> None:
        timeout_sec = self._config.worker_disconnect_timeout_sec
        for worker_id, known in self._known.items():
            silent_sec = max(0.0, lost_at - known.seen_at)
            was_lost = silent_sec > timeout_sec
            self._known[worker_id] = replace(known, seen_at=now - silent_sec if was_lost else now)

    def _status(self, known: _Known, present: float) -> WorkerStatus:
        silent_sec = max(0.0, present - known.seen_at)
        timeout_sec = self._config.worker_disconnect_timeout_sec
        state = state_of(known.record, silent_sec=silent_sec, disconnect_timeout_sec=timeout_sec)
        return WorkerStatus(record=known.record, silent_sec=silent_sec, state=state)


def _service(record: WorkerRecord) -> tuple[object, ...]:
    # Equal stored flows are the same value.
    return record.tags, record.flows, record.flows_complete, record.stopped_at


def _heartbeat(record: WorkerRecord) -> tuple[str, float]:
    return record.instance_id, record.last_seen_at
