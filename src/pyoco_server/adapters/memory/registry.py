"""Worker records in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyoco_server.execution.ids import WorkerId
from pyoco_server.fleet.records import WorkerRecord


class MemoryRegistry:
    """WorkerRegistry."""

    def __init__(self) -> None:
        self._records: dict[WorkerId, WorkerRecord] = {}

    async def put(self, record: WorkerRecord) -> None:
        stored = self._records.get(record.worker_id)
        self._records[record.worker_id] = replace(record, hidden=stored.hidden if stored else record.hidden)

    async def get(self, worker_id: WorkerId) -> WorkerRecord | None:
        return self._records.get(worker_id)

    async def all(self) -> Sequence[WorkerRecord]:
        return list(self._records.values())
