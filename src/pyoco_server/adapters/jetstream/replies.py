"""Who waits for which reply: one inbox for all requests of a connection; knows nothing of sockets.

nats-py's own request and JetStream publish spend four times the processor time per call (a task woken through a queue,
a timer, and a header dictionary for each reply), and requests are the hot path of this program.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pyoco_server.adapters.jetstream.failures import ConnectionLost, NoAnswer
from pyoco_server.adapters.jetstream.messages import Message

SWEEP_SEC = 0.1


@dataclass(slots=True)
class _Waiter:
    future: asyncio.Future[list[Message]]
    deadline: float
    timeout_sec: float
    many: bool
    parts: list[Message] = field(default_factory=list)


class Replies:
    """Replies by token: the first that comes, or all up to one with a status."""

    def __init__(self, prefix: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self._prefix = prefix
        self._skip = len(prefix)
        self._loop = loop
        self._count = 0
        self._waiting: dict[bytes, _Waiter] = {}
        self._sweeping = False
        # The last that was waited for did not come, and nothing else has come since: the server may be hanging.
        self.in_doubt = False

    def expect(self, *, timeout_sec: float, many: bool) -> tuple[bytes, asyncio.Future[list[Message]]]:
        """The subject to reply to, and the future of the replies."""
        self._count += 1
        token = b"%x" % self._count
        future: asyncio.Future[list[Message]] = self._loop.create_future()
        self._waiting[token] = _Waiter(future, self._loop.time() + timeout_sec, timeout_sec, many)
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP_SEC, self._sweep)
        return self._prefix + token, future

    def heard(self, message: Message) -> None:
        self.in_doubt = False
        token = message.subject[self._skip :]
        waiter = self._waiting.get(token)
        if waiter is None:
            return  # it came too late
        waiter.parts.append(message)
        if waiter.many and not message.status:
            waiter.deadline = self._loop.time() + waiter.timeout_sec
            return
        del self._waiting[token]
        if not waiter.future.done():
            waiter.future.set_result(waiter.parts)

    def fail_all(self, detail: str) -> None:
        """The connection they were asked on is gone: no reply can come."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.future.done():
                waiter.future.set_exception(ConnectionLost(detail))

    def _sweep(self) -> None:
        # One timer for all requests, a tenth of a second coarse: a timer for each costs more than its request.
        now = self._loop.time()
        for token, waiter in list(self._waiting.items()):
            if waiter.future.done():
                del self._waiting[token]
            elif waiter.deadline <= now:
                del self._waiting[token]
                self.in_doubt = True
                waiter.future.set_exception(NoAnswer(f"nats did not answer within {waiter.timeout_sec} s"))
        self._sweeping = bool(self._waiting)
        if self._sweeping:
            self._loop.call_later(SWEEP_SEC, self._sweep)
