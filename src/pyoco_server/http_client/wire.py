"""Carries out what scripts ask for, with blocking I/O. Holds no logic of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, TypeVar, assert_never

from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Close, Effect, Open, Read, Script, Sleep, Tell, Transmit
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.requests import Gathered, client_options, request_options, unsigned, unsigned_error

T = TypeVar("T")


class Wire:
    """A pool of connections to one gateway. May be used by many threads."""

    def __init__(self, connection: Connection, transport: httpx.BaseTransport | None) -> None:
        self._connection = connection
        self._client = httpx.Client(transport=transport, **client_options(connection, transport is None))

    def close(self) -> None:
        self._client.close()

    def run(self, script: Script[T]) -> T:
        """What the script comes to; what it tells on the way is for others."""
        with _Hands(self._client, self._connection) as hands:
            came: object = None
            while True:
                try:
                    effect = script.send(came)
                except StopIteration as end:
                    result: T = end.value
                    return result
                came = hands.do(effect)

    def tell(self, script: Script[None]) -> Generator[Any, None, None]:
        """What the script tells, as it tells it."""
        with _Hands(self._client, self._connection) as hands:
            came: object = None
            while True:
                try:
                    effect = script.send(came)
                except StopIteration:
                    return
                came = hands.do(effect)
                if isinstance(effect, Tell):
                    yield effect.item


class _Hands:
    """Do one thing at a time for one script, and leave nothing open behind it."""

    def __init__(self, client: httpx.Client, connection: Connection) -> None:
        self._client = client
        self._connection = connection
        self._open: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())

    def __enter__(self) -> _Hands:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def do(self, effect: Effect) -> object:
        match effect:
            case Transmit(call, silence_sec):
                return self._send(call, stays_open=False, silence_sec=silence_sec)
            case Open(call, silence_sec):
                return self._send(call, stays_open=True, silence_sec=silence_sec)
            case Read():
                return self._read()
            case Close():
                self._close()
            case Sleep(seconds):
                self._connection.timing.sleep(seconds)
            case Tell():
                pass
            case _:
                assert_never(effect)
        return None

    def _send(
        self, call: Call[Any], *, stays_open: bool, silence_sec: float | None = None
    ) -> httpx.Response | httpx.RequestError:
        request = self._client.build_request(**request_options(call, self._connection, silence_sec))
        try:
            response = self._client.send(request, stream=True)
            if stays_open and response.is_success:
                self._open, self._chunks = response, response.iter_bytes()
            else:
                response = self._gather(response)
        except httpx.RequestError as error:
            return unsigned_error(error)
        return unsigned(response)

    def _gather(self, response: httpx.Response) -> httpx.Response:
        with closing(response):
            gathered = Gathered(response, self._connection)
            for piece in response.iter_raw():
                gathered.add(piece)
            return gathered.whole()

    def _read(self) -> bytes | httpx.RequestError | None:
        try:
            return next(self._chunks, None)
        except httpx.RequestError as error:
            return unsigned_error(error)

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open, self._chunks = None, iter(())
