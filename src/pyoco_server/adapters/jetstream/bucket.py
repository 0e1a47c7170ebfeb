"""A key-value bucket by its stream: get, compare-and-set, conditional purge; knows nothing of what is in it."""

from __future__ import annotations

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import Refused, acknowledged
from pyoco_server.adapters.jetstream.messages import headers
from pyoco_server.adapters.jetstream.reads import StoredMessage, StreamReader
from pyoco_server.adapters.jetstream.topology import Facts

# Long enough that every follower has seen it, whatever it was switched off for; then it vanishes by itself.
MARKER_TTL_SEC = 7 * 86400


class Bucket:
    """One bucket. A key whose last message is a marker is removed, which is not the same as never written."""

    def __init__(self, connection: Connection, stream: str, facts: Facts) -> None:
        self._connection = connection
        self._reader = StreamReader(connection, stream, direct=stream in facts.direct)
        self._marker_ttl = stream in facts.message_ttl

    async def get(self, key: str) -> StoredMessage | None:
        """The last message of the key, a marker included."""
        return await self._reader.last(key)

    async def put(self, key: str, value: bytes, *, revision: int) -> int | None:
        """Store if the key still has that revision (0: was never written); the new revision, or None."""
        expected = headers((subjects.EXPECTED_LAST, revision))
        return await self._store(key, value, expected)

    async def purge(self, key: str, *, revision: int | None) -> int | None:
        """Replace the key by a marker, if it still has that revision; the marker's revision, or None."""
        pairs: list[tuple[str, object]] = [(subjects.KV_OPERATION, "PURGE"), (subjects.ROLLUP, "sub")]
        if self._marker_ttl:
            pairs.append((subjects.TTL, f"{MARKER_TTL_SEC}s"))
        if revision is not None:
            pairs.append((subjects.EXPECTED_LAST, revision))
        return await self._store(key, b"", headers(*pairs))

    async def _store(self, key: str, value: bytes, header_block: bytes) -> int | None:
        try:
            return acknowledged(await self._connection.request_again(key, value, headers=header_block))
        except Refused as refused:
            if refused.number in failures.WRONG_LAST_SEQUENCE:
                return None
            raise


def is_marker(message: StoredMessage) -> bool:
    """The key was deleted or purged."""
    return (
        message.header(subjects.KV_OPERATION) in ("DEL", "PURGE") or message.header(subjects.MARKER_REASON) is not None
    )
