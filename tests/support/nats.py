"""Real nats-servers for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
from nats.aio.client import Client

from pyoco_server.adapters.embedded_nats.data_folder import ConnectionInfo, DataFolder
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats, Sync


@asynccontextmanager
async def running_nats(
    path: Path, sync: Sync = "interval", *, ping_every_sec: float = 3.0
) -> AsyncIterator[EmbeddedNats]:
    """A nats-server on the data folder `path / "data"`, which keeps its data between uses."""
    with DataFolder.open(path / "data") as folder:
        server = EmbeddedNats(folder, sync=sync, ping_every_sec=ping_every_sec)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


@asynccontextmanager
async def watched(server: EmbeddedNats) -> AsyncIterator[None]:
    """Restarts the server whenever it dies, within the block."""
    watching = asyncio.create_task(server.watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@asynccontextmanager
async def connected(server: EmbeddedNats | ConnectionInfo) -> AsyncIterator[Client]:
    """A client that fails at the first error."""
    client = await nats.connect(server.url, token=server.token, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


def url_with_token(server: EmbeddedNats) -> str:
    """An address with credentials: `nats.connect(url)`."""
    return server.url.replace("nats://", f"nats://{server.token}@")
