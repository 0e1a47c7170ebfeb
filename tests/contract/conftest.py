"""Every port in two implementations: in memory, and on a real nats-server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from pyoco_server.ports import KeyValue, SubjectLog
from pyoco_server.testing.broker import MemoryKeyValue, MemorySubjectLog
from support.broker import Broker
from support.stores import Ports, memory_ports, opened_ports


@dataclass(frozen=True, slots=True)
class Opened:
    ports: Ports
    bucket: KeyValue
    log: SubjectLog


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    if request.param == "memory":
        yield Opened(memory_ports(), MemoryKeyValue(), MemorySubjectLog())
        return
    with Broker(tmp_path) as broker:
        async with opened_ports(broker.url) as ports:
            yield Opened(ports, ports.graphs._bucket, ports.events._log)


@pytest.fixture
def ports(opened: Opened) -> Ports:
    return opened.ports


@pytest.fixture
def bucket(opened: Opened) -> KeyValue:
    return opened.bucket


@pytest.fixture
def log(opened: Opened) -> SubjectLog:
    return opened.log
