"""Pending requests and their replies: one inbox for all requests of a connection.

nats-py's own request and JetStream publish spend four times the processor time per call (a task woken through a queue,
a timer, and a header dictionary for each reply), and requests are the hot path of this program.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pyoco_server.adapters.jetstream.failures import ConnectionLost, NoAnswer
from pyoco_server.adapters.jetstream.messages import Message

SWEEP_SEC = 0.1
# While other replies arrive, the server is alive: a reply may be late by this many timeouts. Without it, many
# concurrent requests that are answered slowly one after the other would fail.
BUSY_FACTOR = 3
QUIET_SEC = 0.2


@dataclass(slots=True)
class _Waiter:
    future: asyncio.Future[list[Message]]
    deadline: float
    timeout_sec: float
    many: bool
    last_call: float
    parts: list[Message] = field(default_factory=list)


class Replies:
    """Replies by token: the first one, or all up to one with a status."""

    def __init__(self, prefix: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self._prefix = prefix
        self._skip = len(prefix)
        self._loop = loop
        self._count = 0
        self._waiting: dict[bytes, _Waiter] = {}
        self._sweeping = False
        # The last expected reply did not come, and nothing else has come since: the server may hang.
        self.in_doubt = False
        self._heard_at = loop.time()

    @property
    def waiting(self) -> int:
        """How many requests are in flight."""
        return len(self._waiting)

    def expect(
        self, *, timeout_sec: float, many: bool, strict: bool = False
    ) -> tuple[bytes, asyncio.Future[list[Message]]]:
        """The reply subject and the future of the replies; `strict`: other replies do not extend the timeout."""
        self._count += 1
        token = b"%x" % self._count
        future: asyncio.Future[list[Message]] = self._loop.create_future()
        now = self._loop.time()
        last_call = now + timeout_sec * (1 if strict else BUSY_FACTOR)
        self._waiting[token] = _Waiter(future, now + timeout_sec, timeout_sec, many, last_call)
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP_SEC, self._sweep)
        return self._prefix + token, future

    def heard(self, message: Message) -> None:
        self.in_doubt = False
        self._heard_at = self._loop.time()
        token = message.subject[self._skip :]
        waiter = self._waiting.get(token)
        if waiter is None:
            return  # too late
        waiter.parts.append(message)
        if waiter.many and not message.status:
            waiter.deadline = waiter.last_call = self._heard_at + waiter.timeout_sec
            return
        del self._waiting[token]
        if not waiter.future.done():
            waiter.future.set_result(waiter.parts)

    def fail_all(self, detail: str) -> None:
        """Fail all requests of a lost connection."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.future.done():
                waiter.future.set_exception(ConnectionLost(detail))

    def _sweep(self) -> None:
        # One coarse timer for all requests: a timer each costs more than its request.
        now = self._loop.time()
        quiet = now - self._heard_at > QUIET_SEC
        for token, waiter in list(self._waiting.items()):
            if waiter.future.done():
                del self._waiting[token]
            elif waiter.deadline <= now and (quiet or waiter.last_call <= now):
                del self._waiting[token]
                self.in_doubt = True
                waiter.future.set_exception(NoAnswer(f"nats did not answer within {waiter.timeout_sec} s"))
        self._sweeping = bool(self._waiting)
        if self._sweeping:
            self._loop.call_later(SWEEP_SEC, self._sweep)
