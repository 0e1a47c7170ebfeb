"""Lists by page: the page, the sort field and filters with several values joined by commas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from pydantic import Field
from pydantic_core import PydanticCustomError

from pyoco_server.http_api.protocol.fields import Strict

E = TypeVar("E", bound=Enum)

# So many rows no list has; a greater number would not fit into the integers of a database.
MAX_PAGE = 10**9
MAX_VALUES = 20
MAX_VALUE_CHARS = 128
MAX_CSV_CHARS = 2_000


class PageQuery(Strict):
    """Which page of a list; a page behind the last one is empty."""

    page: int = Field(default=1, ge=1, le=MAX_PAGE)
    page_size: int = Field(default=50, ge=10, le=100)

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.page_size

    def page_of(self, items: Sequence[Any], total: int) -> Mapping[str, Any]:
        """The body of a page; `total` counts all that match."""
        return {"items": items, "page": self.page, "page_size": self.page_size, "total": total}


def csv_of(text: str) -> tuple[str, ...]:
    """The values of a filter, joined by commas; spaces around them do not count, and none is empty or there twice."""
    values = tuple(dict.fromkeys(value.strip() for value in text.split(",")))
    if text and ("" in values or len(values) > MAX_VALUES or any(len(value) > MAX_VALUE_CHARS for value in values)):
        raise PydanticCustomError(
            "csv",
            "1 to {values} values joined by commas, each of 1 to {chars} characters",
            {"values": MAX_VALUES, "chars": MAX_VALUE_CHARS},
        )
    return values if text else ()


def csv_among(kind: type[E]) -> Callable[[str], str]:
    """A check of a filter: its values are among those of the enumeration."""

    def check(text: str) -> str:
        known = [str(each.value) for each in kind]
        for value in csv_of(text):
            _check_known(value, known)
        return text

    return check


def check_csv(text: str) -> str:
    csv_of(text)
    return text


def sort_by(kind: type[E]) -> Callable[[str], str]:
    """A check of `field.direction`: a field of the enumeration, and `asc` or `desc`."""

    def check(text: str) -> str:
        _check_known(text, sort_words(kind))
        return text

    return check


def sort_words(kind: type[Enum]) -> list[str]:
    return [f"{each.value}.{direction}" for each in kind for direction in ("asc", "desc")]


def sort_of(kind: type[E], text: str) -> tuple[E, bool]:
    """The field of a checked sort, and whether it descends."""
    field, _, direction = text.rpartition(".")
    return kind(field), direction == "desc"


def _check_known(value: str, known: Collection[str]) -> None:
    if value not in known:
        raise PydanticCustomError("choice", "known values are {values}", {"values": ", ".join(known)})
