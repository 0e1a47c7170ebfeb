"""Key-value buckets on JetStream: each key is a subject of the bucket's stream that keeps its last message."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import RequestRejected, stored_sequence
from pyoco_server.adapters.jetstream.messages import delivery_info, headers, stored_at
from pyoco_server.adapters.jetstream.reads import (
    Followed,
    Follower,
    StreamReader,
    read_present,
    stream_state,
    unix_time,
)
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.ports import Entry, RevisionConflict, Stored, StreamState

# Long enough for every follower to see a removal, also after a long downtime; then the broker drops it.
MARKER_TTL_SEC = 7 * 86400

_KV_OPERATION = subjects.KV_OPERATION.encode()
_MARKER_REASON = subjects.MARKER_REASON.encode()


class JetStreamKeyValue:
    """KeyValue. Revisions are the sequences of the bucket's stream."""

    def __init__(self, connection: Connection, bucket: str, facts: Facts) -> None:
        self._connection = connection
        self._stream = subjects.bucket_stream(bucket)
        self._prefix = subjects.bucket_key(bucket, "")
        self._skip = len(self._prefix)
        self._reader = StreamReader(connection, self._stream, direct=self._stream in facts.direct)
        self._marker_ttl = self._stream in facts.message_ttl

    async def get(self, key: str) -> Entry | None:
        message = await self._reader.last(self._prefix + key)
        if message is None:
            return None
        return Entry(key, message.sequence, None if is_marker(message.headers) else message.data)

    async def put(self, key: str, value: bytes, *, revision: int) -> Stored | RevisionConflict:
        sequence = await self._store(key, value, headers((subjects.EXPECTED_LAST, revision)))
        if sequence is not None:
            return Stored(version=sequence)
        present = await self.get(key)
        if present is not None and present.value == value:
            return Stored(version=present.revision, found=True)
        return RevisionConflict(entry=present)

    async def purge(self, key: str, *, revision: int | None = None) -> int | None:
        pairs: list[tuple[str, object]] = [(subjects.KV_OPERATION, "PURGE"), (subjects.ROLLUP, "sub")]
        if self._marker_ttl:
            pairs.append((subjects.TTL, f"{MARKER_TTL_SEC}s"))
        if revision is not None:
            pairs.append((subjects.EXPECTED_LAST, revision))
        return await self._store(key, b"", headers(*pairs))

    async def all(self, prefix: str = "") -> Sequence[Entry]:
        found = await read_present(self._connection, self._stream, filter_subject=f"{self._prefix}{prefix}>")
        # A key that was changed during the read is there twice; the later entry counts.
        entries = {item.message.subject: self._entry(item) for item in found}
        return [entry for entry in entries.values() if entry.value is not None]

    async def read(self, *, after: int, upto: int) -> Sequence[Entry]:
        return [
            self._entry(item) for item in await read_present(self._connection, self._stream, after=after, upto=upto)
        ]

    async def key_at(self, revision: int) -> str | None:
        message = await self._reader.at(revision)
        return None if message is None else message.subject[self._skip :]

    async def state(self) -> StreamState:
        return await stream_state(self._connection, self._stream)

    async def follow(self, *, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        info = await self._connection.api(subjects.stream_info(self._stream))
        started_at: float | None = unix_time(info["ts"])  # until caught up; two times of the broker's own clock
        async with aclosing(Follower(self._connection, self._stream, after=after).batches()) as batches:
            async for batch in batches:
                yield [self._entry(item, started_at) for item in batch]
                if started_at is not None and (not batch or delivery_info(batch[-1].message.reply).pending == 0):
                    started_at = None
                    if batch:
                        yield []

    def _entry(self, item: Followed, now: float | None = None) -> Entry:
        message = item.message
        return Entry(
            message.subject.decode()[self._skip :],
            item.sequence,
            None if is_marker(message.headers) else message.data,
            0.0 if now is None else max(0.0, now - stored_at(message.reply)),
        )

    async def _store(self, key: str, value: bytes, header_block: bytes) -> int | None:
        try:
            return stored_sequence(
                await self._connection.request_again(self._prefix + key, value, headers=header_block)
            )
        except RequestRejected as rejected:
            if rejected.err_code in failures.WRONG_LAST_SEQUENCE:
                return None
            raise


def is_marker(header_block: bytes) -> bool:
    """Whether a message with these headers marks a deleted or purged key."""
    return _KV_OPERATION in header_block or _MARKER_REASON in header_block
