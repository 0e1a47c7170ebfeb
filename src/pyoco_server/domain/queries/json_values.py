"""Values of a stored snapshot, which may hold anything: what is not of the wanted type is as good as missing."""

from __future__ import annotations

from typing import Any

_MAX_INTEGER = 2**63 - 1  # what SQLite stores; JSON may hold more
_NO_CLOCK_SAYS = 1e18


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def number(value: Any) -> float | int | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def integer(value: Any) -> int:
    """A count; 0 when it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INTEGER else 0


def moment(value: Any) -> float | None:
    """A time that can be compared and stored, which infinities and NaN cannot."""
    found = number(value)
    return float(found) if found is not None and -_NO_CLOCK_SAYS < found < _NO_CLOCK_SAYS else None
