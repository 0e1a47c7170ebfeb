# Generated from _async/transport.py by scripts/unasync. Do not edit.
"""Sends requests with retries, opens streams and walks pages."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from pyoco_server.http_client import answers
from pyoco_server.http_client.answers import FAILURES
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.errors import PyocoClientError
from pyoco_server.http_client.httpx_adapter import client_options, request_options, without_credentials
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.requests import Request
from pyoco_server.http_client.retrying import Retry

T = TypeVar("T")


class Transport:
    """A pool of connections to one gateway. Can be shared between threads."""

    def __init__(self, connection: Connection, transport: httpx.BaseTransport | None) -> None:
        self.connection = connection
        self.sleep: Callable[[float], None] = connection.timing.sleep
        options = client_options(connection, over_network=transport is None)
        self._client = httpx.Client(transport=transport, **options)

    def close(self) -> None:
        self._client.close()

    def send(self, request: Request[T], retry: Retry | None = None, *, silence_sec: float | None = None) -> T:
        """The result of a request, after as many attempts as `retry` allows."""
        if retry is None:
            retry = Retry(self.connection, hold_sec=request.hold_sec or 0.0, may_be_done=request.partly_done)
        while True:
            try:
                return answers.result(request, self.exchange(request, silence_sec))
            except FAILURES as failure:
                pause_sec = retry.pause_sec(failure, request)
            self.sleep(pause_sec)

    def exchange(self, request: Request[Any], silence_sec: float | None = None) -> httpx.Response:
        """One attempt: a successful answer with its whole body. Raises one of FAILURES."""
        with self.open(request, silence_sec) as response:
            return self._read_whole(response)

    @contextmanager
    def open(self, request: Request[Any], silence_sec: float | None = None) -> Generator[httpx.Response, None, None]:
        """One attempt: a successful answer whose body is not read yet. Raises one of FAILURES."""
        outgoing = self._client.build_request(**request_options(request, self.connection, silence_sec))
        try:
            with closing(self._client.send(outgoing, stream=True)) as response:
                response.request = without_credentials(response.request)
                if not response.is_success:
                    raise answers.error_of(self._read_whole(response), self.connection.timing.now())
                yield response
        except httpx.RequestError as error:
            error.request = without_credentials(error.request)
            raise

    def pages(
        self, first: Request[Any], token_name: str, next_name: str, items_name: str = "items"
    ) -> Generator[Any, None, None]:
        """The items of all pages. `token_name` is the query parameter that asks for the page `next_name`."""
        request, token = first, ""
        while True:
            page = self.send(request)
            yield from page[items_name]
            following = page.get(next_name)
            if not following:
                return
            if following == token:
                raise PyocoClientError("the gateway gave the same cursor twice; its list has no end")
            token = following
            query = tuple((name, value) for name, value in first.query if name != token_name)
            request = replace(first, query=(*query, (token_name, token)))

    def _read_whole(self, response: httpx.Response) -> httpx.Response:
        """The answer with its body. The timeout of httpx is per piece; this one is for the whole body."""
        monotonic = self.connection.timing.monotonic
        deadline, body = monotonic() + self.connection.timeout_sec, bytearray()
        for piece in response.iter_raw():
            body += piece
            if monotonic() > deadline:
                raise httpx.ReadTimeout("the answer comes too slowly", request=response.request)
        options: dict[str, Any] = {"request": response.request, "extensions": response.extensions}
        return httpx.Response(response.status_code, headers=response.headers, content=bytes(body), **options)
