"""A failed run of background work is logged and does not end the work."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.loops import log_and_continue


@pytest.mark.parametrize(
    ("trouble", "level"), [(BrokerUnavailable("offline"), logging.INFO), (ZeroDivisionError(), logging.ERROR)]
)
def test_a_failure_is_logged_and_not_raised(trouble: Exception, level: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), log_and_continue("sweep"):
        raise trouble

    (record,) = caplog.records
    assert (record.levelno, record.__dict__["work"]) == (level, "sweep")


def test_a_cancel_is_raised() -> None:
    with pytest.raises(asyncio.CancelledError), log_and_continue("sweep"):
        raise asyncio.CancelledError
