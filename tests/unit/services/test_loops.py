"""What breaks a round of unasked work is told, and does not end the work."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.loops import log_and_continue


@pytest.mark.parametrize(
    ("trouble", "level"), [(BrokerUnavailable("away"), logging.INFO), (ZeroDivisionError(), logging.ERROR)]
)
def test_what_breaks_a_round_is_told_and_goes_no_further(
    trouble: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), log_and_continue("sweep"):
        raise trouble

    (told,) = caplog.records
    assert (told.levelno, told.__dict__["work"]) == (level, "sweep")


def test_a_cancel_ends_the_work() -> None:
    with pytest.raises(asyncio.CancelledError), log_and_continue("sweep"):
        raise asyncio.CancelledError
