"""nats-py's client with three habits changed; the rest of the connection (TLS, reconnecting, pings) is nats-py's own.

1. What is sent goes straight to the socket, together with all that was to be sent in the same turn of the loop; and a
   message goes straight from a parser of our own to its listener, a plain function called while the socket is
   read: no regular expressions, no queue, no task, no header dictionary. Listeners are quick and raise nothing.
2. An error line from the server leads to a reconnect, not to a client that is closed for good.
3. A lost connection is aborted, not closed: closing waits until a peer that has stopped reading has read everything.

It overrides private methods, so the version of nats-py is pinned, and the tests of `connect` hold it to these habits.
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

# What nobody waits for can share a system call, and the wake-up of the broker, with what somebody does.
LATER_SEC = 0.002
# So can the requests of a crowd: each waits a moment longer, and all of them are served sooner.
CROWD_SEC = 0.001


class LeanClient(Client):  # type: ignore[misc]  # nats-py has no types
    def __init__(self, on_lost: Callable[[], None]) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._listeners: dict[int, Listener] = {}
        self._flush_is_due = False
        self._flush_comes_later = False
        self._flush_for_crowd = False
        self._ps = LeanParser(self, self._listeners)

    async def listen(self, subject: str, listener: Listener) -> int:
        """Subscribe, now and after each reconnect; returns the subscription's id."""
        subscription = await self.subscribe(subject)
        sid: int = subscription._id
        self._listeners[sid] = listener
        return sid

    def stop_sending(self, sid: int) -> None:
        """Tell the server to send no more, but still hear what is on its way."""
        self._remove_sub(sid)
        if self.is_connected:
            self.write(b"UNSUB %d\r\n" % sid)

    def forget(self, sid: int) -> None:
        self._listeners.pop(sid, None)

    def write(self, command: bytes) -> None:
        """Send with all else that is written before the loop turns; the caller has seen to it that we are connected."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def write_in_crowd(self, command: bytes) -> None:
        """Send with the others that come within a moment: for requests of which many are on their way."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_is_due and not self._flush_for_crowd:
            self._flush_for_crowd = True
            asyncio.get_running_loop().call_later(CROWD_SEC, self._flush_crowd)

    def write_later(self, command: bytes) -> None:
        """Send with whatever is sent next, or in a moment."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._flush_comes_later:
            self._flush_comes_later = True
            asyncio.get_running_loop().call_later(LATER_SEC, self._flush_late)

    def _flush_crowd(self) -> None:
        self._flush_for_crowd = False
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
            # Closed already, and nobody has noticed yet: those who wait hear of it when the loss is found.
            with suppress(RuntimeError):
                self._transport.write(pending)

    def drop_unsent(self) -> None:
        """Forget what is pending: nothing may be sent after a reconnect that its caller was told has failed."""
        self._pending: list[bytes] = []
        self._pending_data_size = 0

    async def close(self) -> None:
        if self._flush_queue is not None:  # else it never came as far as a connection
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
    """The server's half of the protocol: MSG and HMSG to their listeners, everything else to nats-py."""

    def __init__(self, client: LeanClient, listeners: dict[int, Listener]) -> None:
        self._client = client
        self._listeners = listeners
        self._rest = b""

    def reset(self) -> None:
        self._rest = b""

    async def parse(self, data: bytes = b"") -> None:
        """Take in what was read; an unfinished end is kept for the next time."""
        self._rest += data
        while True:
            line = self._take_messages()
            if line is None:
                return
            await self._other(line)

    def _take_messages(self) -> bytes | None:
        """Deliver up to the first line that is no message, and return that line; None when more must be read first."""
        buffer, at, size = self._rest, 0, len(self._rest)
        line: bytes | None = None
        while line is None:
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            start = end + 2
            # MSG <subject> <sid> [reply] <bytes>, HMSG <subject> <sid> [reply] <header bytes> <bytes>
            words = buffer[at:end].split()
            if words[:1] == [b"MSG"]:
                head, replied = 0, len(words) == 5
            elif words[:1] == [b"HMSG"]:
                head, replied = int(words[-2]), len(words) == 6
            else:
                line, at = buffer[at:end], start
                break
            stop = start + int(words[-1])
            if stop + 2 > size:
                break
            at = stop + 2
            listener = self._listeners.get(int(words[2]))
            if listener is not None:
                middle = start + head
                reply = words[3] if replied else b""
                listener(Message(words[1], reply, buffer[start:middle], buffer[middle:stop]))
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
