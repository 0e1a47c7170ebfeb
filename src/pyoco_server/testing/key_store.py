"""API key records in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyoco_server.domain.auth.api_keys import ApiKey, KeyId
from pyoco_server.ports import KeysPosition


class MemoryKeyStore:
    """KeyStore."""

    def __init__(self) -> None:
        self._records: dict[KeyId, ApiKey] = {}
        self._sequence = 0

    async def create(self, record: ApiKey) -> bool:
        if self._records.get(record.key_id, record) != record:
            return False
        self._put(record)
        return True

    async def revoke(self, key_id: KeyId, revoked_at: float) -> ApiKey | None:
        record = self._records.get(key_id)
        if record is not None and record.revoked_at is None:
            self._put(replace(record, revoked_at=revoked_at))
        return self._records.get(key_id)

    async def all(self) -> Sequence[ApiKey]:
        return list(self._records.values())

    async def position(self) -> KeysPosition:
        return KeysPosition(created="1970-01-01T00:00:00Z", last_sequence=self._sequence, messages=len(self._records))

    def _put(self, record: ApiKey) -> None:
        self._sequence += 1
        self._records[record.key_id] = record
