"""Requests with a key in memory; nothing expires."""

from __future__ import annotations

import orjson

from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.idempotency.record import Record, from_plain, to_plain
from pyoco_server.errors import InternalError
from pyoco_server.ports import StoredRecord


class MemoryIdempotency:
    """IdempotencyStore. Records are kept as bytes, so that what cannot be stored cannot be stored here either."""

    def __init__(self) -> None:
        self._kept: dict[RecordKey, tuple[int, bytes]] = {}
        self._revision = 0

    async def create(self, key: RecordKey, record: Record) -> StoredRecord | None:
        return self._put(key, record, revision=0)

    async def get(self, key: RecordKey) -> StoredRecord | None:
        if key not in self._kept:
            return None
        revision, value = self._kept[key]
        record = from_plain(orjson.loads(value))
        if record is None:
            raise InternalError("what is kept of a request with this idempotency key cannot be read", record_key=key)
        return StoredRecord(record=record, revision=revision)

    async def replace(self, key: RecordKey, record: Record, *, revision: int) -> StoredRecord | None:
        return self._put(key, record, revision=revision)

    async def remove(self, key: RecordKey, *, revision: int) -> bool:
        if key not in self._kept or self._kept[key][0] != revision:
            return False
        del self._kept[key]
        return True

    def _put(self, key: RecordKey, record: Record, *, revision: int) -> StoredRecord | None:
        kept, stored = self._kept.get(key, (0, b""))
        value = orjson.dumps(to_plain(record))
        if kept != revision:
            return StoredRecord(record=record, revision=kept) if stored == value else None
        self._revision += 1
        self._kept[key] = self._revision, value
        return StoredRecord(record=record, revision=self._revision)
