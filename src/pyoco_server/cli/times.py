"""Times as people write them: `1h` ago, a date, ISO 8601; without a zone they are in the zone of this machine."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)
_UNIX_SEC = re.compile(r"[0-9]{9,11}(\.[0-9]{1,9})?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?", re.ASCII | re.IGNORECASE)
_DAYS_AGO = {"today": 0, "yesterday": 1}
FORMS = "1h (also s, m, d, w) ago, 2026-11-19, 2026-11-19T09:00:00+09:00, today or yesterday"


def parse_duration(text: str) -> int | None:
    """The seconds of a number with a unit, as in 90d; None for anything else."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * UNITS[found[2]] if found else None


def parse_time(text: str, now: float) -> float:
    """The unix seconds of a time; a duration is that long ago, a date its midnight. ValueError for anything else."""
    given = text.strip()
    ago_sec = parse_duration(given)
    if ago_sec is not None:
        return max(0.0, now - ago_sec)
    if _UNIX_SEC.fullmatch(given):
        return float(given)
    if given.lower() in _DAYS_AGO:
        # Without a zone until the end: a day is not always 24 hours long.
        day = datetime.fromtimestamp(now) - timedelta(days=_DAYS_AGO[given.lower()])  # noqa: DTZ006
        return day.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    if _DATE.fullmatch(given):
        try:
            return datetime.fromisoformat(given.upper()).timestamp()
        except (ValueError, OverflowError, OSError):
            pass
    raise ValueError(f"{given[:80]!r} is no time: write {FORMS}")
