"""nats-py's client with three changes; TLS, reconnecting and pings stay those of nats-py.

1. Commands written in the same turn of the event loop go to the socket in one system call. A parser of our own passes
   each message to its listener, a plain function called while the socket is read: no regular expressions, queue, task
   or header dictionary. Listeners are quick and raise nothing.
2. An error line from the server leads to a reconnect, not to a client that is closed for good.
3. A lost connection is aborted, not closed: closing waits until a peer that has stopped reading has read everything.

It overrides private methods, so the version of nats-py is pinned, and tests verify these changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import orjson
from nats.aio.client import Client
from nats.errors import Error, ProtocolError

from pyoco_server.adapters.jetstream.messages import Message

Listener = Callable[[Message], None]

# Commands without a waiting caller share a system call, and the wake-up of the broker, with the next ones.
LATER_SEC = 0.002
# Many concurrent requests are batched too: each waits a moment longer, and all of them are served sooner.
BATCH_SEC = 0.001
CLOSE_RETRY_SEC = 0.05


class LeanClient(Client):  # type: ignore[misc]  # nats-py has no types
    def __init__(self, on_lost: Callable[[], None]) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._listeners: dict[int, Listener] = {}
        self._flush_is_due = False
        self._flush_comes_later = False
        self._batch_flush_due = False
        self._ps = LeanParser(self, self._listeners)

    async def listen(self, subject: str, listener: Listener) -> int:
        """Subscribe, now and after each reconnect; returns the subscription's id."""
        subscription = await self.subscribe(subject)
        sid: int = subscription._id
        self._listeners[sid] = listener
        return sid

    def stop_sending(self, sid: int) -> None:
        """Unsubscribe, but still deliver messages that are in flight."""
        self._remove_sub(sid)
        if self.is_connected:
            self.write(b"UNSUB %d\r\n" % sid)

    def forget(self, sid: int) -> None:
        self._listeners.pop(sid, None)

    def write(self, command: bytes) -> None:
        """Send with everything written in this turn of the loop; the caller has checked that we are connected."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def write_batched(self, command: bytes) -> None:
        """Send with the requests of the next moment: for times of many concurrent requests."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_is_due and not self._batch_flush_due:
            self._batch_flush_due = True
            asyncio.get_running_loop().call_later(BATCH_SEC, self._flush_batch)

    def write_later(self, command: bytes) -> None:
        """Send with the next command, or after `LATER_SEC`."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_comes_later:
            self._flush_comes_later = True
            asyncio.get_running_loop().call_later(LATER_SEC, self._flush_late)

    def _flush_batch(self) -> None:
        self._batch_flush_due = False
        self._flush_now()

    def _flush_late(self) -> None:
        self._flush_comes_later = False
        self._flush_now()

    def _flush_now(self) -> None:
        # Straight to the socket: nats-py's own flusher is a task woken through a queue; that costs more than the write.
        self._flush_is_due = False
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
        # nats-py connects under `asyncio.wait_for`, which can swallow a cancel on Python 3.11: the client would go on
        # reconnecting, and keep its process from ending.
        while (task := self._reconnection_task) is not None and task is not asyncio.current_task() and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_RETRY_SEC)
            await super().close()

    async def _process_err(self, err_msg: str) -> None:
        error = Error(f"nats: {err_msg}")
        if "permissions violation" in err_msg:
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
            await self._client._process_err(line[4:].decode("utf-8", "replace").strip().lower())
        elif operation[:3] != b"+OK":
            raise ProtocolError("nats: unknown protocol")
