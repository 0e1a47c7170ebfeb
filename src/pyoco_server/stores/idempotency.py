"""Records of requests with an idempotency key, written by compare-and-set only; the broker expires them."""

from __future__ import annotations

import msgspec
import orjson

from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.idempotency.record import Record, from_plain, to_plain
from pyoco_server.errors import InternalError
from pyoco_server.ports.broker import KeyValue, RevisionConflict


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored record and the revision to compare-and-set on."""

    record: Record
    revision: int


class IdempotencyStore:
    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def create(self, key: RecordKey, record: Record) -> StoredRecord | None:
        """Store the first record of a key; None when there is one. Repeating the same record succeeds."""
        value = orjson.dumps(to_plain(record))
        stored = await self._bucket.put(key, value, revision=0)
        if isinstance(stored, RevisionConflict) and stored.entry is not None and stored.entry.value is None:
            stored = await self._bucket.put(key, value, revision=stored.entry.revision)  # removed by hand
        return None if isinstance(stored, RevisionConflict) else StoredRecord(record=record, revision=stored.version)

    async def get(self, key: RecordKey) -> StoredRecord | None:
        """The stored record; `InternalError` when it is unreadable, because ignoring it would repeat the request."""
        entry = await self._bucket.get(key)
        if entry is None or entry.value is None:
            return None
        try:
            record = from_plain(orjson.loads(entry.value))
        except orjson.JSONDecodeError:
            record = None
        if record is None:
            raise InternalError("the stored record of this idempotency key cannot be read", record_key=key)
        return StoredRecord(record=record, revision=entry.revision)

    async def replace(self, key: RecordKey, record: Record, *, revision: int) -> StoredRecord | None:
        """Store in place of that revision; None when it has another by now, or is gone. Repeating it succeeds."""
        stored = await self._bucket.put(key, orjson.dumps(to_plain(record)), revision=revision)
        return None if isinstance(stored, RevisionConflict) else StoredRecord(record=record, revision=stored.version)
