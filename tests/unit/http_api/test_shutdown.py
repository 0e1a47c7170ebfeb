"""Hearing that uvicorn is told to stop: its handler is called too and put back, everybody else's is left alone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest
import uvicorn

from pyoco_server.http_api.protocol.shutdown import on_shutdown_signal


class Server(uvicorn.Server):
    """A server that was told to stop, or was not."""

    told: int | None = None

    def handle_exit(self, sig: int, frame: object) -> None:
        self.told = sig


async def nobody(scope: object, receive: object, send: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    """A uvicorn that has taken SIGTERM, as it does while it serves."""
    before = signal.getsignal(signal.SIGTERM)
    server = Server(uvicorn.Config(nobody, log_config=None))
    signal.signal(signal.SIGTERM, server.handle_exit)
    yield server
    signal.signal(signal.SIGTERM, before)


async def test_a_signal_is_told_to_us_and_to_uvicorn(server: Server) -> None:
    stopping = asyncio.Event()

    with on_shutdown_signal(stopping.set):
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            await stopping.wait()

    assert server.told == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == server.handle_exit


async def test_a_handler_of_somebody_else_stays_as_it_is(server: Server) -> None:
    theirs = signal.getsignal(signal.SIGINT)

    with on_shutdown_signal(lambda: None):
        assert signal.getsignal(signal.SIGINT) is theirs


async def test_a_handler_that_was_not_set_from_python_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: None)

    with on_shutdown_signal(lambda: None):
        pass
