"""Every port twice: in memory, and on a real nats-server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.broker import Broker
from support.stores import Ports, memory_ports, opened_ports


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def ports(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ports]:
    if request.param == "memory":
        yield memory_ports()
        return
    with Broker(tmp_path) as broker:
        async with opened_ports(broker.url) as opened:
            yield opened
