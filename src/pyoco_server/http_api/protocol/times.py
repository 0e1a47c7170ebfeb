"""Unix seconds as RFC 3339 text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

# The first and the last second with a year of four digits.
FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: float) -> str:
    """RFC 3339, UTC, in milliseconds; times out of range become the first or the last one."""
    second, microseconds = divmod(round(max(FIRST, min(LAST, at)) * 1_000_000), 1_000_000)
    return f"{_to_the_second(second)}.{microseconds // 1000:03}Z"


def moment(at: float | None) -> str | None:
    """The same for an optional time; None when it is out of range."""
    return rfc3339(at) if at is not None and FIRST <= at <= LAST else None


# Log lines share their seconds, and the calendar is most of the cost.
@lru_cache(maxsize=1024)
def _to_the_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat(timespec="seconds").removesuffix("+00:00")
