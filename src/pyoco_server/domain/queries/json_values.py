"""Values of stored snapshots, which may hold anything: a value of the wrong type counts as missing."""

from __future__ import annotations

from typing import Any

_MAX_INTEGER = 2**63 - 1  # the largest integer of SQLite; JSON may hold more


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def number(value: Any) -> float | int | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def integer(value: Any) -> int:
    """A count; 0 if it is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INTEGER else 0
