"""A file as an answer, piece by piece, at the pace of whoever reads it; given up when nobody does any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# A reader that takes nothing for so long is not slow but gone; its connection would stay for ever.
STALLED_SEC = 60.0


class Download(Response):
    """Bytes whose number the headers say. What goes wrong on the way cuts the connection: a short file is no file."""

    media_type = "application/octet-stream"

    def __init__(
        self, first: bytes, rest: AsyncIterator[bytes], headers: Mapping[str, str], status_code: int = 200
    ) -> None:
        super().__init__(headers=headers, status_code=status_code)
        self._first = first
        self._rest = rest

    @classmethod
    async def begun(cls, pieces: AsyncIterator[bytes], headers: Mapping[str, str], status_code: int = 200) -> Download:
        """The answer, once there is something to begin with: until then an error is told as an error."""
        return cls(await anext(pieces, b""), pieces, headers, status_code)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._pour(send, gone)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            close = getattr(self._rest, "aclose", None)
            if close is not None:
                await close()

    async def _pour(self, send: Send, gone: asyncio.Task[None]) -> None:
        piece = self._first
        while piece:
            if gone.done():
                return
            try:
                async with asyncio.timeout(STALLED_SEC):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError:
                return
            piece = await anext(self._rest, b"")
        await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
