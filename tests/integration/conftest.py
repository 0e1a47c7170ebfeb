"""A broker and a gateway per test, or shared by the tests of a module that do not affect each other.

`@pytest.mark.settings(name=value, …)` on a test or a module changes the settings of `config`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.conformance import new_violations
from support.executions import Caller
from support.gateways import gateway_settings, serving
from support.served import served
from support.shells import RunClient
from support.stand_in import StandIn, stand_in
from support.streams import Gateway, listening
from support.workers import Working, at_work


@pytest.fixture(autouse=True)
def _responses_conform() -> Iterator[None]:
    """Fails a test during which a gateway of this process has answered otherwise than its OpenAPI document says."""
    yield
    assert new_violations() == []


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A nats-server that the test may kill, pause and restart."""
    with Broker(tmp_path) as running:
        yield running


@pytest.fixture
def config(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> NatsBackendConfig:
    """The settings of a gateway at `broker`."""
    changed = request.node.get_closest_marker("settings")
    return gateway_settings(broker.url, tmp_path, **(changed.kwargs if changed else {}))


@pytest.fixture
async def client(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway without a socket."""
    async with serving(config) as opened:
        yield opened


@pytest.fixture
async def gateway(config: NatsBackendConfig) -> AsyncIterator[Gateway]:
    """A gateway on a real socket, as streams require."""
    async with listening(config) as opened:
        yield opened


@pytest.fixture
async def stores(config: NatsBackendConfig) -> AsyncIterator[Stores]:
    """The stores on a connection of their own, as those of a worker."""
    async with open_stores(config, name="test") as opened:
        yield opened


@pytest.fixture
async def worker(stores: Stores, config: NatsBackendConfig) -> AsyncIterator[Working]:
    """A worker whose runners the test controls."""
    async with at_work(stores, config, patience_sec=60.0) as working:
        yield working


@pytest.fixture
async def connection(config: NatsBackendConfig) -> AsyncIterator[Connection]:
    async with await Connection.open(config) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def shared_address(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway on a real socket. Its lists wait long for its own writes, because the machine may be busy."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyoco_server.services.projections.lists.OWN_WRITE_WAIT_SEC", 10.0)
        with served(gateway_settings(shared_broker.url, folder)) as found:
            yield found


@pytest.fixture(scope="module")
def caller(shared_address: str) -> Iterator[Caller]:
    """A caller of that gateway."""
    with httpx.Client(base_url=shared_address, timeout=60.0) as http:
        yield Caller(http)


@pytest.fixture
def clean_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings and no locale from the environment of the tests."""
    for name in [name for name in os.environ if name.startswith(("PYOCO_", "LC_", "LANG"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunClient:
    """Runs a command of `pyoco-client`; returns its exit code."""
    return RunClient(monkeypatch, capsys)


@pytest.fixture
def server(responses: dict[str, Any], clean_client: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in for a gateway, with the `responses` of the test module, at the address in PYOCO_SERVER."""
    with stand_in(responses) as there:
        monkeypatch.setenv("PYOCO_SERVER", there.address)
        yield there
