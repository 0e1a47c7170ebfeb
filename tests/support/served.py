"""A gateway on a real socket, in a thread of the test process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

from pyoco_server.config import NatsBackendConfig
from support.streams import listening


@contextmanager
def served(config: NatsBackendConfig) -> Iterator[str]:
    """Its address, for the duration of the block."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(listening(config)) as gateway:
        yield f"http://127.0.0.1:{gateway.port}"
