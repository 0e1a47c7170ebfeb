"""The shutdown signal reaches the gateway and uvicorn; other signal handlers stay unchanged."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest
import uvicorn

from pyoco_server.http_api.protocol.shutdown import on_shutdown_signal


class Server(uvicorn.Server):
    """A server that records the signal it receives."""

    received: int | None = None

    def handle_exit(self, sig: int, frame: object) -> None:
        self.received = sig


async def no_app(scope: object, receive: object, send: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    """A uvicorn server that handles SIGTERM, as while it serves."""
    before = signal.getsignal(signal.SIGTERM)
    server = Server(uvicorn.Config(no_app, log_config=None))
    signal.signal(signal.SIGTERM, server.handle_exit)
    yield server
    signal.signal(signal.SIGTERM, before)


async def test_a_signal_reaches_the_gateway_and_uvicorn(server: Server) -> None:
    stopping = asyncio.Event()

    with on_shutdown_signal(stopping.set):
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            await stopping.wait()

    assert server.received == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == server.handle_exit


async def test_a_foreign_handler_stays_unchanged(server: Server) -> None:
    theirs = signal.getsignal(signal.SIGINT)

    with on_shutdown_signal(lambda: None):
        assert signal.getsignal(signal.SIGINT) is theirs


async def test_a_handler_not_set_from_python_stays_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: None)

    with on_shutdown_signal(lambda: None):
        pass
