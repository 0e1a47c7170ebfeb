"""nats-py's client with three habits changed; the rest of the connection (TLS, reconnecting, pings) is nats-py's own.

1. A message goes straight to its listener, a plain function called while the socket is read: no queue, no task, no
   header dictionary. Listeners are quick and raise nothing.
2. An error line from the server leads to a reconnect, not to a client that is closed for good.
3. A lost connection is aborted, not closed: closing waits until a peer that has stopped reading has read everything.

It overrides private methods, so the version of nats-py is pinned, and the tests of `connect` hold it to these habits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nats.aio.client import Client
from nats.errors import Error

from pyoco_server.adapters.jetstream.messages import Message

Listener = Callable[[Message], None]


class LeanClient(Client):  # type: ignore[misc]  # nats-py has no types
    def __init__(self, on_lost: Callable[[], None]) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._listeners: dict[int, Listener] = {}

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
        """Send with the next flush; the caller has seen to it that we are connected."""
        self._pending.append(command)
        self._pending_data_size += len(command)
        if self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    def drop_unsent(self) -> None:
        """Nothing may be sent after a reconnect that its caller was told has failed."""
        self._pending: list[bytes] = []
        self._pending_data_size = 0

    async def close(self) -> None:
        if self._flush_queue is not None:  # else it never came as far as a connection
            await super().close()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        listener = self._listeners.get(sid)
        if listener is not None:
            listener(Message(subject, reply, headers or b"", data))

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
