"""Server-sent events for any dialect: the lines of the format, and a response that ends when its reader is gone.

It keeps nothing for a slow reader: the next event is asked for when the last one was taken.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# What a browser waits before it connects again: long enough for a gateway to be replaced, short for a person.
RETRY = b"retry: 2000\n\n"
# A reader that takes nothing for so long is not slow but gone; its connection would stay for ever.
STALLED_SEC = 60.0

HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would gather events until its buffer is full
}


def event(name: str, data: bytes, event_id: int | str | None = None) -> bytes:
    """One event; `data` is JSON, so there is no line break in it."""
    head = b"" if event_id is None else b"id: %b\n" % str(event_id).encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


def comment(text: str) -> bytes:
    """A line for people who look at the stream; programs skip it."""
    return b": %b\n" % text.encode()


class Source(Protocol):
    """Where events come from, one reader's."""

    async def next(self) -> bytes | None:
        """The next event as soon as there is one; None at the end."""

    def end(self) -> None:
        """Let `next` come to its end."""

    def close(self) -> None:
        """Free everything: nobody asks any more."""


class EventStream(Response):
    """The events of a source until its end, or until the reader has gone."""

    media_type = "text/event-stream"

    def __init__(self, source: Source) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listening = asyncio.create_task(_until_gone(receive))
        listening.add_done_callback(lambda _: self._source.end())
        try:
            await self._pour(send)
        finally:
            self._source.close()
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _pour(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": RETRY, "more_body": True})
        while (chunk := await self._source.next()) is not None:
            try:
                async with asyncio.timeout(STALLED_SEC):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            except TimeoutError:
                return
        await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
