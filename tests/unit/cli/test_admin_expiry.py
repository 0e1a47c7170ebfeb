"""The lifetime of an API key on the command line."""

from __future__ import annotations

import pytest

from pyoco_server.cli.admin import as_utc, expiry
from pyoco_server.errors import InvalidUsage


@pytest.mark.parametrize(
    ("lifetime", "seconds"), [("30s", 30), ("5m", 300), ("12h", 43_200), (" 90d ", 7_776_000), ("52w", 31_449_600)]
)
def test_a_lifetime_begins_now(lifetime: str, seconds: int) -> None:
    assert expiry(lifetime, None, 1000.0) == 1000.0 + seconds


@pytest.mark.parametrize("lifetime", ["", "90", "d", "0d", "-1d", "1.5h", "90 days", "9999999w", "９d", "1d\n1d"])
def test_an_invalid_lifetime_is_refused_with_an_example(lifetime: str) -> None:
    with pytest.raises(InvalidUsage, match="--expires-in 90d"):
        expiry(lifetime, None, 1000.0)


@pytest.mark.parametrize(
    "end", ["2030-01-31", "2030-01-31T00:00:00Z", "2030-01-31T00:00:00", "2030-01-31T09:00:00+09:00"]
)
def test_an_end_without_an_offset_is_in_utc(end: str) -> None:
    at = expiry(None, end, 1000.0)

    assert as_utc(at) == "2030-01-31T00:00:00Z"


@pytest.mark.parametrize("end", ["", "tomorrow", "31.01.2030", "2030-13-01", "99999-01-01"])
def test_an_invalid_time_is_refused_with_an_example(end: str) -> None:
    with pytest.raises(InvalidUsage, match="--expires-at 2030-01-31"):
        expiry(None, end, 1000.0)


def test_lifetime_and_end_are_exclusive_and_the_default_never_expires() -> None:
    with pytest.raises(InvalidUsage, match="exclude"):
        expiry("1d", "2030-01-31", 1000.0)
    assert expiry(None, None, 1000.0) is None
    assert as_utc(None) == "-"
