"""API key records in a bucket, changed by compare-and-set; a record that cannot be read opens nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.bucket import Bucket, is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import answer
from pyoco_server.adapters.jetstream.follower import read_present
from pyoco_server.adapters.jetstream.reads import StoredMessage
from pyoco_server.adapters.jetstream.subjects import Subjects, last_token
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import ApiKey, KeyId, from_plain, to_plain
from pyoco_server.errors import AppendConflict
from pyoco_server.ports import KeysPosition

logger = logging.getLogger(__name__)

MAX_RACES = 20


class JetStreamKeyStore:
    """KeyStore."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._connection = connection
        self._subjects = Subjects(config)
        self._stream = self._subjects.api_keys_stream
        self._bucket = Bucket(connection, self._stream, facts)

    async def create(self, record: ApiKey) -> bool:
        key = self._subjects.api_key(record.key_id)
        value = orjson.dumps(to_plain(record))
        if await self._bucket.put(key, value, revision=0) is not None:
            return True
        # A first try may have been stored although its answer was lost; then what is there is ours.
        stored = await self._bucket.get(key)
        return stored is not None and stored.data == value

    async def revoke(self, key_id: KeyId, revoked_at: float) -> ApiKey | None:
        key = self._subjects.api_key(key_id)
        for _ in range(MAX_RACES):
            message = await self._bucket.get(key)
            record = None if message is None else _decode(key_id, message)
            if message is None or record is None or record.revoked_at is not None:
                return record
            revoked = replace(record, revoked_at=revoked_at)
            if await self._bucket.put(key, orjson.dumps(to_plain(revoked)), revision=message.sequence) is not None:
                return revoked
        raise AppendConflict(key_id=key_id)

    async def all(self) -> Sequence[ApiKey]:
        every = self._subjects.api_key(">")
        found = await read_present(self._connection, self._stream, filter_subject=every)
        # A key that was changed while we read is there twice; the later word counts.
        records: dict[KeyId, ApiKey | None] = {}
        for item in found:
            key_id = KeyId(last_token(item.message.subject.decode()))
            stored = StoredMessage(
                sequence=item.sequence, subject="", headers=item.message.headers, data=item.message.data
            )
            records[key_id] = _decode(key_id, stored)
        return [record for record in records.values() if record is not None]

    async def position(self) -> KeysPosition:
        info = answer(await self._connection.request(subjects.stream_info(self._stream)))
        state = info["state"]
        return KeysPosition(created=info["created"], last_sequence=state["last_seq"], messages=state["messages"])


def _decode(key_id: KeyId, message: StoredMessage) -> ApiKey | None:
    if is_marker(message):
        return None
    try:
        record = from_plain(orjson.loads(message.data))
    except (ValueError, KeyError, TypeError, AttributeError):
        record = None
    if record is None or record.key_id != key_id:
        logger.warning("API key record cannot be read", extra={"key_id": key_id})
        return None
    return record
