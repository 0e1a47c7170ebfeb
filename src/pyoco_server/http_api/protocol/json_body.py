"""Parses JSON bodies; rejects what would be rounded, is unbounded, or is not JSON."""

from __future__ import annotations

import json
from typing import Any

import orjson

from pyoco_server.errors import InvalidRequest, RequestTooLarge

MAX_DEPTH = 64
# Every value has one of these in front of it.
_MARKS = (b",", b":", b"[", b"{")
# For bodies without free-form values.
FEW_MARKS = 16 * 1024
# Beyond this JSON parsers silently turn integers into floats.
_FIRST_UNSAFE = 2.0**63


def parse(body: bytes, most_marks: int = FEW_MARKS) -> Any:
    """The value of `body`, or `InvalidRequest`.

    More than `most_marks` commas, colons and brackets are rejected unparsed: a megabyte of tiny values takes a hundred
    times as long to parse as a megabyte of text, and would block all other requests.
    """
    if len(body) > most_marks and sum(body.count(mark) for mark in _MARKS) > most_marks:
        raise RequestTooLarge("the body has more values than are accepted")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from error
    _check(value, body)
    return value


def _check(value: Any, body: bytes) -> None:
    level, depth, may_be_rounded = [value], 0, False
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"the body is nested deeper than {MAX_DEPTH} levels")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float | int) and abs(item) >= _FIRST_UNSAFE:
                may_be_rounded = True
        level = below
    # After the check of the depth, which the json module would not survive.
    if may_be_rounded:
        _refuse_rounded_integers(body)


def _refuse_rounded_integers(body: bytes) -> None:
    def checked(text: str) -> int:
        number = int(text) if len(text) < 40 else 2**64
        if not -(2**63) <= number < 2**63:
            raise InvalidRequest("integers beyond 64 bits would be rounded; send them as strings")
        return number

    json.loads(body, parse_int=checked)
