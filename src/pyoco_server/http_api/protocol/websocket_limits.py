"""WebSockets from the wire, before the app: frames, floods and readers that take nothing are bounded here.

Uvicorn's protocol trusts its peer in a few ways: it answers pings that nobody reads the answers to, takes messages from
a full buffer however many they are, and waits for a peer to take what was written before it closes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from pyoco_server.adapters.system import SystemClock
from pyoco_server.http_api.middleware.rejection_log import LimitWarnings

# Whatever is said to us is short.
MAX_MESSAGE_BYTES = 64 * 1024
MAX_FRAGMENTS = 64
# Messages that came and were not yet read by the app; they come in one piece only from somebody who floods.
MAX_WAITING = 32
# Answers to pings that their sender does not take.
MAX_UNSENT_BYTES = 1024 * 1024
PING_EVERY_SEC = 20.0
# Longer than the app waits for a reader that takes nothing: that one is told why, a silent one need not be.
PONG_PATIENCE_SEC = 90.0
# How long a peer may take to take a close, and all that was written before it.
CLOSE_PATIENCE_SEC = 5.0
POLICY_VIOLATION = 1008

# Its own, and at this level: uvicorn would log the address of every connection, and the library every byte of its head.
_logger = logging.getLogger(__name__)
_logger.setLevel(logging.WARNING)
_logger.addFilter(LimitWarnings(SystemClock()))


class BoundedSocket(WebSocketsSansIOProtocol):
    """Uvicorn's protocol with limits."""

    close_patience_sec = CLOSE_PATIENCE_SEC

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = self.conn.logger = _logger
        self.conn.debug = False
        self._abort: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._abort is not None:
            self._abort.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        self._close_soon()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._put_out("a message in too many pieces")
        else:
            super().handle_cont(event)

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.transport.abort()
        else:
            super().handle_ping()

    def send_receive_event_to_app(self) -> None:
        if self.queue.qsize() >= MAX_WAITING and not self.close_sent:
            self._put_out("too many messages at once")
        else:
            super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        self._close_soon()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._close_soon()

    async def send(self, message: Any) -> None:
        if self.close_sent and self.handshake_complete:
            # Put out from here; the app has not heard yet. By the rules of ASGI: the connection is closed.
            raise OSError("the connection is closed")
        if message["type"] == "websocket.close":
            # It is the last word, and waits for nobody to take the ones before it.
            self.writable.set()
        await super().send(message)
        if self.close_sent:
            self._close_soon()

    def _put_out(self, why: str) -> None:
        self.frames = []
        if not self.close_sent:
            self.conn.fail(POLICY_VIOLATION, why)
            self.handle_parser_exception()

    def _close_soon(self) -> None:
        """A connection that closes waits until all that was written is taken; not for ever."""
        if self._abort is None:
            self._abort = self.loop.call_later(self.close_patience_sec, self.transport.abort)


# How uvicorn is to serve WebSockets. Nothing is compressed: a hostile frame could be larger than it looks, and each
# connection would keep a window of what it was told.
SOCKETS: dict[str, Any] = {
    "ws": BoundedSocket,
    "ws_max_size": MAX_MESSAGE_BYTES,
    "ws_ping_interval": PING_EVERY_SEC,
    "ws_ping_timeout": PONG_PATIENCE_SEC,
    "ws_per_message_deflate": False,
}
