"""Messages of a pull consumer, asked for by credit and counted; does not know what they mean or who acknowledges them.

    wait(credit) ──▶ MSG.NEXT {batch, expires, idle_heartbeat} ──▶ broker
                          ▲ messages      asked -= 1
                          │ 404, 408, 409 asked -= what was left of that request
                          └ 100           the broker still knows that we wait

A broker that restarts forgets requests without a word. So silence for longer than two heartbeats, a reconnect, and
every status that ends a request for a reason other than time make the pull *stale*: its owner looks after the consumer
and renews the pull on a new inbox, because nobody listens any more on the old one and the broker then drops what it
may still have of the old requests. What was on its way to the old inbox is still taken in.
"""

from __future__ import annotations

import asyncio
from collections import deque

import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import Connection, Subscription
from pyoco_server.adapters.jetstream.messages import Message

HEARTBEAT_SEC = 0.5
SILENCE_SEC = 2.5 * HEARTBEAT_SEC
EXPIRES_SEC = 30.0
# After the broker said no for another reason than time; asking again at once would be a busy loop.
PAUSE_SEC = 0.1

_NS = 1_000_000_000
_HEARTBEAT = 100
_NO_MESSAGES = 404
_TIMED_OUT = 408


class Pull:
    """The open requests of one consumer, and what has arrived."""

    def __init__(self, connection: Connection, stream: str, consumer: str) -> None:
        self._connection = connection
        self._next = subjects.consumer_next(stream, consumer)
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._buffer: deque[Message] = deque()
        self._asked = 0
        self._burst_left = 0
        self._heard_at = 0.0
        self._inbox = b""
        self._subscription: Subscription | None = None
        self._previous: Subscription | None = None
        self.stale = True
        self._remove_hook = connection.on_reconnect(self._go_stale)

    async def renew(self, consumer_next: str | None = None) -> None:
        """Begin anew, asking for nothing yet; perhaps at another consumer."""
        inbox = self._connection.new_inbox()
        subscription = await self._connection.subscribe(inbox, self._heard)
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
        """Have `credit` in all asked for or here, and wait until something is here (or nothing for a while).

        With `low` more is asked for only when no more than that is left: fewer and larger requests.
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
            if self._asked and self._loop.time() - self._heard_at > SILENCE_SEC:
                self.stale = True

    async def burst(self, most: int) -> None:
        """Have what the broker has right now, up to so many, in one go; nothing else is asked for meanwhile."""
        self._burst_left = most
        await self._publish({"batch": most, "no_wait": True})
        try:
            async with asyncio.timeout(SILENCE_SEC):
                while self._burst_left and not self.stale:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            self.stale = True

    def take(self, most: int | None = None) -> list[Message]:
        """What has arrived, all or up to so many."""
        buffer = self._buffer
        count = len(buffer) if most is None else min(most, len(buffer))
        return [buffer.popleft() for _ in range(count)]

    @property
    def empty(self) -> bool:
        return not self._buffer

    @property
    def idle(self) -> bool:
        """Nothing is here, and nothing is asked for."""
        return not self._buffer and self._asked == 0

    def waiting(self) -> list[Message]:
        """What has arrived and was not taken."""
        return list(self._buffer)

    def stop(self) -> None:
        """Ask for no more, but take in what is on its way."""
        for subscription in (self._subscription, self._previous):
            if subscription is not None:
                subscription.stop_sending()

    def close(self) -> None:
        self._remove_hook()
        for subscription in (self._subscription, self._previous):
            if subscription is not None:
                subscription.close()

    async def _ask(self, batch: int) -> None:
        request = {"batch": batch, "expires": int(EXPIRES_SEC * _NS), "idle_heartbeat": int(HEARTBEAT_SEC * _NS)}
        inbox = self._inbox
        await self._publish(request)
        if inbox == self._inbox:
            self._asked += batch
            self._heard_at = self._loop.time()

    async def _publish(self, request: dict[str, int]) -> None:
        await self._connection.publish(self._next, orjson.dumps(request), reply=self._inbox.decode())

    def _heard(self, message: Message) -> None:
        self._heard_at = self._loop.time()
        status = message.status
        if status == 0:
            self._buffer.append(message)
            self._asked = max(0, self._asked - 1)
            self._burst_left = max(0, self._burst_left - 1)
            self._arrived.set()
        elif status == _HEARTBEAT or message.subject != self._inbox:
            return
        elif status in (_NO_MESSAGES, _TIMED_OUT) and self._burst_left:
            self._burst_left = 0
            self._arrived.set()
        elif status in (_NO_MESSAGES, _TIMED_OUT):
            self._asked = max(0, self._asked - message.number(subjects.PENDING_MESSAGES))
            self._arrived.set()
        else:
            self._loop.call_later(PAUSE_SEC, self._go_stale)

    def _go_stale(self) -> None:
        self.stale = True
        self._arrived.set()
