"""Worker records in a bucket, written by compare-and-set so that an operator's `hidden` survives every heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson

from pyoco_server.adapters.jetstream.bucket import Bucket, is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.follower import read_present
from pyoco_server.adapters.jetstream.reads import StoredMessage
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import AppendConflict
from pyoco_server.execution.ids import WorkerId
from pyoco_server.fleet.records import WorkerRecord, from_plain, to_plain

MAX_RACES = 20


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
        raise AppendConflict(worker_id=record.worker_id)

    async def get(self, worker_id: WorkerId) -> WorkerRecord | None:
        return (await self._look(worker_id))[1]

    async def all(self) -> Sequence[WorkerRecord]:
        every = self._subjects.worker_key(">")
        found = await read_present(self._connection, self._subjects.workers_stream, filter_subject=every)
        # A worker that spoke while we read is there twice; the later word counts.
        messages = {
            item.message.subject: StoredMessage(
                sequence=item.sequence, subject="", headers=item.message.headers, data=item.message.data
            )
            for item in found
        }
        records = [_decode(message) for message in messages.values()]
        return [record for record in records if record is not None]

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


def _decode(message: StoredMessage) -> WorkerRecord | None:
    if is_marker(message):
        return None
    try:
        return from_plain(orjson.loads(message.data))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # not a worker's word
