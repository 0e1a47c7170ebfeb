"""API key records. Each holds a digest, never the key; an unreadable record authenticates nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import orjson

from pyoco_server.domain.auth.api_keys import ApiKey, KeyId, from_plain, to_plain
from pyoco_server.errors import AppendConflict
from pyoco_server.ports.broker import Entry, KeyValue, Stored, StreamState

logger = logging.getLogger(__name__)

MAX_RETRIES = 20


class KeyStore:
    """API key records by key id."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def create(self, record: ApiKey) -> bool:
        """Store a new record; False when that key id is or was in use."""
        return isinstance(await self._bucket.put(record.key_id, _encode(record), revision=0), Stored)

    async def revoke(self, key_id: KeyId, revoked_at: float) -> ApiKey | None:
        """Revoke a key and return its record; a key revoked before keeps its time, an unknown one is None."""
        for _ in range(MAX_RETRIES):
            entry = await self._bucket.get(key_id)
            record = None if entry is None else _decode(entry)
            if entry is None or record is None or record.revoked_at is not None:
                return record
            revoked = replace(record, revoked_at=revoked_at)
            if isinstance(await self._bucket.put(key_id, _encode(revoked), revision=entry.revision), Stored):
                return revoked
        raise AppendConflict(key_id=key_id)

    async def all(self) -> Sequence[ApiKey]:
        """Every record, revoked ones included."""
        records = [_decode(entry) for entry in await self._bucket.all()]
        return [record for record in records if record is not None]

    async def position(self) -> StreamState:
        """The state of the bucket: while it is equal, the records are the same."""
        return await self._bucket.state()


def _encode(record: ApiKey) -> bytes:
    return orjson.dumps(to_plain(record))


def _decode(entry: Entry) -> ApiKey | None:
    if entry.value is None:
        return None
    try:
        record = from_plain(orjson.loads(entry.value))
    except (ValueError, KeyError, TypeError, AttributeError):
        record = None
    if record is None or record.key_id != entry.key:
        logger.warning("unreadable API key record", extra={"key_id": entry.key})
        return None
    return record
