"""Fixtures for every test that needs a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from pyoco_server.adapters.embedded_nats.server import EmbeddedNats
from support.nats import running_nats, url_with_token

# The machine may be busy: time says nothing about what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest_asyncio.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    """A nats-server of the test's own, with an empty store."""
    async with running_nats(tmp_path) as server:
        yield server


@pytest.fixture
def nats_url(nats_server: EmbeddedNats) -> str:
    """The address, token included, of a nats-server of the test's own."""
    return url_with_token(nats_server)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_nats_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address, token included, of one nats-server for all tests of a module, which share its streams."""
    async with running_nats(tmp_path_factory.mktemp("nats")) as server:
        yield url_with_token(server)
