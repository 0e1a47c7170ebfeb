"""Moments as text, the way the dialects with RFC 3339 write them; nothing here asks what time it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

# Unix seconds of the first and the last second that has a year of four digits.
FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: float) -> str:
    """RFC 3339, UTC, to the millisecond; what no calendar has is its first or its last moment."""
    second, microseconds = divmod(round(max(FIRST, min(LAST, at)) * 1_000_000), 1_000_000)
    return f"{_to_the_second(second)}.{microseconds // 1000:03}Z"


def moment(at: float | None) -> str | None:
    """The same, where there may be none; what no calendar has is left out."""
    return rfc3339(at) if at is not None and FIRST <= at <= LAST else None


# The lines of a log have many a second in common, and the calendar is most of what a moment costs.
@lru_cache(maxsize=1024)
def _to_the_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat(timespec="seconds").removesuffix("+00:00")
