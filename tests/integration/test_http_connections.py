"""HTTP connections: endless and missing request heads close their connection; others are served."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.http_api.protocol.connection_limits import MAX_HEAD_BYTES, MAX_HEADERS, BoundedHttp

PATIENCE_SEC = 20.0
PIECE = 16 * 1024
PIECES = 64 * MAX_HEAD_BYTES // PIECE
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


async def names_and_size(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that responds to a complete body with the names of the request headers and the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    content = b" ".join([*(name for name, _ in scope["headers"]), b"%d" % size])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(content))]})
    await send({"type": "http.response.body", "body": content})


class ShortTimeouts(BoundedHttp):
    head_patience_sec = 0.05


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Sends until the peer closes the connection."""
        try:
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()
        except ConnectionError:
            return

    async def response(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head + await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Waits until the peer has closed the connection; earlier data is discarded."""
        try:
            while await self.reader.read(PIECE):
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def connected(
    protocol: type[BoundedHttp] = BoundedHttp, app: ASGIApp = names_and_size
) -> AsyncIterator[Connection]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app, http=protocol, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=5
        )
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listener])
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                reader, writer = await asyncio.open_connection(*listener.getsockname())
                yield Connection(reader, writer)
                writer.close()
        finally:
            await server.shutdown(sockets=[listener])


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"GET /", b"a" * PIECE),
        (HEAD + b"X-Long: ", b"a" * PIECE),
        (HEAD, b"X-One: of many\r\n" * (PIECE // 16)),
        (HEAD, b"a" * PIECE),
        (CHUNKED + b"0\r\nX-Trailer: ", b"a" * PIECE),
        (CHUNKED + b"0\r\n", b"X-One: of many\r\n" * (PIECE // 16)),
        (CHUNKED + b"3;extension=", b"a" * PIECE),
    ],
    ids=["url", "value", "headers", "name", "trailer", "trailers", "extension"],
)
async def test_an_endless_request_head_is_rejected(beginning: bytes, piece: bytes) -> None:
    async with connected() as connection:
        await connection.send(beginning, *repeat(piece, PIECES))

        assert await connection.is_closed()


async def test_a_request_head_with_endless_headers_is_rejected() -> None:
    async with connected() as connection:
        await connection.send(HEAD + b"X: y\r\n" * (MAX_HEADERS - 1) + b"\r\n")
        assert (await connection.response()).startswith(b"HTTP/1.1 200")

        await connection.send(HEAD + b"X: y\r\n" * MAX_HEADERS + b"\r\n")

        assert (await connection.response()).startswith(b"HTTP/1.1 400")
        assert await connection.is_closed()


async def test_a_connection_without_a_request_is_closed() -> None:
    async with connected(ShortTimeouts) as connection:
        assert await connection.is_closed()


async def test_a_partial_request_head_closes_its_connection_also_after_a_whole_request() -> None:
    async with connected(ShortTimeouts) as connection:
        await connection.send(HEAD + b"Content-Length: 3\r\n\r\nabc")
        assert (await connection.response()).endswith(b"host content-length 3")

        await connection.send(HEAD)

        assert await connection.is_closed()


async def test_long_heads_large_bodies_and_second_requests_are_served() -> None:
    body = b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n"
    long = b"X-Long: " + b"a" * (MAX_HEAD_BYTES - 1024) + b"\r\n"
    async with connected() as connection:
        await connection.send(HEAD + long + b"Transfer-Encoding: chunked\r\n\r\n" + body, HEAD + b"\r\n")

        assert (await connection.response()).endswith(b"host x-long transfer-encoding 50000")
        assert (await connection.response()).endswith(b"host 0")


async def test_trailers_are_not_headers() -> None:
    async with connected() as connection:
        await connection.send(CHUNKED + b"0\r\nX-Api-Key: late\r\n\r\n")

        assert (await connection.response()).endswith(b"host transfer-encoding 3")
