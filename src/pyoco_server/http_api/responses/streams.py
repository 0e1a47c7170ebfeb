"""Responses of unbounded length: server-sent events and downloads.

Nothing is buffered for a slow reader: the next chunk is requested when the last one was sent. A response ends with its
source, when its reader disconnects, loses its access, or reads nothing for `STALLED_SEC`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# How long a browser waits before it reconnects: enough for the restart of a gateway.
RETRY = b"retry: 2000\n\n"
# A reader that takes nothing for this long is treated as disconnected.
STALLED_SEC = 60.0

SSE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would collect events until its buffer is full
}
# Valid in JSON, but many readers treat them as line breaks, which would split an event.
_LINE_BREAKS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def event(name: str, data: bytes, event_id: int | str | None = None) -> bytes:
    """One server-sent event; `data` is JSON in which every line break is escaped."""
    for sign, escaped in _LINE_BREAKS:
        if sign in data:
            data = data.replace(sign, escaped)
    head = b"" if event_id is None else b"id: %b\n" % str(event_id).encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


def comment(text: str) -> bytes:
    """A line for people who read the stream; programs skip it."""
    return b": %b\n" % text.encode()


class Source(Protocol):
    """The events of one reader."""

    async def next(self) -> bytes | None:
        """The next event as soon as there is one; None at the end."""

    def end(self) -> None:
        """Make `next` return None."""

    def close(self) -> None:
        """Free all resources."""


class _StreamedResponse(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(scope, receive))
        gone.add_done_callback(lambda _: self._end())
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._send_chunks(send, gone)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            await self._close()

    async def _send_chunks(self, send: Send, gone: asyncio.Task[None]) -> None:
        while (chunk := await self._next()) is not None:
            if gone.done() and self._is_cut_short:
                return
            try:
                async with asyncio.timeout(STALLED_SEC):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            except TimeoutError:
                return
        await send({"type": "http.response.body", "body": b""})

    _is_cut_short = False

    async def _next(self) -> bytes | None:
        raise NotImplementedError

    def _end(self) -> None:
        """The reader is gone."""

    async def _close(self) -> None:
        """Free all resources."""


class EventStream(_StreamedResponse):
    """The events of a source."""

    media_type = "text/event-stream"

    def __init__(self, source: Source) -> None:
        super().__init__(headers=SSE_HEADERS)
        del self.headers["content-length"]
        self._source = source
        self._is_begun = False

    async def _next(self) -> bytes | None:
        if not self._is_begun:
            self._is_begun = True
            return RETRY
        return await self._source.next()

    def _end(self) -> None:
        self._source.end()

    async def _close(self) -> None:
        self._source.close()


class Download(_StreamedResponse):
    """Bytes of a declared length. An error on the way cuts the connection: a short file is not taken as whole."""

    media_type = "application/octet-stream"
    _is_cut_short = True

    def __init__(
        self, first: bytes, rest: AsyncIterator[bytes], headers: Mapping[str, str], status_code: int = 200
    ) -> None:
        super().__init__(headers=headers, status_code=status_code)
        self._first: bytes | None = first
        self._rest = rest

    @classmethod
    async def begun(cls, pieces: AsyncIterator[bytes], headers: Mapping[str, str], status_code: int = 200) -> Download:
        """The response with its first piece read, so that an error before it is still an error response."""
        return cls(await anext(pieces, b""), pieces, headers, status_code)

    async def _next(self) -> bytes | None:
        piece, self._first = self._first, None
        return piece or await anext(self._rest, None)

    async def _close(self) -> None:
        close = getattr(self._rest, "aclose", None)
        if close is not None:
            await close()


async def _until_gone(scope: Scope, receive: Receive) -> None:
    """Returns when the reader has disconnected or its credentials are no longer accepted."""
    until_revoked = scope.get("until_revoked")
    if until_revoked is None:
        await _until_disconnected(receive)
        return
    tasks = [asyncio.ensure_future(_until_disconnected(receive)), asyncio.ensure_future(until_revoked())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
