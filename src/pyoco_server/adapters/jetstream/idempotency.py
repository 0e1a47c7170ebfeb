"""Requests with a key in a bucket whose entries expire by themselves, written by compare-and-set only."""

from __future__ import annotations

import orjson

from pyoco_server.adapters.jetstream.bucket import Bucket, is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.reads import StoredMessage
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.idempotency.record import Record, from_plain, to_plain
from pyoco_server.errors import InternalError
from pyoco_server.ports import StoredRecord


class JetStreamIdempotency:
    """IdempotencyStore."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._subjects = Subjects(config)
        self._bucket = Bucket(connection, self._subjects.idempotency_stream, facts)

    async def create(self, key: RecordKey, record: Record) -> StoredRecord | None:
        created = await self._put(key, record, revision=0)
        if created is None:
            message = await self._bucket.get(self._subjects.idempotency_record(key))
            if message is not None and is_marker(message):
                created = await self._put(key, record, revision=message.sequence)
        return created

    async def get(self, key: RecordKey) -> StoredRecord | None:
        message = await self._bucket.get(self._subjects.idempotency_record(key))
        return None if message is None or is_marker(message) else _decode(key, message)

    async def replace(self, key: RecordKey, record: Record, *, revision: int) -> StoredRecord | None:
        return await self._put(key, record, revision=revision)

    async def remove(self, key: RecordKey, *, revision: int) -> bool:
        return await self._bucket.purge(self._subjects.idempotency_record(key), revision=revision) is not None

    async def _put(self, key: RecordKey, record: Record, *, revision: int) -> StoredRecord | None:
        subject, value = self._subjects.idempotency_record(key), orjson.dumps(to_plain(record))
        stored = await self._bucket.put(subject, value, revision=revision)
        if stored is None:
            # A first try may have been stored although its answer was lost; then what is there is ours.
            message = await self._bucket.get(subject)
            if message is None or message.data != value:
                return None
            stored = message.sequence
        return StoredRecord(record=record, revision=stored)


def _decode(key: RecordKey, message: StoredMessage) -> StoredRecord:
    try:
        record = from_plain(orjson.loads(message.data))
    except orjson.JSONDecodeError:
        record = None
    if record is None:
        raise InternalError("what is kept of a request with this idempotency key cannot be read", record_key=key)
    return StoredRecord(record=record, revision=message.sequence)
