"""Real nats-servers for tests; it fakes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyoco_server.adapters.data_folder import DataFolder
from pyoco_server.adapters.nats_config import Sync
from pyoco_server.adapters.nats_server import EmbeddedNats


@asynccontextmanager
async def running_nats(path: Path, sync: Sync = "interval") -> AsyncIterator[EmbeddedNats]:
    """A nats-server on the data folder `path / "data"`; used again with the same path it finds what was stored."""
    with DataFolder.open(path / "data") as folder:
        nats = EmbeddedNats(folder, sync=sync)
        await nats.start()
        try:
            yield nats
        finally:
            await nats.stop()


def url_with_token(nats: EmbeddedNats) -> str:
    """An address that is enough to connect with: `nats.connect(url)`."""
    return nats.url.replace("nats://", f"nats://{nats.token}@")
