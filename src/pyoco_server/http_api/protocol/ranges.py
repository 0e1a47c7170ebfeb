"""Ranges of bytes that a request asks for (RFC 9110, section 14): which one to send of so many bytes; sends nothing."""

from __future__ import annotations

import re
from typing import NamedTuple

from pyoco_server.errors import RangeNotSatisfiable

UNIT = "bytes"
# Nobody has a use for more, and of the digits of a longer one Python would make no number.
MAX_CHARS = 1000
_RANGE = re.compile(r"(?P<first>[0-9]+)-(?P<last>[0-9]*)|-(?P<suffix>[0-9]+)", re.ASCII)


class Span(NamedTuple):
    """The bytes from `start` up to `stop`, which is not one of them."""

    start: int
    stop: int

    def content_range(self, size: int) -> str:
        """As a header of the answer says it."""
        return f"{UNIT} {self.start}-{self.stop - 1}/{size}"


class _Asked(NamedTuple):
    """From `first` to `last` (None: to the end), or the last `suffix` bytes."""

    first: int = 0
    last: int | None = None
    suffix: int | None = None

    def of(self, size: int) -> Span | None:
        """What there is of it; None where that is nothing."""
        if self.suffix is not None:
            return Span(max(0, size - self.suffix), size) if self.suffix and size else None
        stop = size if self.last is None else min(self.last + 1, size)
        return Span(self.first, stop) if self.first < size else None


def is_asked(field: str | None) -> bool:
    """Whether a Range field asks for bytes at all: other units, and what is no range, are ignored."""
    return bool(_parsed(field))


def chosen(field: str | None, size: int) -> Span | None:
    """The one range to answer with; None for the whole; `RangeNotSatisfiable` where nothing of what is asked is there.

    Several ranges are answered with the whole, as RFC 9110 allows: an answer in parts, each with a head of its own,
    helps nobody who reads a log.
    """
    asked = _parsed(field)
    found = [span for span in (one.of(size) for one in asked) if span is not None]
    # Of nothing at all the last bytes are there too, but no Content-Range can say so.
    if found or not asked or (size == 0 and any(one.suffix for one in asked)):
        return found[0] if len(found) == 1 else None
    raise RangeNotSatisfiable(f"there are {size} bytes; none of them is in the range", size_bytes=size)


def _parsed(field: str | None) -> list[_Asked]:
    """The ranges of a field; none where it is to be ignored."""
    unit, equals, ranges = (field or "").strip(" \t").partition("=")
    if not equals or unit.lower() != UNIT or len(ranges) > MAX_CHARS:
        return []
    asked = []
    for part in ranges.split(","):
        text = part.strip(" \t")
        if not text:
            continue  # an element that is empty counts for nothing, in any list
        found = _RANGE.fullmatch(text)
        if found is None:
            return []
        one = _numbers(found)
        if one.last is not None and one.last < one.first:
            return []
        asked.append(one)
    return asked


def _numbers(found: re.Match[str]) -> _Asked:
    if found["suffix"]:
        return _Asked(suffix=int(found["suffix"]))
    return _Asked(first=int(found["first"]), last=int(found["last"]) if found["last"] else None)
