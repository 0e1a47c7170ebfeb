"""Times as people type and read them on a command line; reads no clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pyoco_server.errors import InvalidUsage

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LIFETIME = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)
_HUNDRED_YEARS_SEC = 100 * 365 * 86400


def expiry(lifetime: str | None, end: str | None, now: float) -> float | None:
    """When something ends, from its lifetime or its end; None when neither was given."""
    if lifetime is not None and end is not None:
        raise InvalidUsage("--expires-in and --expires-at exclude each other")
    if lifetime is not None:
        return now + _seconds(lifetime)
    return None if end is None else _instant(end)


def as_utc(at: float | None) -> str:
    """To the second, in UTC; a dash for never."""
    return "-" if at is None else datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(lifetime: str) -> int:
    found = _LIFETIME.fullmatch(lifetime.strip())
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _HUNDRED_YEARS_SEC:
        raise InvalidUsage("--expires-in is a number and a unit, s m h d w (for example: --expires-in 90d)")
    return seconds


def _instant(end: str) -> float:
    try:
        at = datetime.fromisoformat(end.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        example = "--expires-at 2030-01-31 or --expires-at 2030-01-31T12:00:00Z"
        raise InvalidUsage(f"--expires-at is a date or a time in UTC (for example: {example})") from None
