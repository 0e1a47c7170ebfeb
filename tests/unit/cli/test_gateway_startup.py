"""A gateway that cannot start logs why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import BrokerRefused, BrokerUnavailable
from pyoco_server.http_api import create_app
from pyoco_server.logs import JsonLines


@asynccontextmanager
async def no_broker(config: NatsBackendConfig, *, recorder: object) -> AsyncIterator[None]:
    raise BrokerUnavailable("no servers available")
    yield


async def test_a_gateway_without_nats_logs_the_exception_in_its_own_fields(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyoco_server.http_api.app.open_gateway", no_broker)
    config = NatsBackendConfig()
    app = create_app(config)

    with pytest.raises(BrokerUnavailable):
        async with app.router.lifespan_context(app):
            pass

    (record,) = [one for one in caplog.records if one.message == "gateway startup failed"]
    line = json.loads(JsonLines("pyoco-server:http", config).format(record))
    assert (line["level"], line["err_id"]) == ("ERROR", "ERR-PYOCO-0003")
    assert (line["exc_type"], line["exc_message"]) == ("BrokerUnavailable", "no servers available")
    assert "Traceback" in line["exc_traceback"]
    assert "in no_broker" in line["exc_origin"]


async def test_a_gateway_that_is_stopped_while_it_connects_logs_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connecting = asyncio.Event()

    @asynccontextmanager
    async def unreachable(config: NatsBackendConfig, *, recorder: object) -> AsyncIterator[None]:
        connecting.set()
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr("pyoco_server.http_api.app.open_gateway", unreachable)
    server = uvicorn.Server(uvicorn.Config(create_app(NatsBackendConfig()), port=0, log_config=None, lifespan="on"))
    serving = asyncio.create_task(server.serve())
    await connecting.wait()

    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait([serving])

    assert "Traceback" not in caplog.text


@asynccontextmanager
async def refused(config: NatsBackendConfig, *, recorder: object) -> AsyncIterator[None]:
    raise BrokerRefused("PYOCO_NATS_REPLICAS is 3, but nats is 1 server and no cluster")
    yield


async def test_a_refusal_that_says_what_to_change_is_logged_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyoco_server.http_api.app.open_gateway", refused)
    config = NatsBackendConfig()
    server = uvicorn.Server(uvicorn.Config(create_app(config), port=0, log_config=None, lifespan="on"))

    with pytest.raises(SystemExit):
        await server.serve()

    (record,) = [one for one in caplog.records if one.message == "gateway startup failed"]
    line = json.loads(JsonLines("pyoco-server:http", config).format(record))
    assert (line["err_id"], line["detail"]) == (
        "ERR-PYOCO-0090",
        "PYOCO_NATS_REPLICAS is 3, but nats is 1 server and no cluster",
    )
    assert "Traceback" not in caplog.text
