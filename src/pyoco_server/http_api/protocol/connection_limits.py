"""Limits of a connection below the app: the head of a request and the frames of a WebSocket.

The HTTP parser buffers a header until it is complete, by copying: a few hundred megabytes in one header would block the
gateway for minutes. Slow readers of an answer are handled by the responses.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request, Response

from pyoco_server.adapters.system import SystemClock, SystemIds
from pyoco_server.http_api.middleware.access_log import SWITCHING_PROTOCOLS
from pyoco_server.http_api.middleware.rejection_log import LimitWarnings

# More than browsers and proxies send, cookies included.
MAX_HEAD_BYTES = 64 * 1024
# Every lookup of a header reads all of them.
MAX_HEADERS = 256
HEAD_PATIENCE_SEC = 20.0
# Messages to the gateway are short.
MAX_MESSAGE_BYTES = 64 * 1024
MAX_FRAGMENTS = 64
# Answers to pings that their sender does not read.
MAX_UNSENT_BYTES = 1024 * 1024
PING_EVERY_SEC = 20.0
# Longer than the app waits for a stalled reader, which gets a close code.
PONG_PATIENCE_SEC = 90.0
# For a peer to read its close frame and everything before it.
CLOSE_PATIENCE_SEC = 5.0

_ids = SystemIds()
# Own logger: uvicorn's would log the address of every WebSocket, and its library every byte of a head.
_logger = logging.getLogger(__name__)
_logger.setLevel(logging.WARNING)
_logger.addFilter(LimitWarnings(SystemClock()))
# The library of WebSockets logs every fault of a peer as an error, with a traceback.
_peer_logger = logging.getLogger(f"{__name__}.peers")
_peer_logger.addFilter(LimitWarnings(SystemClock(), up_to=logging.ERROR))


class BoundedHttp(HttpToolsProtocol):
    """Bounds the head of a request in size, number of headers and time. Trailers are dropped."""

    head_patience_sec = HEAD_PATIENCE_SEC

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _logger
        self._in_head = False
        self._head_bytes = 0
        self._buffered_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # The parser buffers what it receives without a callback, each of which resets this number.
        self._buffered_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._buffered_bytes > MAX_HEAD_BYTES:
            self.logger.warning("request rejected: its head is too large")
            self.send_400_response("The head of the request is too large.")
        elif self._in_head and self._deadline is None:
            self._set_deadline()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP; without a request there is no other place for its id."""
        state, request_id = self.server_state, _ids.request_id()
        usual, state.default_headers = (
            state.default_headers,
            [
                *state.default_headers,
                (b"x-request-id", request_id.encode()),
            ],
        )
        try:
            super().send_400_response(msg)
        finally:
            state.default_headers = usual

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if self._in_head:
            if len(self.headers) >= MAX_HEADERS:
                raise ValueError("the request has too many headers")
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._buffered_bytes = False, 0
        self._drop_deadline()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._buffered_bytes = 0
        super().on_body(body)

    def _count(self, size: int) -> None:
        self._buffered_bytes = 0
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("the head of the request is too large")

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.head_patience_sec, self.transport.close)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class BoundedSocket(WebSocketsSansIOProtocol):
    """Bounds what a WebSocket peer can make the gateway buffer."""

    close_patience_sec = CLOSE_PATIENCE_SEC

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger, self.conn.logger = _logger, _peer_logger
        self.conn.debug = False
        self._abort: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._abort is not None:
            self._abort.cancel()
        super().connection_lost(exc)

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self.transport.abort()
        else:
            super().handle_cont(event)

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.transport.abort()
        else:
            super().handle_ping()

    def handle_connect(self, event: Request) -> None:
        # The library answers a malformed handshake before there is a request for the app.
        accept = self.conn.accept

        def accept_with_id(request: Request) -> Response:
            response = accept(request)
            if response.status_code != SWITCHING_PROTOCOLS:
                response.headers["X-Request-Id"] = _ids.request_id()
            return response

        self.conn.accept = accept_with_id  # type: ignore[method-assign]
        super().handle_connect(event)

    async def send(self, message: Any) -> None:
        if self.close_sent and self.handshake_complete:
            raise OSError("the connection is closed")  # as ASGI wants it; closed below the app
        if message["type"] == "websocket.close":
            # A close does not wait for the peer to read; the peer gets a limited time to read it.
            self.writable.set()
            if self._abort is None:
                self._abort = self.loop.call_later(self.close_patience_sec, self.transport.abort)
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True  # else uvicorn logs an error for each refused connection


# How uvicorn serves WebSockets. Without compression: a frame could grow on arrival, and every connection would keep a
# window in memory.
SOCKETS: dict[str, Any] = {
    "ws": BoundedSocket,
    "ws_max_size": MAX_MESSAGE_BYTES,
    "ws_ping_interval": PING_EVERY_SEC,
    "ws_ping_timeout": PONG_PATIENCE_SEC,
    "ws_per_message_deflate": False,
}
