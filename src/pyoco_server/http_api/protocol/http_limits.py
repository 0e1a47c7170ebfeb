"""HTTP from the wire, around the app: a head that is endless or never comes is given up, and so is a reader that reads
nothing.

The parser keeps a header until it is whole, however long it is, and adds to it by copying: a few hundred megabytes in
one of them would stop the gateway for minutes. And a connection that is closed stays, with all that was written to it,
until the other side has taken that.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pyoco_server.adapters.system import SystemClock
from pyoco_server.http_api.middleware.rejection_log import LimitWarnings

# More than browsers and proxies send, cookies included.
MAX_HEAD_BYTES = 64 * 1024
# Each of them is looked at again by whoever asks for one: a head of nothing but headers would keep all others waiting.
MAX_HEADERS = 256
HEAD_PATIENCE_SEC = 20.0
# As long as streams and downloads wait for a reader. Of a large answer this much must be taken in that time.
TAKE_PATIENCE_SEC = 60.0
TAKEN_BYTES = 256 * 1024

_logger = logging.getLogger(__name__)
_logger.addFilter(LimitWarnings(SystemClock()))


class BoundedHttp(HttpToolsProtocol):
    """Uvicorn's protocol with limits. Trailers are left out: a head is whole before anybody is let in by it."""

    head_patience_sec = HEAD_PATIENCE_SEC
    take_patience_sec = TAKE_PATIENCE_SEC

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _logger
        self._in_head = False
        self._head_bytes = 0
        self._told = False
        self._kept_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_deadline()
        self._look_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._told = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        # What the parser was given and did not tell of is what it keeps.
        self._kept_bytes = 0 if self._told else self._kept_bytes + len(data)
        if self._kept_bytes > MAX_HEAD_BYTES:
            self.logger.warning("a request's head was given up: it is too large")
            self.send_400_response("The head of the request is too large.")
        elif self._in_head and self._deadline is None:
            self._set_deadline()

    # --- what was written and is not taken ----------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._look is None and self.transport.get_write_buffer_size():
            self._look_later()  # the connection may be closed before the rest is taken

    def _look_later(self) -> None:
        self._look_no_more()
        left = self.transport.get_write_buffer_size()
        self._look = self.loop.call_later(self.take_patience_sec, self._look_again, left)

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_again(self, before: int) -> None:
        self._look = None
        left = self.transport.get_write_buffer_size()
        if not left or not (self.flow.write_paused or self.transport.is_closing()):
            return
        if before - left < min(before, TAKEN_BYTES):
            self.transport.abort()
        else:
            self._look_later()

    # --- told by the parser; what is raised here ends the request -----------------------------------------------------

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
        self._in_head, self._told = False, True
        self._drop_deadline()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._told = True
        super().on_body(body)

    def _count(self, size: int) -> None:
        self._told = True
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("the head of the request is too large")

    # --- time ---------------------------------------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.head_patience_sec, self.transport.close)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
