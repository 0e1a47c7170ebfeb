"""The broker's ports on JetStream: buckets and logs, whose keys are subjects of one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.client import Message, Subscription
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.pull import delivery_info, stored_at
from pyoco_server.adapters.jetstream.reads import (
    Followed,
    StoredMessage,
    StreamReader,
    follow,
    read_present,
    stream_state,
    unix_time,
)
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.errors import BrokerUnavailable, Unanswered
from pyoco_server.ports import Conflict, Entry, LogMessage, RevisionConflict, Stored, StreamState

# Long enough for every follower to see a removal, also after a long downtime; then the broker drops it.
MARKER_TTL_SEC = 7 * 86400

MAX_ATTEMPTS = 3
# No further attempt after this time: callers expect an answer within two seconds.
RETRY_FOR_SEC = 1.0

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
        expected = [(subjects.EXPECTED_LAST, revision)]
        sequence = await self._connection.store(self._prefix + key, value, expected, again=True)
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
        return await self._connection.store(self._prefix + key, b"", pairs, again=True)

    async def all(self, prefix: str = "") -> Sequence[Entry]:
        found = await read_present(self._connection, self._stream, filter_subject=f"{self._prefix}{prefix}>")
        # A key that was changed during the read is there twice; the later entry counts.
        entries = {item.message.subject: self._entry(item) for item in found}
        return [entry for entry in entries.values() if entry.value is not None]

    async def revisions(self, prefix: str = "") -> Mapping[str, int]:
        found = await read_present(
            self._connection, self._stream, filter_subject=f"{self._prefix}{prefix}>", headers_only=True
        )
        entries = {item.message.subject: self._entry(item) for item in found}
        return {entry.key: entry.revision for entry in entries.values() if entry.value is not None}

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
        async with aclosing(follow(self._connection, self._stream, after=after)) as batches:
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


class JetStreamSubjectLog:
    """SubjectLog. `stored_prefix` is where the broker republishes stored messages.

    Appends are announced there and not on their own subjects, which also deliver refused ones. They carry no
    `Nats-Msg-Id`: after a purge the broker would drop a repeated id and report it as stored.
    """

    def __init__(
        self, connection: Connection, stream: str, facts: Facts, *, prefix: str, stored_prefix: str = ""
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._prefix = f"{prefix}."
        self._skip = len(self._prefix)
        self._stored_prefix = f"{stored_prefix}."
        self._reader = StreamReader(connection, stream, direct=stream in facts.direct)
        self._listeners: dict[Subscription, Callable[[LogMessage | None], None]] = {}
        connection.on_reconnect(self._reconnected)

    async def append(
        self,
        key: str,
        data: bytes,
        *,
        after: int,
        is_ours: Callable[[LogMessage], bool],
        search_limit: int | None = None,
    ) -> Stored | Conflict:
        subject, expected = self._prefix + key, [(subjects.EXPECTED_LAST, after)]
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + RETRY_FOR_SEC
        attempts = 0
        while True:
            attempts += 1
            try:
                sequence = await self._connection.store(subject, data, expected)
                if sequence is not None:
                    return Stored(version=sequence)
                return _find(await self.read(key, after=after, limit=search_limit), is_ours)
            except Unanswered as unanswered:
                try:
                    newer = await self.read(key, after=after, limit=search_limit)
                except BrokerUnavailable:
                    raise unanswered from None
                if newer:
                    return _find(newer, is_ours)
                # Not stored yet, but it may still be in flight. Repeating it is safe: of two messages with the same
                # expectation the broker stores one.
                if attempts == MAX_ATTEMPTS or clock() > give_up_at:
                    raise

    async def publish(self, key: str, data: bytes) -> None:
        await self._connection.store(self._prefix + key, data)

    async def read(self, key: str, *, after: int = 0, limit: int | None = None) -> Sequence[LogMessage]:
        messages = await self._reader.after(self._prefix + key, after, limit)
        return [LogMessage(key, message.sequence, message.data) for message in messages]

    async def next(self, key: str, *, after: int) -> LogMessage | None:
        return self._stored(await self._reader.next(self._prefix + key, after))

    async def last(self, key: str) -> LogMessage | None:
        return self._stored(await self._reader.last(self._prefix + key))

    async def at(self, sequence: int) -> LogMessage | None:
        return self._stored(await self._reader.at(sequence))

    async def read_range(self, *, after: int, upto: int, key: str | None = None) -> Sequence[LogMessage]:
        subject = self._prefix + (key or ">")
        found = await read_present(self._connection, self._stream, after=after, upto=upto, filter_subject=subject)
        return [self._followed(item) for item in found]

    async def listen(self, key: str, notify: Callable[[LogMessage | None], None]) -> Callable[[], None]:
        def on_message(message: Message) -> None:
            notify(LogMessage(key, message.number(subjects.SEQUENCE), message.data))

        subscription = await self._connection.subscribe(self._stored_prefix + key, on_message)
        self._listeners[subscription] = notify

        def stop() -> None:
            subscription.close()
            self._listeners.pop(subscription, None)

        return stop

    async def purge(self, key: str) -> None:
        await self._connection.api(subjects.stream_purge(self._stream), {"filter": self._prefix + key})

    async def state(self) -> StreamState:
        return await stream_state(self._connection, self._stream)

    async def follow(self, *, after: int) -> AsyncGenerator[Sequence[LogMessage], None]:
        async with aclosing(follow(self._connection, self._stream, after=after, headers_only=True)) as batches:
            async for batch in batches:
                yield [self._followed(item) for item in batch]

    def _stored(self, message: StoredMessage | None) -> LogMessage | None:
        return None if message is None else LogMessage(message.subject[self._skip :], message.sequence, message.data)

    def _followed(self, item: Followed) -> LogMessage:
        return LogMessage(item.message.subject.decode()[self._skip :], item.sequence, item.message.data)

    def _reconnected(self) -> None:
        for notify in list(self._listeners.values()):
            notify(None)


def is_marker(header_block: bytes) -> bool:
    """Whether a message with these headers marks a deleted or purged key."""
    return _KV_OPERATION in header_block or _MARKER_REASON in header_block


def _find(newer: Sequence[LogMessage], is_ours: Callable[[LogMessage], bool]) -> Stored | Conflict:
    # Others may have written behind it, so it need not be the first or the last.
    found = next((message for message in newer if is_ours(message)), None)
    return Conflict() if found is None else Stored(version=found.sequence, found=True)
