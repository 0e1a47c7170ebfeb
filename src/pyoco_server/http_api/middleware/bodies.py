"""The body of one request: bounded in size and time, and not read once the request is answered without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from starlette.types import Message, Receive

from pyoco_server.errors import InvalidRequest, RequestTooLarge

# No size has more digits.
MAX_DIGITS = 19
# What is left of a body after the answer: the server reads this much over, and keeps the connection.
MAX_LEFT_BYTES = 64 * 1024
# A client that still sends must be able to read the answer: closing at once would reset the connection.
DRAIN_BYTES = 32 * 1024 * 1024
DRAIN_SEC = 5.0


class RequestBody:
    """Wraps `receive` of a request.

    Rejects a body that is too large as soon as that is known, or that stops or trickles.
    """

    def __init__(
        self,
        headers: Iterable[tuple[bytes, bytes]],
        receive: Receive,
        *,
        limit: int,
        now: Callable[[], float],
        patience_sec: float,
        slow_after_sec: float,
        slowest_bytes_per_sec: int,
    ) -> None:
        self._receive = receive
        self._limit = limit
        self._now = now
        self._patience_sec = patience_sec
        self._slow_after_sec = slow_after_sec
        self._slowest = slowest_bytes_per_sec
        self._declared: int | None = 0  # None: not known before its end
        self._received = 0
        self._is_complete = False
        self._waited_sec = 0.0
        for name, value in headers:
            if name == b"content-length":
                # By its length first: Python refuses to convert thousands of digits.
                digits = value.lstrip(b"0")
                is_size = value.isdigit() and len(digits) <= MAX_DIGITS
                self._declared = int(digits or b"0") if is_size else limit + 1 if value.isdigit() else 0
                break
            if name == b"transfer-encoding":
                self._declared = None
                break

    async def receive(self) -> Message:
        """The next message, or `RequestTooLarge` or `InvalidRequest`."""
        if self._declared is not None and self._declared > self._limit:
            raise self._too_large()
        if self._is_complete:
            return await self._receive()  # only the disconnect is left, however late
        began = self._now()
        try:
            async with asyncio.timeout(self._patience_sec):
                message = await self._receive()
        except TimeoutError as error:
            raise InvalidRequest(f"no more of the body arrived for {self._patience_sec:g} s") from error
        self._received += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        self._waited_sec += self._now() - began  # our own work between two chunks does not count
        if not self._is_complete and self._is_slow:
            raise InvalidRequest(f"the body arrives too slowly: {self._received} bytes in {self._waited_sec:.0f} s")
        if self._received > self._limit:
            raise self._too_large()
        return message

    @property
    def is_left(self) -> bool:
        """Whether so much of it was not received that the connection is not worth keeping."""
        if self._is_complete or self._declared == 0:
            return False
        return self._declared is None or self._declared - self._received > MAX_LEFT_BYTES

    async def drain(self) -> None:
        """Drop a bounded part of what still arrives."""
        dropped = 0
        try:
            async with asyncio.timeout(DRAIN_SEC):
                while dropped < DRAIN_BYTES and not self._is_complete:
                    message = await self._receive()
                    dropped += len(message.get("body", b""))
                    self._is_complete = not message.get("more_body", False)
        except TimeoutError:
            pass  # the client waits: it has the answer

    @property
    def _is_slow(self) -> bool:
        return self._waited_sec > self._slow_after_sec and self._received < self._waited_sec * self._slowest

    def _too_large(self) -> RequestTooLarge:
        return RequestTooLarge(f"the body may have at most {self._limit} bytes")
