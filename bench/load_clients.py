"""Concurrent load clients, each with a connection of its own. They never retry.

A client is a generator that yields requests and is sent their answers, so that a request may depend on them.
"""

import asyncio
import time
from collections.abc import Generator, Sequence
from typing import cast

from bench.connection import Answer, StepFailed, parse_answer

LoadClient = Generator[bytes, Answer, None]


def run_clients(port: int, clients: Sequence[LoadClient], *, timeout_sec: float) -> float:
    """Runs all clients to their end, and returns the seconds. Raises the exception of a client."""
    return asyncio.run(_run(port, clients, timeout_sec))


async def _run(port: int, clients: Sequence[LoadClient], timeout_sec: float) -> float:
    loop = asyncio.get_running_loop()
    ends = []
    async with asyncio.timeout(timeout_sec):
        protocols = [_Protocol(client, loop.create_future()) for client in clients]
        transports = []
        for protocol in protocols:
            transport, _ = await loop.create_connection(lambda protocol=protocol: protocol, "127.0.0.1", port)  # type: ignore[misc]
            transports.append(transport)
            ends.append(protocol.end)
        started = time.perf_counter()
        for protocol in protocols:
            protocol.begin()
        try:
            await asyncio.gather(*ends)
            return time.perf_counter() - started
        finally:
            for transport in transports:
                transport.close()


class _Protocol(asyncio.Protocol):
    """One connection; the next request is sent in the callback of the response."""

    def __init__(self, client: LoadClient, end: asyncio.Future[None]) -> None:
        self._client = client
        self._received = b""
        self.end = end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self) -> None:
        self._continue(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            answer = parse_answer(self._received)
        except (StepFailed, ValueError) as failure:
            self._finish(failure)
            return
        if answer is not None:
            self._received = b""
            self._continue(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(ConnectionError(f"the server closed a connection: {exc}"))

    def _continue(self, answer: Answer | None) -> None:
        try:
            # A generator is started by sending None, which its type does not allow.
            self._transport.write(self._client.send(cast(Answer, answer)))
        except StopIteration:
            self._finish(None)
        except Exception as failure:  # noqa: BLE001 — raised by `run_clients`
            self._finish(failure)

    def _finish(self, failure: Exception | None) -> None:
        if self.end.done():
            return
        if failure is None:
            self.end.set_result(None)
        else:
            self.end.set_exception(failure)
