"""Reads of a stream: single messages by sequence or subject, ranges, and followers; caches nothing."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import orjson

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.client import NO_RESPONDERS, Message
from pyoco_server.adapters.jetstream.connect import API_SEC, READ_BYTES, REQUEST_SEC, Connection
from pyoco_server.adapters.jetstream.failures import ReadInterrupted, RequestRejected, StreamReplaced
from pyoco_server.adapters.jetstream.pull import PAUSE_SEC, Pull, delivery_info
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.ports import StreamState

logger = logging.getLogger(__name__)

NS = 1_000_000_000
NOT_FOUND = 404
DIRECT_BATCH = 1000
SINGLE_READS = 16

# The consumer of a reader that was killed is removed by the broker after this time.
INACTIVE_SEC = 30
BATCH = 500
# Requested at a time; bounds the memory of a slow reader.
BURST = 3 * BATCH
MAX_INTERRUPTIONS = 4


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message; `headers` as on the wire."""

    sequence: int
    subject: str
    headers: bytes
    data: bytes

    def header(self, name: str) -> str | None:
        return Message(b"", b"", self.headers, b"").header(name)


class StreamReader:
    """Single reads of one stream. `direct` is set with one replica only: further replicas may lag behind the leader."""

    def __init__(self, connection: Connection, stream: str, *, direct: bool) -> None:
        self._connection = connection
        self._stream = stream
        self._direct = direct

    async def last(self, subject: str) -> StoredMessage | None:
        return await self._get({"last_by_subj": subject})

    async def at(self, sequence: int) -> StoredMessage | None:
        """The message with this sequence, if it is still there."""
        return await self._get({"seq": sequence})

    async def next(self, subject: str, sequence: int) -> StoredMessage | None:
        """The first message of a subject behind a sequence."""
        return await self._get({"seq": sequence + 1, "next_by_subj": subject})

    async def after(self, subject: str, sequence: int, limit: int | None = None) -> list[StoredMessage]:
        """The messages of a subject behind a sequence, in order: all of them, or the first `limit`."""
        found: list[StoredMessage] = []
        most = sys.maxsize if limit is None else limit
        # Before a batch the broker counts its messages. From the start of the stream the count is known; from the
        # middle it scans, and 64 concurrent readers wait for a second. Single messages cost 0.15 ms anywhere.
        while not self._direct or (sequence > 0 and len(found) < SINGLE_READS):
            one = await self._get({"seq": sequence + 1, "next_by_subj": subject})
            if one is None:
                return found
            found.append(one)
            sequence = one.sequence
            if len(found) >= most:
                return found
        more = True
        while more and len(found) < most:
            part, more = await self._batch_after(subject, sequence, min(DIRECT_BATCH, most - len(found)))
            found += part
            sequence = found[-1].sequence if found else sequence
        return found

    async def _batch_after(self, subject: str, sequence: int, batch: int) -> tuple[list[StoredMessage], bool]:
        wanted = {"seq": sequence + 1, "next_by_subj": subject, "batch": batch, "max_bytes": READ_BYTES}
        async with self._connection.batches:
            *messages, end = await self._connection.request_many(
                subjects.direct_get(self._stream), orjson.dumps(wanted)
            )
        if end.status == NOT_FOUND:
            return [], False
        _check_answered(end)
        stored = [_direct(message) for message in messages]
        if stored and end.number(subjects.LAST_SEQUENCE) != stored[-1].sequence:
            raise BrokerUnavailable("a part of the reply of nats is missing")
        return stored, end.number(subjects.NUM_PENDING) > 0

    async def _get(self, body: dict[str, Any]) -> StoredMessage | None:
        async with self._connection.one_by_one:
            if not self._direct:
                return await self._get_from_leader(body)
            message = await self._connection.request_again(subjects.direct_get(self._stream), orjson.dumps(body))
        if message.status == NOT_FOUND:
            return None
        _check_answered(message)
        return _direct(message)

    async def _get_from_leader(self, body: dict[str, Any]) -> StoredMessage | None:
        try:
            found = (await self._connection.read(subjects.message_get(self._stream), body))["message"]
        except RequestRejected as rejected:
            if rejected.err_code == failures.NO_MESSAGE:
                return None
            raise
        return StoredMessage(
            sequence=found["seq"],
            subject=found["subject"],
            headers=base64.b64decode(found.get("hdrs", "")),
            data=base64.b64decode(found.get("data", "")),
        )


def _direct(message: Message) -> StoredMessage:
    return StoredMessage(
        sequence=message.number(subjects.SEQUENCE),
        subject=message.header(subjects.SUBJECT) or "",
        headers=message.headers,
        data=message.data,
    )


def _check_answered(message: Message) -> None:
    if message.status == NO_RESPONDERS:
        raise BrokerUnavailable("nats answers, but JetStream or the stream does not")
    if message.status >= 400:
        raise BrokerUnavailable(f"nats answered {message.status} {message.status_text}")


class Followed(NamedTuple):
    sequence: int
    message: Message


async def stream_state(connection: Connection, stream: str) -> StreamState:
    """The extent of a stream, from its leader."""
    info = await connection.api(subjects.stream_info(stream), timeout_sec=REQUEST_SEC)
    state = info["state"]
    return StreamState(
        created=info["created"],
        first_sequence=state["first_seq"],
        last_sequence=state["last_seq"],
        messages=state["messages"],
        lost_bytes=(state.get("lost") or {}).get("bytes", 0),
    )


def unix_time(text: str) -> float:
    """A time of the broker's API in unix seconds."""
    return datetime.fromisoformat(text).timestamp()


class _Reader:
    """A short-lived consumer of a stream. Its pull is stale at first, and after a gap in the consumer's count."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._consumer = ""
        self._place = 0
        self.pending = 0
        self.pull = Pull(connection, stream, "")

    async def begin(self, *, after: int | None, filter_subject: str = "", headers_only: bool = False) -> None:
        """Start behind a sequence, or (None) at the last message of each subject; a previous start is void."""
        await self._leave()
        self.pull.take()
        wanted: dict[str, Any] = {
            "name": f"pyoco-reader-{secrets.token_hex(8)}",
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": INACTIVE_SEC * NS,
            "headers_only": headers_only,
        }
        if filter_subject:
            wanted["filter_subject"] = filter_subject
        if after is None:
            wanted["deliver_policy"] = "last_per_subject"
        else:
            wanted |= {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
        body = {"stream_name": self._stream, "config": wanted, "action": "create"}
        info = await self._connection.api(subjects.consumer_create(self._stream, wanted["name"]), body)
        self._consumer, self._place, self.pending = wanted["name"], 0, info["num_pending"]
        await self.pull.renew(subjects.consumer_next(self._stream, self._consumer))

    def take(self, most: int | None = None) -> list[Followed]:
        """The received messages up to the first gap."""
        batch = []
        consumer = self._consumer.encode()
        for message in self.pull.take(most):
            at = delivery_info(message.reply)
            if at.consumer != consumer:
                continue  # from the previous consumer; the new one delivers it again
            if at.consumer_sequence != self._place + 1:
                self.pull.stale = True
                break
            self._place, self.pending = at.consumer_sequence, at.pending
            batch.append(Followed(at.sequence, message))
        return batch

    async def close(self) -> None:
        self.pull.close()
        await self._leave()

    async def _leave(self) -> None:
        """Remove the consumer now instead of after its inactivity; best effort."""
        consumer, self._consumer = self._consumer, ""
        if not consumer or not self._connection.connected:
            return
        try:
            await self._connection.request(subjects.consumer_delete(self._stream, consumer))
        except BrokerUnavailable as error:
            logger.debug("reader left behind", extra={"stream": self._stream, "error": error.detail})


async def read_range(
    connection: Connection,
    stream: str,
    *,
    after: int | None = None,
    upto: int | None = None,
    filter_subject: str = "",
    headers_only: bool = False,
    batch_messages: int = BATCH,
) -> AsyncGenerator[list[Followed], None]:
    """Batches of what is in the stream now behind a sequence (and up to another), or (None) the last message of each
    subject. Batches are bounded in bytes too, and nothing is in flight while the caller has one.

    What is removed meanwhile is left out. A gap or silence raises `ReadInterrupted`.
    """
    reader = _Reader(connection, stream)
    try:
        await reader.begin(after=after, filter_subject=filter_subject, headers_only=headers_only)
        while reader.pending:
            await reader.pull.burst(min(reader.pending, batch_messages))
            batch = [] if reader.pull.stale else reader.take()
            if reader.pull.stale:
                raise ReadInterrupted(f"reading {stream} was interrupted")
            if not batch:
                return
            if upto is not None and batch[-1].sequence >= upto:
                yield [item for item in batch if item.sequence <= upto]
                return
            yield batch
    finally:
        await reader.close()


async def read_present(
    connection: Connection,
    stream: str,
    *,
    after: int | None = None,
    upto: int | None = None,
    filter_subject: str = "",
    headers_only: bool = False,
) -> list[Followed]:
    """All of `read_range` as one list, in bounded time."""
    interruptions = 0
    while True:
        found: list[Followed] = []
        part = read_range(
            connection, stream, after=after, upto=upto, filter_subject=filter_subject, headers_only=headers_only
        )
        try:
            async with asyncio.timeout(API_SEC), aclosing(part) as batches:
                async for batch in batches:
                    found += batch
                return found
        except TimeoutError as error:
            raise BrokerUnavailable(f"reading {stream} took more than {API_SEC} s") from error
        except ReadInterrupted:
            # In a cluster a consumer may be asked before its own server knows of it; it is there in a moment.
            interruptions += 1
            if interruptions > MAX_INTERRUPTIONS or not connection.connected:
                raise
            await asyncio.sleep(PAUSE_SEC)


async def follow(
    connection: Connection, stream: str, *, after: int, headers_only: bool = False
) -> AsyncGenerator[list[Followed], None]:
    """Batches of a stream behind `after` in order and without gaps, then live, across reconnects and broker restarts.

    At most `BATCH` messages at a time; an empty batch says that nothing is pending at a (new) start. The caller sets
    the pace: while it is busy or lets changes gather, nothing is in flight; then all pending messages come in one
    burst. Single messages would wake two processes each.

    After silence, a reconnect or a gap it creates a new consumer behind the last sequence. When the stream was
    recreated or is shorter than what was read, it raises `StreamReplaced`: its positions are void there, and a partial
    list would look complete.
    """
    reader, first_created = _Reader(connection, stream), None
    pull = reader.pull
    try:
        while True:
            try:
                if pull.stale:
                    info = await connection.api(subjects.stream_info(stream))
                    created, last = info["created"], info["state"]["last_seq"]
                    if first_created not in (None, created) or last < after:
                        raise StreamReplaced(f"the stream {stream} is not the one that was read", stream=stream)  # noqa: TRY301
                    first_created = created
                    await reader.begin(after=after, headers_only=headers_only)
                    if reader.pending == 0:
                        yield []
                if pull.idle:
                    await pull.burst(BURST)
                if pull.empty and not pull.stale:
                    await pull.wait(1)
            except StreamReplaced:
                raise
            except BrokerUnavailable as error:
                logger.debug("follower waits", extra={"stream": stream, "error": error.detail})
                pull.stale = True
                await asyncio.sleep(PAUSE_SEC)
                continue
            if batch := reader.take(BATCH):
                after = batch[-1].sequence
                yield batch
    finally:
        await reader.close()
