"""Formatting of timestamps."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_api.protocol.times import FIRST, LAST, moment, rfc3339


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1771416000, "2026-02-18T12:00:00.000Z"),
        (1771416000.123, "2026-02-18T12:00:00.123Z"),
        (1771416000.9996, "2026-02-18T12:00:00.999Z"),
        (-0.5, "1969-12-31T23:59:59.500Z"),
        (FIRST, "0001-01-01T00:00:00.000Z"),
        (LAST, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_time_is_in_utc_with_milliseconds(at: float, text: str) -> None:
    assert rfc3339(at) == text
    assert moment(at) == text


@given(st.floats(allow_nan=True, allow_infinity=True) | st.integers())
def test_any_clock_value_gives_a_valid_date(at: float) -> None:
    read = datetime.fromisoformat(rfc3339(at))

    assert read.tzinfo == UTC
    if FIRST <= at <= LAST:
        assert math.isclose(read.timestamp(), at, abs_tol=0.0011)


@pytest.mark.parametrize("at", [None, math.inf, -math.inf, math.nan, 1e300, 10**40, FIRST - 1])
def test_a_time_outside_of_the_calendar_is_none(at: float | None) -> None:
    assert moment(at) is None
