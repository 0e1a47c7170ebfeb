"""`pyoco-worker` without a broker."""

from __future__ import annotations

import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.cli.process import StopRequest
from pyoco_server.cli.worker import _work
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import BrokerUnavailable


async def test_a_worker_that_cannot_connect_at_its_start_logs_the_error_and_its_cause(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Connection.open.__func__.__kwdefaults__, "timeout_sec", 0.1)  # type: ignore[attr-defined]
    config = NatsBackendConfig(nats_url="nats://127.0.0.1:1")

    with pytest.raises(BrokerUnavailable):
        await _work(StopRequest(), config, WorkerId("w-1"), ["default"], 1, None)

    (record,) = [record for record in caplog.records if record.getMessage() == "cannot reach the broker"]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], BrokerUnavailable)  # its ids are in the log line
