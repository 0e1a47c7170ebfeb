"""Responses of unbounded length: server-sent events and downloads.

Nothing is buffered for a slow reader: the next chunk is requested when the last one was sent. A response ends with its
generator, when its reader disconnects, loses its access, or reads nothing for `STALLED_SEC`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Header
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from pyoco_server.errors import PyocoError
from pyoco_server.services.loops import first_result

LastEventId = Annotated[str | None, Header(description="Resume behind this event; browsers send it by themselves.")]
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


def described(description: str, example: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """A response of server-sent events with these names (none: any), for the OpenAPI document."""
    properties = {
        "event": {"enum": names} if names else {"type": "string"},
        "id": {"type": "string", "description": "`Last-Event-ID` resumes behind it."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    }
    schema = {"type": "object", "required": ["event", "data"], "properties": properties}
    return {"description": description, "content": {EventStream.media_type: {"schema": schema, "example": example}}}


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


class Download(Response):
    """Bytes of a declared length. An error on the way cuts the connection: a short file is not taken as whole."""

    media_type = "application/octet-stream"
    _is_ended_early = False

    def __init__(
        self, first: bytes, rest: AsyncGenerator[bytes, None], headers: Mapping[str, str], status_code: int = 200
    ) -> None:
        super().__init__(headers=headers, status_code=status_code)
        if "Content-Length" not in headers:
            del self.headers["content-length"]
        self._first = first
        self._rest = rest

    @classmethod
    async def begun(
        cls, chunks: AsyncGenerator[bytes, None], headers: Mapping[str, str], status_code: int = 200
    ) -> Download:
        """The response with its first chunk read, so that an error before it is still an error response."""
        return cls(await anext(chunks, b""), chunks, headers, status_code)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._rest):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            waits = [self._send_chunks(send), _until_disconnected(receive)]
            if until_revoked := scope.get("until_revoked"):
                waits.append(until_revoked())
            is_complete = await first_result(*waits)
            if is_complete is True or (self._is_ended_early and is_complete is not False):
                await _taken(send, {"type": "http.response.body", "body": b""})

    async def _send_chunks(self, send: Send) -> bool:
        """Whether the reader took all chunks."""
        chunk: bytes | None = self._first
        while chunk is not None:
            if chunk and not await _taken(send, {"type": "http.response.body", "body": chunk, "more_body": True}):
                return False
            chunk = await anext(self._rest, None)
        return True


class EventStream(Download):
    """Server-sent events."""

    media_type = "text/event-stream"
    _is_ended_early = True

    @classmethod
    async def of(cls, events: AsyncGenerator[bytes, None]) -> Response:
        """The response with its first event read; 204 when there is none: a browser does not connect again."""
        first = await anext(events, None)
        return Response(status_code=204) if first is None else cls(first, events, SSE_HEADERS)


async def _taken(send: Send, message: Message) -> bool:
    """Whether the reader took the message in time."""
    try:
        async with asyncio.timeout(STALLED_SEC):
            await send(message)
    except TimeoutError:
        return False
    return True


async def _until_disconnected(receive: Receive) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except PyocoError:
        pass  # a rejected body: the response is under way, so it ends
