"""Messages of a pull consumer, requested by credit; does not acknowledge them.

    wait(credit) ──▶ MSG.NEXT {batch, expires, idle_heartbeat} ──▶ broker
                          ▲ messages      asked -= 1
                          │ 404, 408, 409 asked -= what was left of that request
                          └ 100           the broker still knows that we wait

A restarted broker has lost all requests and sends no notice. So silence for longer than two heartbeats, a reconnect,
and every status that ends a request for a reason other than time make the pull *stale*. Its owner then checks the
consumer and renews the pull on a new inbox: the broker drops requests whose inbox has no subscriber. Messages in flight
to the old inbox are still accepted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.client import Message, Subscription
from pyoco_server.adapters.jetstream.connect import Connection

HEARTBEAT_SEC = 0.5
SILENCE_SEC = 2.5 * HEARTBEAT_SEC
EXPIRES_SEC = 30.0
# After a request ended for another reason than time; repeating it at once would be a busy loop.
PAUSE_SEC = 0.1

_NS = 1_000_000_000
_HEARTBEAT = 100
_NO_MESSAGES = 404
_TIMED_OUT = 408
_ENDED = 409
_TOO_MANY_BYTES = "message size exceeds maxbytes"


class Pull:
    """The open requests of one consumer, and the received messages."""

    def __init__(self, connection: Connection, stream: str, consumer: str) -> None:
        self._connection = connection
        self._next = subjects.consumer_next(stream, consumer)
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._buffer: deque[Message] = deque()
        self._asked = 0
        self._burst_left = 0
        self._received_at = 0.0
        self._inbox = b""
        self._subscription: Subscription | None = None
        self._previous: Subscription | None = None
        self.stale = True
        self._remove_hook = connection.on_reconnect(self._go_stale)

    async def renew(self, consumer_next: str | None = None) -> None:
        """Start again without open requests, perhaps at another consumer."""
        inbox = self._connection.new_inbox()
        subscription = await self._connection.subscribe(inbox, self._receive)
        if self._previous is not None:
            self._previous.close()
        if self._subscription is not None:
            self._subscription.stop_sending()
        self._previous, self._subscription = self._subscription, subscription
        self._inbox = inbox.encode()
        self._next = consumer_next or self._next
        self._asked = self._burst_left = 0
        self.stale = False

    async def wait(self, credit: int, *, low: int | None = None) -> None:
        """Keep `credit` messages requested or received, and wait for a message (or a while without one).

        With `low`, more are requested only when no more than that are left: fewer and larger requests.
        """
        left = self._asked + len(self._buffer)
        if left < credit and (low is None or left <= low):
            await self._ask(credit - left)
        if self._buffer or self.stale:
            return
        self._arrived.clear()
        try:
            async with asyncio.timeout(SILENCE_SEC):
                await self._arrived.wait()
        except TimeoutError:
            if self._asked and self._loop.time() - self._received_at > SILENCE_SEC:
                self.stale = True

    async def burst(self, most: int) -> None:
        """Request what the broker has right now, up to `most` messages of `max_batch_bytes`, and wait for all of it."""
        async with self._connection.batches:
            self._burst_left = most
            await self._publish({"batch": most, "no_wait": True, "max_bytes": self._connection.max_batch_bytes})
            self._received_at = self._loop.time()
            while self._burst_left and not self.stale:
                self._arrived.clear()
                try:
                    async with asyncio.timeout(SILENCE_SEC):
                        await self._arrived.wait()
                except TimeoutError:
                    self.stale = self.stale or self._loop.time() - self._received_at > SILENCE_SEC

    def take(self, most: int | None = None) -> list[Message]:
        """Take the received messages, all or up to `most`."""
        buffer = self._buffer
        count = len(buffer) if most is None else min(most, len(buffer))
        return [buffer.popleft() for _ in range(count)]

    @property
    def empty(self) -> bool:
        return not self._buffer

    @property
    def idle(self) -> bool:
        return not self._buffer and self._asked == 0

    def waiting(self) -> list[Message]:
        return list(self._buffer)

    def stop(self) -> None:
        """Stop requesting, but accept messages in flight."""
        for subscription in (self._subscription, self._previous):
            if subscription is not None:
                subscription.stop_sending()

    def close(self) -> None:
        self._remove_hook()
        for subscription in (self._subscription, self._previous):
            if subscription is not None:
                subscription.close()

    async def _ask(self, batch: int) -> None:
        request = {
            "batch": batch,
            "max_bytes": self._connection.max_batch_bytes,
            "expires": int(EXPIRES_SEC * _NS),
            "idle_heartbeat": int(HEARTBEAT_SEC * _NS),
        }
        inbox = self._inbox
        await self._publish(request)
        if inbox == self._inbox:
            self._asked += batch
            self._received_at = self._loop.time()

    async def _publish(self, request: dict[str, int]) -> None:
        await self._connection.publish(self._next, orjson.dumps(request), reply=self._inbox.decode())

    def _receive(self, message: Message) -> None:
        self._received_at = self._loop.time()
        status = message.status
        if status == 0:
            self._buffer.append(message)
            self._asked = max(0, self._asked - 1)
            self._burst_left = max(0, self._burst_left - 1)
            self._arrived.set()
        elif status == _HEARTBEAT or message.subject != self._inbox:
            return
        elif not _is_complete(message):
            self._loop.call_later(PAUSE_SEC, self._go_stale)
        elif self._burst_left:
            self._burst_left = 0
            self._arrived.set()
        else:
            self._asked = max(0, self._asked - message.number(subjects.PENDING_MESSAGES))
            self._arrived.set()

    def _go_stale(self) -> None:
        self.stale = True
        self._arrived.set()


def _is_complete(end: Message) -> bool:
    """Whether a request ended because it got all that it asked for, or its time was over."""
    if end.status == _ENDED:
        return end.status_text.lower().startswith(_TOO_MANY_BYTES)
    return end.status in (_NO_MESSAGES, _TIMED_OUT)


class DeliveryInfo(NamedTuple):
    """The facts in the reply subject of a delivered message."""

    consumer: bytes
    num_delivered: int
    sequence: int
    consumer_sequence: int  # has no gaps unless messages were lost
    pending: int


def stored_at(reply: bytes) -> float:
    """When the broker stored a delivered message, in unix seconds of the broker's clock."""
    return int(reply.rsplit(b".", 2)[1]) / 1e9


def reply_for(sequence: int, like: str) -> str:
    """The reply subject of another message of the same consumer, by its sequence in the stream."""
    parts = like.split(".")
    parts[5 if len(parts) == 9 else 7] = str(sequence)
    return ".".join(parts)


def delivery_info(reply: bytes) -> DeliveryInfo:
    """$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<sequence>.<consumer sequence>.<time>.<pending>"""
    parts = reply.split(b".")
    first = 2 if len(parts) == 9 else 4
    return DeliveryInfo(
        parts[first + 1], int(parts[first + 2]), int(parts[first + 3]), int(parts[first + 4]), int(parts[first + 6])
    )
