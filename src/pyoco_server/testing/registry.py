"""Worker records in memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from pyoco_server.domain.fleet.records import WorkerRecord
from pyoco_server.domain.ids import WorkerId
from pyoco_server.ports import WorkerSeen
from pyoco_server.testing.stream import MemoryStream


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    worker_id: WorkerId
    record: WorkerRecord | None
    stored_at: float
    by_worker: bool = True


class MemoryRegistry:
    """WorkerRegistry."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: dict[WorkerId, int] = {}
        self._changes: MemoryStream[_Change] = MemoryStream()

    async def put(self, record: WorkerRecord) -> None:
        stored = await self.get(record.worker_id)
        self._store(record.worker_id, replace(record, hidden=stored.hidden if stored else record.hidden))

    async def succeed(self, other: WorkerRecord | None, record: WorkerRecord) -> bool:
        if await self.get(record.worker_id) != other:
            return False
        await self.put(record)
        return True

    async def get(self, worker_id: WorkerId) -> WorkerRecord | None:
        change = self._changes.get(self._last.get(worker_id, 0))
        return change.record if change else None

    async def all(self) -> Sequence[WorkerRecord]:
        records = [await self.get(worker_id) for worker_id in self._last]
        return [record for record in records if record is not None]

    async def set_hidden(self, worker_id: WorkerId, hidden: bool, *, at: float) -> WorkerSeen | None:
        stored = await self.get(worker_id)
        if stored is None:
            return None
        record = replace(stored, hidden=hidden)
        sequence = self._store(worker_id, record, by_worker=False)
        return WorkerSeen(sequence=sequence, worker_id=worker_id, record=record, age_sec=None)

    async def remove(self, record: WorkerRecord) -> bool:
        if await self.get(record.worker_id) != record:
            return False
        self._store(record.worker_id, None)
        return True

    async def follow(self) -> AsyncIterator[Sequence[WorkerSeen]]:
        begun, last = self._monotonic(), self._changes.last_sequence
        present = [
            _seen(sequence, change, age_sec=begun - change.stored_at)
            for sequence in sorted(self._last.values())
            if (change := self._changes.get(sequence)) is not None
        ]
        if present:
            yield present
        yield []
        async with aclosing(self._changes.follow(last)) as batches:
            async for batch in batches:
                yield [_seen(sequence, change, age_sec=0.0) for sequence, change in batch]

    def _store(self, worker_id: WorkerId, record: WorkerRecord | None, *, by_worker: bool = True) -> int:
        change = _Change(worker_id=worker_id, record=record, stored_at=self._monotonic(), by_worker=by_worker)
        self._changes.remove(self._last.get(worker_id, 0))
        self._last[worker_id] = self._changes.append(change)
        return self._last[worker_id]


def _seen(sequence: int, change: _Change, *, age_sec: float) -> WorkerSeen:
    return WorkerSeen(
        sequence=sequence,
        worker_id=change.worker_id,
        record=change.record,
        age_sec=age_sec if change.by_worker else None,
    )
