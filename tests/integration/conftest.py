"""A broker and a gateway for all tests of a module that leave each other's executions alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.broker import Broker
from support.executions import Caller
from support.gateways import gateway_settings
from support.served import served
from support.shells import RunClient
from support.stand_in import StandIn, stand_in


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
def clean_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings and no locale from the environment of the tests."""
    for name in [name for name in os.environ if name.startswith(("PYOCO_", "LC_", "LANG"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunClient:
    """Runs a command of `pyoco-client`; returns its exit code."""
    return RunClient(monkeypatch, capsys)


@pytest.fixture
def server(answers: dict[str, Any], clean_client: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in for a gateway, with the `answers` of the test's module, at which PYOCO_SERVER points."""
    with stand_in(answers) as there:
        monkeypatch.setenv("PYOCO_SERVER", there.address)
        yield there
