"""JSON bodies: lossless values are accepted; rounded numbers and invalid JSON are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.errors import InvalidRequest, RequestTooLarge
from pyoco_server.http_api.protocol.request_parsing import MAX_DEPTH, parse_json

WORDS = st.text(alphabet='aZ0"\\/\n\x00é夜😀', max_size=6)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@given(VALUES)
def test_a_lossless_value_is_unchanged(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b"{'a': 1}",
        b'{"a": 1} trailing',
        b"\xff",
        b'\xef\xbb\xbf{"a": 1}',
        b"NaN",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b'{"\\udc00": 1}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": 1' + b"0" * 5000 + b"}",
    ],
    ids=repr,
)
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not JSON"):
        parse_json(body)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, 2**53 + 1])
def test_an_integer_of_64_bits_is_kept_to_the_last_digit(number: int) -> None:
    assert parse_json(f'{{"n": {number}}}'.encode()) == {"n": number}


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**25])
def test_an_integer_that_would_be_rounded_is_refused(number: int) -> None:
    with pytest.raises(InvalidRequest, match="send them as strings"):
        parse_json(f'{{"deep": [{{"n": {number}}}]}}'.encode())


def test_a_large_number_in_float_notation_is_a_float() -> None:
    assert parse_json(b'{"a": 1e300, "b": 100000000000000000000.0}') == {"a": 1e300, "b": 1e20}


def test_a_large_float_does_not_hide_an_integer_that_would_be_rounded() -> None:
    with pytest.raises(InvalidRequest, match="send them as strings"):
        parse_json(b'{"a": 1e300, "b": 12345678901234567890}')


def test_64_levels_are_accepted_and_65_refused() -> None:
    parse_json(nested(MAX_DEPTH))
    with pytest.raises(InvalidRequest, match="deeper than 64"):
        parse_json(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 1020, 100_000])
def test_an_extreme_depth_is_refused_even_with_a_large_number(depth: int) -> None:
    with pytest.raises(InvalidRequest):
        parse_json(b'{"large": 1e300, "deep": ' + nested(depth) + b"}", max_marks=2 * depth)


def test_the_last_of_duplicate_keys_wins() -> None:
    assert parse_json(b'{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize("value", [[[]] * 10, list(range(20)), {str(number): 0 for number in range(10)}, ",:[{" * 5])
def test_a_body_of_many_small_values_is_refused_before_parsing(value: Any) -> None:
    body = json.dumps(value, separators=(",", ":")).encode()

    with pytest.raises(RequestTooLarge):
        parse_json(body + b" no JSON", max_marks=18)

    assert parse_json(body, max_marks=20) == value
