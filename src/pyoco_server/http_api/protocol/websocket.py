"""One WebSocket connection and its close codes.

Nothing is buffered for a slow reader: a frame is sent when the one before it was read, and a stalled reader is closed.
Browsers see a close code only on an accepted connection, so a rejected connection is accepted first.
"""

from __future__ import annotations

import asyncio
import logging
from enum import IntEnum

from starlette.types import Message, Receive, Send

from pyoco_server.errors import InvalidApiKey, Kind, PyocoError

logger = logging.getLogger(__name__)

# A reader that takes nothing for this long is treated as disconnected.
STALLED_SEC = 60.0
CLOSE_SEC = 5.0
# RFC 6455: the size of a close frame.
MAX_REASON_BYTES = 123


class Code(IntEnum):
    """Close codes; those from 4000 on are ours: 4000 + the HTTP status."""

    NORMAL = 1000
    POLICY = 1008
    INTERNAL = 1011
    RESTART = 1012
    TRY_LATER = 1013
    UNAUTHENTICATED = 4401
    FORBIDDEN = 4403
    MISDIRECTED = 4421
    NOT_FOUND = 4404
    CONFLICT = 4409
    INVALID = 4422


_CODES = {
    Kind.UNAUTHENTICATED: Code.UNAUTHENTICATED,
    Kind.FORBIDDEN: Code.FORBIDDEN,
    Kind.MISDIRECTED: Code.MISDIRECTED,
    Kind.NOT_FOUND: Code.NOT_FOUND,
    Kind.CONFLICT: Code.CONFLICT,
    Kind.INVALID: Code.INVALID,
    Kind.TOO_LARGE: Code.INVALID,
    Kind.RATE_LIMITED: Code.TRY_LATER,
    Kind.UNAVAILABLE: Code.TRY_LATER,
    Kind.BAD_GATEWAY: Code.TRY_LATER,
}


def code_of(error: PyocoError) -> Code:
    return Code.UNAUTHENTICATED if isinstance(error, InvalidApiKey) else _CODES.get(error.kind, Code.INTERNAL)


class Socket:
    """One connection. A disconnected peer raises nothing."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._sending = asyncio.Lock()
        self._is_open = False
        self.stalled = asyncio.Event()
        """Set when the reader has stalled."""

    async def accept(self) -> None:
        await self._receive()  # websocket.connect
        await self._put({"type": "websocket.accept"})
        self._is_open = True

    async def receive(self) -> str | bytes | None:
        """The next message; None when the peer has disconnected."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._is_open = False
            return None
        text: str | None = message.get("text")
        return message["bytes"] if text is None else text

    async def send(self, text: str) -> None:
        """Send a frame once those before it were read; does nothing when the peer does not read any more."""
        async with self._sending:
            if self._is_open and not self.stalled.is_set():
                await self._put({"type": "websocket.send", "text": text})

    async def close(self, code: Code, reason: str = "") -> None:
        """Close with a code; does nothing when the peer has disconnected."""
        if not self._is_open:
            return
        self._is_open = False
        cut = reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
        await self._put({"type": "websocket.close", "code": int(code), "reason": cut}, CLOSE_SEC)

    async def refuse(self, error: PyocoError) -> None:
        """Close with an error, accepting the connection first where needed."""
        if code_of(error) is Code.INTERNAL:
            logger.error("websocket failed", exc_info=error, extra={"err_id": error.err_id, "msg_id": error.msg_id})
        if not self._is_open:
            await self.accept()
        await self.close(code_of(error), f"{error.err_id} {error.message()}")

    async def _put(self, message: Message, patience_sec: float | None = None) -> None:
        try:
            async with asyncio.timeout(STALLED_SEC if patience_sec is None else patience_sec):
                await self._send(message)
        except TimeoutError:
            self.stalled.set()
        except OSError:  # ASGI: the connection is closed
            self._is_open = False
