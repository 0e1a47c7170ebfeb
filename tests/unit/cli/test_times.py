"""Times as people write them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pyoco_server.cli.times import parse_duration, parse_time

# 2026-11-19 12:00:00 UTC, 21:00 in Tokyo.
NOW = 1_795_089_600.0
DAY = 86_400


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h", NOW - 3600),
        ("90s", NOW - 90),
        ("2w", NOW - 14 * DAY),
        ("999999999w", 0.0),
        ("2026-11-19", NOW - 21 * 3600),
        ("today", NOW - 21 * 3600),
        ("Yesterday", NOW - 45 * 3600),
        ("2026-11-19T21:00", NOW),
        ("2026-11-19 21:00:00", NOW),
        ("2026-11-19T12:00:00Z", NOW),
        ("2026-11-19t12:00:00z", NOW),
        ("2026-11-19T07:00:00.5-05:00", NOW + 0.5),
        ("1795089600", NOW),
        ("1795089600.25", NOW + 0.25),
    ],
)
def test_a_time_without_a_zone_is_in_that_of_this_machine(text: str, expected: float) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "soon", "1", "1 h", "-1h", "1y", "2026-13-01", "2026-11-19T25:00", "nan", "１h"])
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is no time: write 1h"):
        parse_time(text, NOW)


def test_a_duration_has_a_unit() -> None:
    assert (parse_duration("90d"), parse_duration(" 30m "), parse_duration("30")) == (90 * DAY, 1800, None)
