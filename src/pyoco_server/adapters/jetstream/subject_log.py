"""Logs on JetStream: each key is a subject of one stream, appended to by compare-and-set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.connect import Connection, Subscription
from pyoco_server.adapters.jetstream.failures import RequestRejected, stored_sequence
from pyoco_server.adapters.jetstream.messages import Message, headers
from pyoco_server.adapters.jetstream.reads import (
    Followed,
    Follower,
    StoredMessage,
    StreamReader,
    read_present,
    stream_state,
)
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.errors import BrokerUnavailable, Unanswered
from pyoco_server.ports import Conflict, LogMessage, Stored, StreamState

MAX_ATTEMPTS = 3
# No further attempt after this time: callers expect an answer within two seconds.
RETRY_FOR_SEC = 1.0


class JetStreamSubjectLog:
    """SubjectLog. `stored_prefix` is where the broker republishes stored messages.

    Appends are announced there and not on their own subjects, where refused ones are heard as well. They carry no
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
        subject, expected = self._prefix + key, headers((subjects.EXPECTED_LAST, after))
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + RETRY_FOR_SEC
        attempts = 0
        while True:
            attempts += 1
            try:
                return Stored(version=stored_sequence(await self._connection.request(subject, data, headers=expected)))
            except RequestRejected as rejected:
                if rejected.err_code not in failures.WRONG_LAST_SEQUENCE:
                    raise
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
        stored_sequence(await self._connection.request(self._prefix + key, data))

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

    async def listen(self, key: str, heard: Callable[[LogMessage | None], None]) -> Callable[[], None]:
        def on_message(message: Message) -> None:
            heard(LogMessage(key, message.number(subjects.SEQUENCE), message.data))

        subscription = await self._connection.subscribe(self._stored_prefix + key, on_message)
        self._listeners[subscription] = heard

        def stop() -> None:
            subscription.close()
            self._listeners.pop(subscription, None)

        return stop

    async def purge(self, key: str) -> None:
        await self._connection.api(subjects.stream_purge(self._stream), {"filter": self._prefix + key})

    async def state(self) -> StreamState:
        return await stream_state(self._connection, self._stream)

    async def follow(self, *, after: int) -> AsyncGenerator[Sequence[LogMessage], None]:
        follower = Follower(self._connection, self._stream, after=after, headers_only=True)
        async with aclosing(follower.batches()) as batches:
            async for batch in batches:
                yield [self._followed(item) for item in batch]

    def _stored(self, message: StoredMessage | None) -> LogMessage | None:
        return None if message is None else LogMessage(message.subject[self._skip :], message.sequence, message.data)

    def _followed(self, item: Followed) -> LogMessage:
        return LogMessage(item.message.subject.decode()[self._skip :], item.sequence, item.message.data)

    def _reconnected(self) -> None:
        for heard in list(self._listeners.values()):
            heard(None)


def _find(newer: Sequence[LogMessage], is_ours: Callable[[LogMessage], bool]) -> Stored | Conflict:
    # Others may have written behind it, so it need not be the first or the last.
    found = next((message for message in newer if is_ours(message)), None)
    return Conflict() if found is None else Stored(version=found.sequence, found=True)
