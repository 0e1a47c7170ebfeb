"""The registry of workers: their last heartbeat records, and the operator's `hidden`, which survives heartbeats."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

import msgspec
import orjson

from pyoco_server.domain.fleet.records import WorkerRecord, from_plain, to_plain
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import AppendConflict
from pyoco_server.ports.broker import Entry, KeyValue, Stored

MAX_RETRIES = 20
MAX_BACKOFF_SEC = 0.005
# Added to a record by an operator's change, and dropped by the worker's next heartbeat.
PATCHED_AT = "patched_at"


class WorkerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the registry; `record` is None when it was removed or cannot be read.

    `age_sec` is the time since the worker wrote the record, by the broker's clock; None where an operator wrote last.
    """

    sequence: int
    worker_id: WorkerId
    record: WorkerRecord | None
    age_sec: float | None = 0.0


class WorkerRegistry:
    """Worker records by worker id. Remembers the revisions it wrote, so that a heartbeat is one round trip."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket
        self._written: dict[WorkerId, tuple[int, WorkerRecord | None]] = {}

    async def put(self, record: WorkerRecord) -> None:
        """Store the worker's own record; the stored `hidden`, which is the operator's, is kept."""
        for _ in range(MAX_RETRIES):
            revision, stored = self._written.get(record.worker_id) or await self._load(record.worker_id)
            if await self._store(record, revision, stored):
                return
            await _back_off()
        raise AppendConflict(worker_id=record.worker_id)

    async def succeed(self, other: WorkerRecord | None, record: WorkerRecord) -> bool:
        """Replace another instance's record; False when it has changed meanwhile: of two successors one wins."""
        revision, stored = await self._load(record.worker_id)
        return stored == other and await self._store(record, revision, stored)

    async def get(self, worker_id: WorkerId) -> WorkerRecord | None:
        return (await self._load(worker_id))[1]

    async def all(self) -> Sequence[WorkerRecord]:
        records = [_decode(entry) for entry in await self._bucket.all()]
        return [record for record in records if record is not None]

    async def set_hidden(self, worker_id: WorkerId, hidden: bool, *, at: float) -> WorkerSeen | None:
        """Store the operator's choice and change nothing else; None: no such worker. It is no sign of life."""
        for _ in range(MAX_RETRIES):
            entry = await self._bucket.get(worker_id)
            if entry is None or entry.value is None or _decode(entry) is None:
                return None
            # The stored JSON and not the record: a newer worker may store fields that this version does not know.
            plain = orjson.loads(entry.value) | {"hidden": hidden, PATCHED_AT: at}
            stored = await self._bucket.put(worker_id, orjson.dumps(plain), revision=entry.revision)
            if isinstance(stored, Stored):
                return WorkerSeen(sequence=stored.version, worker_id=worker_id, record=from_plain(plain), age_sec=None)
            await _back_off()
        raise AppendConflict(worker_id=worker_id)

    async def remove(self, record: WorkerRecord) -> bool:
        """Remove the worker, unless its record has changed since."""
        revision, stored = await self._load(record.worker_id)
        return stored == record and await self._bucket.purge(record.worker_id, revision=revision) is not None

    async def follow(self) -> AsyncGenerator[Sequence[WorkerSeen], None]:
        """The stored records, then one empty batch, then every change, across reconnects.

        Raises `BrokerUnavailable` when the bucket was recreated: start again and forget what was reported before.
        """
        caught_up = False
        async with aclosing(self._bucket.follow(after=0)) as batches:
            async for batch in batches:
                if batch or not caught_up:
                    yield [_seen(entry) for entry in batch]
                caught_up = caught_up or not batch

    async def _load(self, worker_id: WorkerId) -> tuple[int, WorkerRecord | None]:
        entry = await self._bucket.get(worker_id)
        return (0, None) if entry is None else (entry.revision, _decode(entry))

    async def _store(self, record: WorkerRecord, revision: int, stored: WorkerRecord | None) -> bool:
        kept = replace(record, hidden=stored.hidden if stored else record.hidden)
        result = await self._bucket.put(record.worker_id, orjson.dumps(to_plain(kept)), revision=revision)
        if not isinstance(result, Stored):
            self._written.pop(record.worker_id, None)
            return False
        self._written[record.worker_id] = (result.version, kept)
        return True


async def _back_off() -> None:
    """Two writers in lockstep would conflict again and again, and the same one would lose."""
    await asyncio.sleep(random.random() * MAX_BACKOFF_SEC)  # noqa: S311 — no secret depends on it


def _seen(entry: Entry) -> WorkerSeen:
    worker_id = WorkerId(entry.key)
    record = _decode(entry)
    if record is None or entry.value is None or record.worker_id != worker_id:
        return WorkerSeen(sequence=entry.revision, worker_id=worker_id, record=None)
    patched = PATCHED_AT.encode() in entry.value and PATCHED_AT in orjson.loads(entry.value)
    age_sec = None if patched else entry.age_sec
    return WorkerSeen(sequence=entry.revision, worker_id=worker_id, record=record, age_sec=age_sec)


def _decode(entry: Entry) -> WorkerRecord | None:
    if entry.value is None:
        return None
    try:
        return from_plain(orjson.loads(entry.value))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
