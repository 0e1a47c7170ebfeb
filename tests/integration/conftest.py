"""Brokers, gateways and workers: shared by the tests of a module that leave each other's executions alone, or fresh."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.executions import Caller
from support.gateways import gateway_settings, serving
from support.served import served
from support.shells import RunClient
from support.streams import Gateway, listening
from support.workers import Working, at_work


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def shared_address(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway behind a real socket. Its lists wait for what it wrote itself: a busy machine is not a broken one."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyoco_server.services.projections.lists.OWN_WRITE_WAIT_SEC", 10.0)
        with served(gateway_settings(shared_broker.url, folder)) as found:
            yield found


@pytest.fixture(scope="module")
def caller(shared_address: str) -> Iterator[Caller]:
    """Somebody who speaks with it."""
    with httpx.Client(base_url=shared_address, timeout=60.0) as http:
        yield Caller(http)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as running:
        yield running


@pytest.fixture
def config(broker: Broker, tmp_path: Path) -> NatsBackendConfig:
    return gateway_settings(broker.url, tmp_path, run_heartbeat_interval_sec=0.05)


@pytest_asyncio.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Gateway]:
    """A gateway behind a real socket, as streams need it."""
    async with listening(config) as listens:
        yield listens


@pytest_asyncio.fixture
async def client(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway without a socket."""
    async with serving(config) as opened:
        yield opened


@pytest_asyncio.fixture
async def stores(config: NatsBackendConfig) -> AsyncIterator[Stores]:
    async with open_stores(config, name="test") as opened:
        yield opened


@pytest_asyncio.fixture
async def worker(stores: Stores, config: NatsBackendConfig) -> AsyncIterator[Working]:
    async with at_work(stores, config, patience_sec=60.0) as working:
        yield working


@pytest.fixture
def clean_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings and no locale from the environment of the tests."""
    for name in [name for name in os.environ if name.startswith(("PYOCO_", "LC_", "LANG"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunClient:
    """Runs a command of `pyoco-client`; returns its exit code."""
    return RunClient(monkeypatch, capsys)
