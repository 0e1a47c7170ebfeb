"""Connections that each go a way of their own: what is sent next may depend on what was answered; it never retries.

A lane is a generator that yields requests and is sent their answers. It ends when it has done its share.
"""

import asyncio
import time
from collections.abc import Generator, Sequence
from typing import cast

from bench.connection import Answer

Lane = Generator[bytes, Answer, None]


def walk(port: int, lanes: Sequence[Lane], *, timeout_sec: float) -> float:
    """Has every lane walked to its end, all at once; the seconds that took. What a lane raises is raised here."""
    return asyncio.run(_walk(port, lanes, timeout_sec))


async def _walk(port: int, lanes: Sequence[Lane], timeout_sec: float) -> float:
    loop = asyncio.get_running_loop()
    ends = []
    async with asyncio.timeout(timeout_sec):
        walkers = [_Walker(lane, loop.create_future()) for lane in lanes]
        transports = []
        for walker in walkers:
            transport, _ = await loop.create_connection(lambda walker=walker: walker, "127.0.0.1", port)  # type: ignore[misc]
            transports.append(transport)
            ends.append(walker.end)
        started = time.perf_counter()
        for walker in walkers:
            walker.begin()
        try:
            await asyncio.gather(*ends)
            return time.perf_counter() - started
        finally:
            for transport in transports:
                transport.close()


class _Walker(asyncio.Protocol):
    """One connection; the next request leaves in the same callback in which the answer came."""

    def __init__(self, lane: Lane, end: asyncio.Future[None]) -> None:
        self._lane = lane
        self._received = b""
        self.end = end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self) -> None:
        self._go_on(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self._received.lower().find(b"content-length:", 0, end)
        length = int(self._received[at + 15 : self._received.index(b"\r\n", at)]) if at >= 0 else 0
        if len(self._received) < end + 4 + length:
            return
        answer = Answer(status=int(self._received[9:12]), body=self._received[end + 4 :])
        self._received = b""
        self._go_on(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(ConnectionError(f"the server closed a connection: {exc}"))

    def _go_on(self, answer: Answer | None) -> None:
        try:
            # The first of a generator is asked for with None, which its type cannot say.
            self._transport.write(self._lane.send(cast(Answer, answer)))
        except StopIteration:
            self._finish(None)
        except Exception as failure:  # noqa: BLE001 — whatever it is, whoever waits for the lanes is told
            self._finish(failure)

    def _finish(self, failure: Exception | None) -> None:
        if self.end.done():
            return
        if failure is None:
            self.end.set_result(None)
        else:
            self.end.set_exception(failure)
