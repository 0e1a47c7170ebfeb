"""The keys that sign links to artifacts, changed by compare-and-set only: all gateways have the same."""

from __future__ import annotations

import logging
from typing import NamedTuple

import orjson

from pyoco_server.domain.pdca.links import SigningKeys, from_plain, to_plain
from pyoco_server.ports.broker import KeyValue, RevisionConflict

logger = logging.getLogger(__name__)

KEY = "artifacts"


class StoredKeys(NamedTuple):
    """The stored keys and the revision to compare-and-set on; None before the first, or when they are unreadable."""

    keys: SigningKeys | None
    revision: int


class SigningKeyStore:
    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def get(self) -> StoredKeys:
        entry = await self._bucket.get(KEY)
        if entry is None or entry.value is None:
            return StoredKeys(None, 0 if entry is None else entry.revision)
        try:
            keys = from_plain(orjson.loads(entry.value))
        except orjson.JSONDecodeError:
            keys = None
        if keys is None:
            logger.warning("signing keys cannot be read, replacing them", extra={"revision": entry.revision})
        return StoredKeys(keys, entry.revision)

    async def replace(self, keys: SigningKeys, *, revision: int) -> bool:
        """Store in place of that revision; False when another gateway was first."""
        stored = await self._bucket.put(KEY, orjson.dumps(to_plain(keys)), revision=revision)
        return not isinstance(stored, RevisionConflict)
