"""Unix seconds as RFC 3339 text, and times as people write them as unix seconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from pyoco_server.domain.execution.as_of import AsOf, AsOfTime, AsOfVersion
from pyoco_server.errors import InvalidRequest

# The first and the last second with a year of four digits.
FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
MAX_VERSION = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
_WRITTEN = re.compile(rf"{_DATE}([T ]{_CLOCK})?", re.ASCII)
_NO_TIME = (
    "a time is unix seconds (1771416000.5), a date (2026-02-18, from its midnight) or RFC 3339 "
    "(2026-02-18T21:00:00+09:00); without an offset it is UTC"
)


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


def seconds_of(text: str) -> float:
    """The unix seconds of a time: a number, a date or RFC 3339; UTC without an offset. ValueError for anything else."""
    if _SECONDS.fullmatch(text):
        return float(text)
    # In a query an unescaped plus sign is a space.
    written = text.upper().replace(" ", "+") if "T" in text.upper() else text.upper()
    if not _WRITTEN.fullmatch(written):
        raise ValueError(_NO_TIME)
    try:
        at = datetime.fromisoformat(written)
        return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH).total_seconds()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such time; {_NO_TIME}") from error


def _validated(given: Any) -> float:
    try:
        return seconds_of(str(given))
    except ValueError as error:
        raise PydanticCustomError("time", "{reason}", {"reason": str(error)}) from error


def parse_as_of(text: str) -> AsOf:
    """The version or the time that a query names by `at`; `InvalidRequest` for anything else."""
    if not (text.isascii() and text.isdigit()):
        try:
            return AsOfTime(seconds_of(text))
        except ValueError as error:
            raise InvalidRequest(f"at: {error}; or a version, a number without a point") from error
    if len(text) > len(str(MAX_VERSION)) or not 1 <= int(text) <= MAX_VERSION:
        raise InvalidRequest(f"at: a version is a number from 1 to {MAX_VERSION}")
    return AsOfVersion(int(text))


_EXAMPLES = ["2026-02-18T12:00:00Z", "2026-02-18", "1771416000"]
QueryTime = Annotated[float, BeforeValidator(_validated), WithJsonSchema({"type": "string", "examples": _EXAMPLES})]
"""A time in a query, as unix seconds."""

QueryAsOf = Annotated[
    str | None,
    Field(
        max_length=64,
        description="As it was with the event of this version, or at this time: a date, RFC 3339, or unix seconds with "
        "a decimal point. Absent: as it is now.",
        examples=["41", *_EXAMPLES[:2]],
    ),
]
"""For `parse_as_of`."""
