"""A gateway behind a real socket, in a thread of the test's own process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.protocol.connection_limits import SOCKETS

START_SEC = 20.0


class _Server(uvicorn.Server):
    def __init__(self, config: NatsBackendConfig, listener: socket.socket) -> None:
        super().__init__(uvicorn.Config(create_app(config), log_config=None, access_log=False, **SOCKETS))
        self.ready = threading.Event()
        self._listener = listener

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    def serve_in_thread(self) -> None:
        self.run(sockets=[self._listener])


@contextmanager
def served(config: NatsBackendConfig) -> Iterator[str]:
    """Its address, for as long as the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Server(config, listener)
        thread = threading.Thread(target=server.serve_in_thread)
        thread.start()
        try:
            assert server.ready.wait(START_SEC)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_SEC)
