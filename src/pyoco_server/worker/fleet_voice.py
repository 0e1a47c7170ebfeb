"""What a worker says of itself to the fleet: its record in the registry, kept true without a write per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId
from pyoco_server.errors import InvalidUsage
from pyoco_server.services.context import Stores


class FleetVoice:
    """One worker's entry in the registry."""

    def __init__(
        self,
        stores: Stores,
        worker_id: WorkerId,
        instance_id: InstanceId,
        tags: tuple[str, ...],
        slots: int,
        current: Callable[[], Sequence[RunId]],
        wheel_sync: Callable[[], Mapping[str, Any] | None] = lambda: None,
        flows: Callable[[], tuple[AnnouncedFlow, ...]] = lambda: (),
    ) -> None:
        self._stores = stores
        self._current = current
        self._wheel_sync = wheel_sync
        self._flows = flows
        self._record = WorkerRecord(
            worker_id=worker_id,
            instance_id=instance_id,
            tags=tags,
            slots=slots,
            last_seen_at=stores.clock.now(),
            started_at=stores.clock.now(),
        )
        self._said_at = 0.0
        self._last_run: tuple[RunId, str] | None = None

    async def enter(self) -> None:
        """Join the fleet; refused while another instance of the same worker id is alive."""
        worker_id = self._record.worker_id
        while True:
            other = await self._stores.registry.get(worker_id)
            if other is not None and other.stopped_at is None and await self._stores.signals.answers(other.instance_id):
                raise InvalidUsage(
                    f"a worker with the id {worker_id!r} is running; stop it or choose another --worker-id",
                    worker_id=worker_id,
                )
            if await self._stores.registry.succeed(other, self._present()):
                self._said_at = self._record.last_seen_at
                return
            # Somebody came in between; whoever it is, it listens already.

    def ran(self, run_id: RunId, status: str) -> None:
        """Remember the last run for the next word."""
        self._last_run = (run_id, status)

    async def speak(self, every_sec: float) -> None:
        """Say how things are, when something changed or when it is time."""
        now = self._stores.clock.now()
        record = replace(self._present(), last_seen_at=now, current_run_ids=tuple(self._current()))
        changed = replace(record, last_seen_at=self._record.last_seen_at) != self._record
        if changed or now - self._said_at >= every_sec:
            await self._say(record)

    async def leave(self, reason: str) -> None:
        """Say goodbye: STOPPED_GRACEFUL, holding nothing."""
        now = self._stores.clock.now()
        idle = replace(self._present(), last_seen_at=now, current_run_ids=())
        await self._say(replace(idle, stopped_at=now, stop_reason=reason))

    def _present(self) -> WorkerRecord:
        record = replace(self._record, wheel_sync=self._wheel_sync(), flows=self._flows())
        if self._last_run is None:
            return record
        run_id, status = self._last_run
        return replace(record, last_run_id=run_id, last_run_status=status)

    async def _say(self, record: WorkerRecord) -> None:
        await self._stores.registry.put(record)
        self._record = record
        self._said_at = record.last_seen_at
