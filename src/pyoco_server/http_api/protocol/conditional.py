"""ETags, If-None-Match, If-Range and Range (RFC 9110, sections 13 and 14); answers nothing by itself.

There are no dates: RFC 9110 ignores conditions on dates where a resource has none. If-Match is ignored too: logs are
read only.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

import orjson

from pyoco_server.errors import RangeNotSatisfiable

UNIT = "bytes"
_TAG_BYTES = 12
# A cache with hundreds of versions; comparing more would cost more than the answer.
MAX_LIST_CHARS = 8 * 1024
# More ranges have no use, and Python refuses to convert longer digits.
MAX_RANGE_CHARS = 1000
# A tag may contain commas: splitting cannot separate a list of them.
_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_TAGS = re.compile(rf"[, \t]*{_TAG}(?:[ \t]*,[, \t]*{_TAG})*[, \t]*")
_RANGE = re.compile(r"(?P<first>[0-9]+)-(?P<last>[0-9]*)|-(?P<suffix>[0-9]+)", re.ASCII)


def strong_tag(*facts: str | int | bool | None) -> str:
    """The same tag for the same facts, at every gateway and after every restart."""
    digest = blake2b(orjson.dumps(facts), digest_size=_TAG_BYTES).digest()
    return f'"{urlsafe_b64encode(digest).decode()}"'


def is_known(if_none_match: str | None, tag: str) -> bool:
    """Whether If-None-Match names this tag, by weak comparison; False for a malformed or endless list."""
    field = (if_none_match or "").strip(" \t")
    if field == "*":
        return True
    if len(field) > MAX_LIST_CHARS or tag not in field or not _TAGS.fullmatch(field):
        return False
    return tag in [one.removeprefix("W/") for one in re.findall(_TAG, field)]


def may_be_partial(if_range: str | None, tag: str) -> bool:
    """Whether If-Range allows a partial answer: the same strong tag; a date never does."""
    return if_range is None or if_range.strip(" \t") == tag


class Span(NamedTuple):
    """The bytes from `start` up to, and without, `stop`."""

    start: int
    stop: int

    def content_range(self, size: int) -> str:
        return f"{UNIT} {self.start}-{self.stop - 1}/{size}"


def is_range(field: str | None) -> bool:
    """Whether a Range header asks for bytes; other units and malformed ranges are ignored."""
    return bool(_ranges(field))


def choose_range(field: str | None, size: int) -> Span | None:
    """The range to answer with, None for the whole; `RangeNotSatisfiable` when no requested byte exists.

    Several ranges are answered with the whole, as RFC 9110 allows: readers of logs have no use for multipart answers.
    """
    asked = _ranges(field)
    found = [span for span in (_span(one, size) for one in asked) if span is not None]
    # The last bytes of nothing are satisfiable too, but no Content-Range can express them.
    if found or not asked or (size == 0 and any(one["suffix"] and int(one["suffix"]) for one in asked)):
        return found[0] if len(found) == 1 else None
    raise RangeNotSatisfiable(f"there are {size} bytes; none of them is in the range", size_bytes=size)


def _ranges(field: str | None) -> list[re.Match[str]]:
    """The ranges of a header; none when it is to be ignored."""
    unit, equals, ranges = (field or "").strip(" \t").partition("=")
    if not equals or unit.lower() != UNIT or len(ranges) > MAX_RANGE_CHARS:
        return []
    # Empty list elements do not count.
    found = [_RANGE.fullmatch(part.strip(" \t")) for part in ranges.split(",") if part.strip(" \t")]
    valid = [one for one in found if one is not None and not (one["last"] and int(one["last"]) < int(one["first"]))]
    return valid if len(valid) == len(found) else []


def _span(asked: re.Match[str], size: int) -> Span | None:
    """The existing part of a range; None when there is none."""
    if asked["suffix"]:
        suffix = int(asked["suffix"])
        return Span(max(0, size - suffix), size) if suffix and size else None
    first = int(asked["first"])
    stop = min(int(asked["last"]) + 1, size) if asked["last"] else size
    return Span(first, stop) if first < size else None
