"""Formatting of timestamps, and reading of times that people write."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.as_of import AsOf, AsOfTime, AsOfVersion
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.protocol.times import FIRST, LAST, MAX_VERSION, moment, parse_as_of, rfc3339, seconds_of


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


NOON = 1771416000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1771416000", NOON),
        ("1771416000.25", NOON + 0.25),
        ("-1.5", -1.5),
        ("2026-02-18", NOON - 43_200),
        ("2026-02-18T12:00:00Z", NOON),
        ("2026-02-18t12:00:00z", NOON),
        ("2026-02-18T12:00:00", NOON),
        ("2026-02-18 12:00:00", NOON),
        ("2026-02-18 12:00Z", NOON),
        ("2026-02-18T12:00", NOON),
        ("2026-02-18T21:00:00+09:00", NOON),
        ("2026-02-18T21:00:00 09:00", NOON),  # a plus sign that was not escaped
        ("2026-02-18T07:00:00.5-0500", NOON + 0.5),
        ("0001-01-01", FIRST),
        ("9999-12-31T23:59:59Z", LAST),
    ],
)
def test_a_written_time_has_its_seconds_and_is_utc_without_an_offset(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "now",
            "1h",
            "nan",
            "inf",
            "1e9",
            "1_0",
            " 1",
            "9" * 400,
            "\uff11\uff12",
            "12:00",
            "2026-2-18",
            "2026-W08-3",
        ),
        *(
            "2026-02-30",
            "2026-02-18T25:00",
            "20260218T120000",
            "2026-02-18T12:00:00+99:99",
            "2026-02-18T12:00:00 +09:00",
        ),
    ],
)
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="a time is unix seconds"):
        seconds_of(text)


@given(st.floats(FIRST, LAST))
def test_a_written_time_is_read_back(at: float) -> None:
    assert math.isclose(seconds_of(rfc3339(at)), at, abs_tol=0.0011)


@pytest.mark.parametrize(
    ("text", "as_of"),
    [
        ("1", AsOfVersion(1)),
        (str(MAX_VERSION), AsOfVersion(MAX_VERSION)),
        ("1771416000.0", AsOfTime(NOON)),
        ("2026-02-18T12:00:00Z", AsOfTime(NOON)),
    ],
)
def test_a_number_without_a_point_is_a_version_and_anything_else_a_time(text: str, as_of: AsOf) -> None:
    assert parse_as_of(text) == as_of


@pytest.mark.parametrize("text", ["", "0", str(MAX_VERSION + 1), "9" * 60, "x", "-1x", "\u0661"])
def test_anything_else_is_neither_a_version_nor_a_time(text: str) -> None:
    with pytest.raises(InvalidRequest, match="at: "):
        parse_as_of(text)
