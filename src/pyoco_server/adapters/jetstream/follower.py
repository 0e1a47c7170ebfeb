"""Reads a stream in order, without gaps, then live: batches of messages across reconnects and broker restarts.

The reader sets the pace: while it is busy or lets changes gather, nothing is on its way; then all that is there comes
in one go. A message at a time would wake two processes for each.

It keeps only the last sequence it has given out. Whatever goes wrong — silence, a reconnect, a gap in the consumer's
count — it makes a new consumer behind that sequence. When the stream itself is another one, or shorter than what was
read, it refuses to go on (`StreamReplaced`): its positions mean nothing there, and half a list would look whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import NamedTuple

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import API_SEC, Connection
from pyoco_server.adapters.jetstream.consumers import create_reader, delete_reader
from pyoco_server.adapters.jetstream.failures import StreamReplaced
from pyoco_server.adapters.jetstream.messages import Message, delivered_at
from pyoco_server.adapters.jetstream.pull import PAUSE_SEC, Pull
from pyoco_server.errors import BrokerUnavailable

logger = logging.getLogger(__name__)

BATCH = 500
# What is asked for at a time, and what bounds the memory of a slow reader.
BURST = 3 * BATCH


class Followed(NamedTuple):
    """One message and its sequence in the stream."""

    sequence: int
    message: Message


class Follower:
    """One reader of one stream, from behind `after`."""

    def __init__(self, connection: Connection, stream: str, *, after: int, headers_only: bool = False) -> None:
        self._connection = connection
        self._stream = stream
        self._last = after
        self._headers_only = headers_only
        self._created: str | None = None
        self._consumer = ""
        self._place = 0

    async def batches(self) -> AsyncGenerator[list[Followed], None]:
        """At most `BATCH` messages at a time, for ever; an empty one says that nothing is pending at the start."""
        pull = Pull(self._connection, self._stream, "")
        try:
            while True:
                try:
                    if pull.stale and await self._begin(pull) == 0:
                        yield []
                    if pull.idle:
                        await pull.burst(BURST)
                    if pull.empty and not pull.stale:
                        await pull.wait(1)
                except StreamReplaced:
                    raise
                except BrokerUnavailable as error:
                    logger.debug("follower waits", extra={"stream": self._stream, "error": error.detail})
                    pull.stale = True
                    await asyncio.sleep(PAUSE_SEC)
                    continue
                batch = self._in_order(pull)
                if batch:
                    yield batch
        finally:
            pull.close()
            await self._leave()

    async def _begin(self, pull: Pull) -> int:
        """Start to read behind the last sequence; how many messages are pending there."""
        info = await self._connection.api(subjects.stream_info(self._stream))
        created, last = info["created"], info["state"]["last_seq"]
        if self._created not in (None, created) or last < self._last:
            raise StreamReplaced(f"the stream {self._stream} is not the one that was read", stream=self._stream)
        self._created = created
        await self._leave()
        pull.take()
        self._consumer, pending = await create_reader(
            self._connection, self._stream, after=self._last, headers_only=self._headers_only
        )
        self._place = 0
        await pull.renew(subjects.consumer_next(self._stream, self._consumer))
        return pending

    def _in_order(self, pull: Pull) -> list[Followed]:
        batch = []
        consumer = self._consumer.encode()
        for message in pull.take(BATCH):
            at = delivered_at(message.reply)
            if at.consumer != consumer:
                continue  # a straggler of the consumer before; the new one brings it again
            if at.place != self._place + 1:
                pull.stale = True
                break
            self._place = at.place
            self._last = at.sequence
            batch.append(Followed(at.sequence, message))
        return batch

    async def _leave(self) -> None:
        if self._consumer:
            await delete_reader(self._connection, self._stream, self._consumer)
            self._consumer = ""


async def read_present(
    connection: Connection,
    stream: str,
    *,
    after: int | None = None,
    upto: int | None = None,
    most: int = BATCH,
    filter_subject: str = "",
) -> list[Followed]:
    """What is in the stream now behind a sequence (and up to another), or (None) the last message of each subject.

    No more than `most` are asked for at a time.
    """
    consumer, pending = await create_reader(connection, stream, after=after, filter_subject=filter_subject)
    found: list[Followed] = []
    pull = Pull(connection, stream, consumer)
    try:
        async with asyncio.timeout(API_SEC):
            await pull.renew()
            while pending:
                await pull.wait(min(pending, most))
                if pull.stale:
                    raise BrokerUnavailable(f"reading {stream} was interrupted")
                for message in pull.take():
                    at = delivered_at(message.reply)
                    if upto is not None and at.sequence > upto:
                        return found
                    found.append(Followed(at.sequence, message))
                    pending = 0 if at.sequence == upto else at.pending
    except TimeoutError as error:
        raise BrokerUnavailable(f"reading {stream} took more than {API_SEC} s") from error
    finally:
        pull.close()
        await delete_reader(connection, stream, consumer)
    return found
