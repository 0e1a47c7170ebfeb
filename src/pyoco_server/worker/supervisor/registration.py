"""The worker's record in the registry, kept current without a write per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyoco_server.domain.fleet.records import WorkerRecord
from pyoco_server.domain.ids import InstanceId, WorkerId
from pyoco_server.errors import InvalidUsage
from pyoco_server.services.context import Stores


class WorkerRegistration:
    def __init__(
        self,
        stores: Stores,
        worker_id: WorkerId,
        instance_id: InstanceId,
        tags: tuple[str, ...],
        slots: int,
        current: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """`current` has the fields of the record that change while the worker runs."""
        self._stores = stores
        self._current = current
        self._record = WorkerRecord(
            worker_id=worker_id,
            instance_id=instance_id,
            tags=tags,
            slots=slots,
            last_seen_at=stores.clock.now(),
            started_at=stores.clock.now(),
        )
        self._written_at = 0.0

    async def register(self) -> None:
        """Adds the record; `InvalidUsage` while another instance with the same worker id is alive."""
        worker_id, instance_id = self._record.worker_id, self._record.instance_id
        while True:
            other = await self._stores.registry.get(worker_id)
            # Our own record: the write was stored by a try whose answer was lost, and its repetition conflicted.
            is_ours = other is not None and other.instance_id == instance_id
            if other is not None and not is_ours and await self._is_alive(other):
                raise InvalidUsage(
                    f"a worker with the id {worker_id!r} is running; stop it or choose another --worker-id",
                    worker_id=worker_id,
                )
            if is_ours or await self._stores.registry.succeed(other, self._present()):
                self._written_at = self._record.last_seen_at
                return
            # Another instance registered in between. It already answers signals, so the next iteration finds it.

    async def update(self, every_sec: float) -> None:
        """Writes the record if it has changed or is due."""
        now = self._stores.clock.now()
        record = replace(self._present(), last_seen_at=now)
        has_changed = replace(record, last_seen_at=self._record.last_seen_at) != self._record
        if has_changed or now - self._written_at >= every_sec:
            await self._write(record)

    async def unregister(self, reason: str) -> None:
        """Marks the worker as STOPPED_GRACEFUL, without runs."""
        now = self._stores.clock.now()
        idle = replace(self._present(), last_seen_at=now, current_run_ids=())
        await self._write(replace(idle, stopped_at=now, stop_reason=reason))

    async def _is_alive(self, other: WorkerRecord) -> bool:
        return other.stopped_at is None and await self._stores.signals.answers(other.instance_id)

    def _present(self) -> WorkerRecord:
        return replace(self._record, **self._current())

    async def _write(self, record: WorkerRecord) -> None:
        await self._stores.registry.put(record)
        self._record = record
        self._written_at = record.last_seen_at
