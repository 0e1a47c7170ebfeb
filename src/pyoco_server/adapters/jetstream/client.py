"""nats-py's client with five changes; reconnecting and pings stay those of nats-py.

1. Commands written in the same turn of the event loop go to the socket in one system call. A parser of our own passes
   each message to its listener, a plain function called while the socket is read: no regular expressions, queue, task
   or header dictionary. Listeners are quick and raise nothing.
2. An error line from the server leads to a reconnect, not to a client that is closed for good.
3. A lost connection is aborted, not closed: closing waits until a peer that has stopped reading has read everything.
4. One inbox serves all requests (`Replies`). nats-py's own request takes four times the processor time: a task woken
   through a queue, a timer, and a header dictionary for each reply.
5. Where TLS is wanted (`tls://`, or an authority is given), nothing is sent to a server that does not require it.
   nats-py would send the login in clear.

It overrides private methods, so the version of nats-py is pinned, and tests verify these changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson
from nats.aio.client import Client
from nats.errors import Error, ProtocolError

from pyoco_server.adapters.jetstream.failures import ConnectionLost, NoAnswer

_STATUS = b"NATS/1.0 "

NO_RESPONDERS = 503

# Commands without a waiting caller share a system call, and the wake-up of the broker, with the next ones.
LATER_SEC = 0.002
# Many concurrent requests are batched too: each waits a moment longer, and all of them are served sooner.
BATCH_SEC = 0.001
CLOSE_RETRY_SEC = 0.05

SWEEP_SEC = 0.1
# While other replies arrive, the server is alive: a reply may be late by this many timeouts. Without it, many
# concurrent requests that are answered slowly one after the other would fail.
BUSY_FACTOR = 3
QUIET_SEC = 0.2


class Message(NamedTuple):
    """A received message. Bytes, because most parts are never read."""

    subject: bytes
    reply: bytes
    headers: bytes
    data: bytes

    @property
    def status(self) -> int:
        """The broker's inline status; 0 for a published message."""
        if not self.headers.startswith(_STATUS):
            return 0
        code = self.headers[9:12]
        return int(code) if code.isdigit() else 0

    @property
    def status_text(self) -> str:
        return self.headers[13 : self.headers.find(b"\r\n")].decode("utf-8", "replace")

    def header(self, name: str) -> str | None:
        """The first value of a header; names are case-sensitive."""
        mark = b"\r\n%b:" % name.encode()
        start = self.headers.find(mark)
        if start < 0:
            return None
        start += len(mark)
        return self.headers[start : self.headers.find(b"\r\n", start)].strip().decode("utf-8", "replace")

    def number(self, name: str) -> int:
        """A header that the broker sets to a number."""
        return int(self.header(name) or 0)


Listener = Callable[[Message], None]


async def cancel_until_ended(connecting: asyncio.Task[None]) -> None:
    """Cancel a task that connects, again and again until it has ended.

    nats-py connects under `asyncio.wait_for`, which can swallow a cancel on Python 3.11: the client would go on
    connecting, and keep its process from ending.
    """
    while not connecting.done():
        connecting.cancel()
        await asyncio.wait([connecting], timeout=CLOSE_RETRY_SEC)
    if not connecting.cancelled():
        connecting.exception()  # asked for, or asyncio logs it


class ServerWithoutTls(Error):  # type: ignore[misc]  # nats-py has no types
    """The server does not require TLS, and the settings do."""


class LeanClient(Client):  # type: ignore[misc]  # nats-py has no types
    def __init__(self, on_lost: Callable[[], None], *, needs_tls: bool = False) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._needs_tls = needs_tls
        self._listeners: dict[int, Listener] = {}
        # The delays of the flushes that are due.
        self._flushes: set[float] = set()
        self._ps = LeanParser(self, self._listeners)

    @property
    def has_jetstream(self) -> bool:
        return bool(self._server_info.get("jetstream"))

    def _connect_command(self) -> bytes:
        """The login, after TLS where that is wanted."""
        uri = self._current_server.uri
        wanted = uri.scheme == "tls" or (self._needs_tls and uri.scheme == "nats")
        if wanted and not self._server_info.get("tls_required"):
            raise ServerWithoutTls(f"nats at {uri.hostname}:{uri.port} does not require TLS")
        command: bytes = super()._connect_command()
        return command

    async def listen(self, subject: str, listener: Listener) -> Subscription:
        """Subscribe, now and after each reconnect."""
        sid: int = (await self.subscribe(subject))._id
        self._listeners[sid] = listener
        return Subscription(self, sid)

    def write(self, command: bytes, *, within_sec: float = 0.0) -> None:
        """Send with everything written in this turn of the loop, or with the next command or after `within_sec`.

        The caller has checked that we are connected.
        """
        self._pending.append(command)
        self._pending_data_size += len(command)
        if 0.0 in self._flushes or within_sec in self._flushes:
            return
        self._flushes.add(within_sec)
        loop = asyncio.get_running_loop()
        if within_sec:
            loop.call_later(within_sec, self._flush, within_sec)
        else:
            loop.call_soon(self._flush, within_sec)

    def _flush(self, within_sec: float = 0.0) -> None:
        # Straight to the socket: nats-py's own flusher is a task woken through a queue; that costs more than the write.
        self._flushes.discard(within_sec)
        if self._pending and self.is_connected:
            pending = b"".join(self._pending)
            self.drop_unsent()
            # Closed already; pending requests fail when the loss is detected.
            with suppress(RuntimeError):
                self._transport.write(pending)

    def drop_unsent(self) -> None:
        """Drop pending commands: their callers get an error, so they may not be sent after a reconnect."""
        self._pending: list[bytes] = []
        self._pending_data_size = 0

    async def close(self) -> None:
        if self._flush_queue is None:  # never connected
            return
        await super().close()
        while (task := self._reconnection_task) is not None and task is not asyncio.current_task() and not task.done():
            await cancel_until_ended(task)
            await super().close()

    async def _process_err(self, err_msg: str) -> None:
        error = Error(f"nats: {err_msg}")
        if "permissions violation" in err_msg.lower():
            await self._error_cb(error)
        else:
            await self._process_op_err(error)

    async def _process_op_err(self, e: Exception) -> None:
        if not self.is_closed and not self.is_reconnecting:
            writer = getattr(self._transport, "_io_writer", None)
            if writer is not None:
                writer.transport.abort()
            self.drop_unsent()
            self._on_lost()
        await super()._process_op_err(e)


class Subscription:
    def __init__(self, client: LeanClient, sid: int) -> None:
        self._client = client
        self._sid = sid

    def stop_sending(self) -> None:
        """Unsubscribe; messages in flight are still delivered."""
        self._client._remove_sub(self._sid)
        if self._client.is_connected:
            self._client.write(b"UNSUB %d\r\n" % self._sid)

    def close(self) -> None:
        """Unsubscribe and drop messages in flight."""
        self.stop_sending()
        self._client._listeners.pop(self._sid, None)


class LeanParser:
    """Parses what the server sends: MSG and HMSG go to listeners, everything else to nats-py."""

    def __init__(self, client: LeanClient, listeners: dict[int, Listener]) -> None:
        self._client = client
        self._listeners = listeners
        self._rest = b""

    def reset(self) -> None:
        self._rest = b""

    async def parse(self, data: bytes = b"") -> None:
        """Parse received bytes; an incomplete rest is kept for the next call."""
        self._rest += data
        while True:
            line = self._take_messages()
            if line is None:
                return
            await self._other(line)

    def _take_messages(self) -> bytes | None:
        """Deliver messages up to the first other line, and return that line; None when more bytes are needed."""
        buffer, at, size = self._rest, 0, len(self._rest)
        line: bytes | None = None
        while line is None:
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            start = end + 2
            # MSG <subject> <sid> [reply] <bytes>, HMSG <subject> <sid> [reply] <header bytes> <bytes>
            fields = buffer[at:end].split()
            if fields[:1] == [b"MSG"]:
                head, replied = 0, len(fields) == 5
            elif fields[:1] == [b"HMSG"]:
                head, replied = int(fields[-2]), len(fields) == 6
            else:
                line, at = buffer[at:end], start
                break
            stop = start + int(fields[-1])
            if stop + 2 > size:
                break
            at = stop + 2
            listener = self._listeners.get(int(fields[2]))
            if listener is not None:
                middle = start + head
                reply = fields[3] if replied else b""
                listener(Message(fields[1], reply, buffer[start:middle], buffer[middle:stop]))
        self._rest = buffer[at:]
        return line

    async def _other(self, line: bytes) -> None:
        operation = line[:4].upper()
        if operation == b"PING":
            await self._client._process_ping()
        elif operation == b"PONG":
            await self._client._process_pong()
        elif operation == b"INFO":
            await self._client._process_info(orjson.loads(line[4:]))
        elif operation == b"-ERR":
            await self._client._process_err(line[4:].decode("utf-8", "replace").strip())
        elif operation[:3] != b"+OK":
            raise ProtocolError("nats: unknown protocol")


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
        self._received_at = loop.time()

    @property
    def waiting(self) -> int:
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

    def receive(self, message: Message) -> None:
        self.in_doubt = False
        self._received_at = self._loop.time()
        token = message.subject[self._skip :]
        waiter = self._waiting.get(token)
        if waiter is None:
            return  # too late
        waiter.parts.append(message)
        if waiter.many and not message.status:
            waiter.deadline = waiter.last_call = self._received_at + waiter.timeout_sec
            return
        del self._waiting[token]
        if not waiter.future.done():
            waiter.future.set_result(waiter.parts)

    def fail_all(self, detail: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.future.done():
                waiter.future.set_exception(ConnectionLost(detail))

    def _sweep(self) -> None:
        # One coarse timer for all requests: a timer each costs more than its request.
        now = self._loop.time()
        quiet = now - self._received_at > QUIET_SEC
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
