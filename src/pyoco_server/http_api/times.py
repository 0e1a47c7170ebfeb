"""Moments as text, the way the dialects with RFC 3339 write them; nothing here asks what time it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# Unix seconds of the first and the last second that has a year of four digits.
FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: float) -> str:
    """RFC 3339, UTC, to the millisecond; what no calendar has is its first or its last moment."""
    moment_at = _EPOCH + timedelta(seconds=max(FIRST, min(LAST, at)))
    return moment_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(at: float | None) -> str | None:
    """The same, where there may be none; what no calendar has is left out."""
    return rfc3339(at) if at is not None and FIRST <= at <= LAST else None
