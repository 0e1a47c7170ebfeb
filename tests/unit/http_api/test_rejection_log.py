"""Throttling of warnings: a limit per window, and the number of omitted ones."""

from __future__ import annotations

import logging

import pytest

from pyoco_server.http_api.middleware.rejection_log import MAX_LINES, WINDOW_SEC, LimitWarnings
from pyoco_server.http_api.protocol.connection_limits import BoundedHttp
from support.clocks import ManualClock


def line(level: int = logging.WARNING) -> logging.LogRecord:
    return logging.makeLogRecord({"levelno": level, "msg": "Invalid HTTP request received."})


def test_warnings_beyond_the_limit_are_omitted_and_counted() -> None:
    clock = ManualClock()
    few = LimitWarnings(clock)

    passed = [few.filter(line()) for _ in range(MAX_LINES + 5)]

    assert passed == [True] * MAX_LINES + [False] * 5
    clock.pass_time(WINDOW_SEC)
    next_one = line()
    assert few.filter(next_one)
    assert next_one.__dict__["left_out"] == 5


def test_errors_are_never_omitted() -> None:
    few = LimitWarnings(ManualClock())

    assert all(few.filter(line(logging.ERROR)) for _ in range(2 * MAX_LINES))


def test_errors_that_peers_cause_are_throttled() -> None:
    few = LimitWarnings(ManualClock(), up_to=logging.ERROR)

    assert sum(bool(few.filter(line(logging.ERROR))) for _ in range(2 * MAX_LINES)) == MAX_LINES


@pytest.mark.parametrize("name", [BoundedHttp.__module__, f"{BoundedHttp.__module__}.peers"])
def test_log_lines_of_bad_requests_are_throttled(name: str) -> None:
    assert any(isinstance(one, LimitWarnings) for one in logging.getLogger(name).filters)
