"""Carries out what scripts ask for, on asyncio. Holds no logic of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeVar, assert_never

from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Close, Effect, Open, Read, Script, Sleep, Tell, Transmit
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.requests import Gathered, client_options, request_options, unsigned, unsigned_error

T = TypeVar("T")


class AsyncWire:
    """A pool of connections to one gateway. May be used by many tasks of one event loop."""

    def __init__(self, connection: Connection, transport: httpx.AsyncBaseTransport | None) -> None:
        self._connection = connection
        self._client = httpx.AsyncClient(transport=transport, **client_options(connection, transport is None))

    async def close(self) -> None:
        await self._client.aclose()

    async def run(self, script: Script[T]) -> T:
        """What the script comes to; what it tells on the way is for others."""
        async with _Hands(self._client, self._connection) as hands:
            came: object = None
            while True:
                try:
                    effect = script.send(came)
                except StopIteration as end:
                    result: T = end.value
                    return result
                came = await hands.do(effect)

    async def tell(self, script: Script[None]) -> AsyncGenerator[Any, None]:
        """What the script tells, as it tells it."""
        async with _Hands(self._client, self._connection) as hands:
            came: object = None
            while True:
                try:
                    effect = script.send(came)
                except StopIteration:
                    return
                came = await hands.do(effect)
                if isinstance(effect, Tell):
                    yield effect.item


class _Hands:
    """Do one thing at a time for one script, and leave nothing open behind it."""

    def __init__(self, client: httpx.AsyncClient, connection: Connection) -> None:
        self._client = client
        self._connection = connection
        self._sleep = connection.timing.sleep_async or asyncio.sleep
        self._open: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> _Hands:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def do(self, effect: Effect) -> object:
        match effect:
            case Transmit(call, silence_sec):
                return await self._send(call, stays_open=False, silence_sec=silence_sec)
            case Open(call, silence_sec):
                return await self._send(call, stays_open=True, silence_sec=silence_sec)
            case Read():
                return await self._read()
            case Close():
                await self._close()
            case Sleep(seconds):
                await self._sleep(seconds)
            case Tell():
                pass
            case _:
                assert_never(effect)
        return None

    async def _send(
        self, call: Call[Any], *, stays_open: bool, silence_sec: float | None = None
    ) -> httpx.Response | httpx.RequestError:
        request = self._client.build_request(**request_options(call, self._connection, silence_sec))
        try:
            response = await self._client.send(request, stream=True)
            if stays_open and response.is_success:
                self._open, self._chunks = response, response.aiter_bytes()
            else:
                response = await self._gather(response)
        except httpx.RequestError as error:
            return unsigned_error(error)
        return unsigned(response)

    async def _gather(self, response: httpx.Response) -> httpx.Response:
        async with aclosing(response):
            gathered = Gathered(response, self._connection)
            async for piece in response.aiter_raw():
                gathered.add(piece)
            return gathered.whole()

    async def _read(self) -> bytes | httpx.RequestError | None:
        if self._chunks is None:
            return None
        try:
            return await anext(self._chunks, None)
        except httpx.RequestError as error:
            return unsigned_error(error)

    async def _close(self) -> None:
        if self._open is not None:
            await self._open.aclose()
        self._open, self._chunks = None, None
