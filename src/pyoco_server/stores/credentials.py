"""Credentials: records of API keys, and single-use tickets. Each holds a digest, never the key or the ticket.

An unreadable key record authenticates nothing. The broker expires tickets.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import orjson

from pyoco_server.domain.auth import api_keys, tickets
from pyoco_server.domain.auth.api_keys import ApiKey, KeyId
from pyoco_server.domain.auth.tickets import Ticket, TicketKey
from pyoco_server.errors import AppendConflict, InternalError
from pyoco_server.ports.broker import Entry, KeyValue, Stored, StreamState

logger = logging.getLogger(__name__)

MAX_RETRIES = 20
# Of a usual run. On a full disk a few bytes still fit behind the last ones, in their block of the file system.
PROBE_BYTES = 64 * 1024


class KeyStore:
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


class TicketStore:
    """Tickets that were issued and not used yet, by the digest of their secret."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def add(self, key: TicketKey, ticket: Ticket) -> None:
        """Store a new ticket. The key is unique, so a refusal means that an earlier attempt was stored."""
        await self._bucket.put(key, orjson.dumps(tickets.to_plain(ticket)), revision=0)

    async def probe(self, token: str) -> None:
        """Store a value under a new name that no ticket has: this shows whether writes are acknowledged."""
        await self._bucket.put(f"probe-{token}", bytes(PROBE_BYTES), revision=0)

    async def take(self, key: TicketKey) -> Ticket | None:
        """Return a ticket and remove it: of all callers with the same key, at most one gets it.

        A ticket whose removal was not acknowledged is lost; the alternative would be two holders.
        """
        entry = await self._bucket.get(key)
        if entry is None or entry.value is None or await self._bucket.purge(key, revision=entry.revision) is None:
            return None
        try:
            return tickets.from_plain(orjson.loads(entry.value))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise InternalError("the stored ticket cannot be read") from error


def _encode(record: ApiKey) -> bytes:
    return orjson.dumps(api_keys.to_plain(record))


def _decode(entry: Entry) -> ApiKey | None:
    if entry.value is None:
        return None
    try:
        record = api_keys.from_plain(orjson.loads(entry.value))
    except (ValueError, KeyError, TypeError, AttributeError):
        record = None
    if record is None or record.key_id != entry.key:
        logger.warning("unreadable API key record", extra={"key_id": entry.key})
        return None
    return record
