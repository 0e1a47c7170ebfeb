"""A TCP proxy between a client and the broker that can delay data or cut connections; it never changes a byte."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit


class TcpProxy:
    """Passes bytes in both directions."""

    def __init__(self, target_url: str) -> None:
        self.lead_to(target_url)
        self._server: asyncio.Server | None = None
        self._replies_flow = asyncio.Event()
        self._replies_flow.set()
        self._held = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._serving:
            await asyncio.wait(self._serving)

    def lead_to(self, target_url: str) -> None:
        """Sets the target of new connections."""
        parts = urlsplit(target_url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)

    def hold_replies(self) -> None:
        """Holds back all data from the broker; requests still reach it."""
        self._replies_flow.clear()
        self._held.clear()

    async def reply_held(self) -> None:
        """Waits until a response of the broker is held back."""
        async with asyncio.timeout(5):
            await self._held.wait()

    def release(self) -> None:
        """Forwards the data that was held back."""
        self._replies_flow.set()

    def cut(self) -> None:
        """Drops every connection with its held data; new ones are served as before."""
        for writer in list(self._writers):
            writer.transport.abort()
        self._replies_flow.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, up_writer}
        self._writers |= pair
        ways = [
            asyncio.create_task(self._pass_on(reader, up_writer, held=False)),
            asyncio.create_task(self._pass_on(up_reader, writer, held=True)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self._writers -= pair
        for each in pair:
            each.transport.abort()
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if held and not self._replies_flow.is_set():
                    self._held.set()
                    await self._replies_flow.wait()
                if writer.transport.is_closing():
                    return
                writer.write(data)
                await writer.drain()
