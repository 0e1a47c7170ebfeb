"""Worker records in a bucket, written by compare-and-set so that an operator's `hidden` survives every heartbeat."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime

import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.bucket import Bucket, is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.follower import Followed, Follower, read_present
from pyoco_server.adapters.jetstream.messages import delivered_at, stored_at
from pyoco_server.adapters.jetstream.reads import StoredMessage
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.records import WorkerRecord, from_plain, to_plain
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import AppendConflict
from pyoco_server.ports import WorkerSeen

MAX_RACES = 20
ASIDE_SEC = 0.005
# Put beside a record by whoever is not its worker, and gone with the worker's next word.
PATCHED_AT = "patched_at"


class JetStreamRegistry:
    """WorkerRegistry. Remembers the revisions it wrote, so that a heartbeat is one round trip."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._connection = connection
        self._subjects = Subjects(config)
        self._bucket = Bucket(connection, self._subjects.workers_stream, facts)
        self._written: dict[WorkerId, tuple[int, WorkerRecord | None]] = {}

    async def put(self, record: WorkerRecord) -> None:
        for _ in range(MAX_RACES):
            revision, stored = self._written.get(record.worker_id) or await self._look(record.worker_id)
            if await self._store(record, revision, stored):
                return
            await _step_aside()
        raise AppendConflict(worker_id=record.worker_id)

    async def succeed(self, other: WorkerRecord | None, record: WorkerRecord) -> bool:
        revision, stored = await self._look(record.worker_id)
        return stored == other and await self._store(record, revision, stored)

    async def get(self, worker_id: WorkerId) -> WorkerRecord | None:
        return (await self._look(worker_id))[1]

    async def all(self) -> Sequence[WorkerRecord]:
        every = self._subjects.worker_key(">")
        found = await read_present(self._connection, self._subjects.workers_stream, filter_subject=every)
        # A worker that spoke while we read is there twice; the later word counts.
        messages = {item.message.subject: _stored(item) for item in found}
        records = [_decode(message) for message in messages.values()]
        return [record for record in records if record is not None]

    async def set_hidden(self, worker_id: WorkerId, hidden: bool, *, at: float) -> WorkerSeen | None:
        key = self._subjects.worker_key(worker_id)
        for _ in range(MAX_RACES):
            message = await self._bucket.get(key)
            if message is None or _decode(message) is None:
                return None
            # The stored JSON and not the record: a newer worker may have said more than we know of.
            plain = orjson.loads(message.data) | {"hidden": hidden, PATCHED_AT: at}
            revision = await self._bucket.put(key, orjson.dumps(plain), revision=message.sequence)
            if revision is not None:
                return WorkerSeen(sequence=revision, worker_id=worker_id, record=from_plain(plain), age_sec=None)
            await _step_aside()
        raise AppendConflict(worker_id=worker_id)

    async def remove(self, record: WorkerRecord) -> bool:
        revision, stored = await self._look(record.worker_id)
        if stored != record:
            return False
        return await self._bucket.purge(self._subjects.worker_key(record.worker_id), revision=revision) is not None

    async def follow(self) -> AsyncIterator[Sequence[WorkerSeen]]:
        stream = self._subjects.workers_stream
        info = await self._connection.api(subjects.stream_info(stream))
        begun: float | None = _unix(info["ts"])
        async with aclosing(Follower(self._connection, stream, after=0).batches()) as batches:
            async for batch in batches:
                yield [self._seen(item, begun) for item in batch]
                if begun is not None and (not batch or delivered_at(batch[-1].message.reply).pending == 0):
                    begun = None
                    if batch:
                        yield []

    def _seen(self, item: Followed, begun: float | None) -> WorkerSeen:
        worker_id = WorkerId(item.message.subject.decode().removeprefix(self._subjects.worker_key("")))
        message = _stored(item)
        record = _decode(message)
        if record is None or record.worker_id != worker_id:
            return WorkerSeen(sequence=item.sequence, worker_id=worker_id, record=None)
        age_sec = 0.0 if begun is None else _age(message, stored_at(item.message.reply), begun)
        return WorkerSeen(sequence=item.sequence, worker_id=worker_id, record=record, age_sec=age_sec)

    async def _look(self, worker_id: WorkerId) -> tuple[int, WorkerRecord | None]:
        message = await self._bucket.get(self._subjects.worker_key(worker_id))
        return (0, None) if message is None else (message.sequence, _decode(message))

    async def _store(self, record: WorkerRecord, revision: int, stored: WorkerRecord | None) -> bool:
        kept = replace(record, hidden=stored.hidden if stored else record.hidden)
        key = self._subjects.worker_key(record.worker_id)
        new_revision = await self._bucket.put(key, orjson.dumps(to_plain(kept)), revision=revision)
        if new_revision is None:
            self._written.pop(record.worker_id, None)
            return False
        self._written[record.worker_id] = (new_revision, kept)
        return True


async def _step_aside() -> None:
    """Two who read and write in step would meet again and again, and the same one would lose."""
    await asyncio.sleep(random.random() * ASIDE_SEC)  # noqa: S311 — no secret hangs on it


def _stored(item: Followed) -> StoredMessage:
    message = item.message
    return StoredMessage(sequence=item.sequence, subject="", headers=message.headers, data=message.data)


def _decode(message: StoredMessage) -> WorkerRecord | None:
    if is_marker(message):
        return None
    try:
        return from_plain(orjson.loads(message.data))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # not a worker's word


def _age(message: StoredMessage, at: float, now: float) -> float | None:
    """Two moments of the broker's clock, so that nobody else's need be right; None: the worker spoke earlier."""
    return None if PATCHED_AT in orjson.loads(message.data) else max(0.0, now - at)


def _unix(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
