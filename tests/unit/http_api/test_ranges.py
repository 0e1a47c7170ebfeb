"""Ranges of bytes against a model that knows nothing but the numbers of the bytes, and what is to be ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.errors import RangeNotSatisfiable
from pyoco_server.http_api.protocol.conditional import MAX_RANGE_CHARS, Span, choose_range, is_range

sizes = st.integers(0, 12)
numbers = st.integers(0, 15)


def written(kind: str, one: int, other: int) -> str:
    low, high = sorted((one, other))
    return {"between": f"{low}-{high}", "from": f"{one}-", "last": f"-{one}"}[kind]


def asked_bytes(text: str, size: int) -> list[int]:
    """Byte by byte: is it in the range?"""
    first, last = text.split("-")
    if not first:
        return [byte for byte in range(size) if byte >= size - int(last)]
    return [byte for byte in range(size) if byte >= int(first) and (not last or byte <= int(last))]


range_texts = st.builds(written, st.sampled_from(["between", "from", "last"]), numbers, numbers)
units = st.sampled_from(["bytes", "Bytes", "BYTES"])
gaps = st.sampled_from(["", " ", "\t", " \t"])


@given(units, range_texts, gaps, gaps, sizes)
def test_one_range_is_the_bytes_that_are_in_it(unit: str, text: str, before: str, behind: str, size: int) -> None:
    expected = asked_bytes(text, size)
    said = f"{unit}={before}{text}{behind}"

    assert is_range(said)
    if expected:
        span = choose_range(said, size)
        assert span is not None
        assert list(range(*span)) == expected
        assert span.content_range(size) == f"bytes {expected[0]}-{expected[-1]}/{size}"
    elif size == 0 and text.startswith("-") and text != "-0":
        assert choose_range(said, size) is None  # satisfiable, but nothing could be told of it
    else:
        with pytest.raises(RangeNotSatisfiable) as refused:
            choose_range(said, size)
        assert refused.value.facts == {"size_bytes": size}


@given(st.lists(range_texts, min_size=2, max_size=4), st.sampled_from([",", " , ", ",,"]), st.integers(1, 12))
def test_of_several_ranges_one_that_is_there_is_given_and_for_more_the_whole(
    texts: list[str], comma: str, size: int
) -> None:
    there = [text for text in texts if asked_bytes(text, size)]
    said = "bytes=" + comma.join(texts)

    if not there:
        with pytest.raises(RangeNotSatisfiable):
            choose_range(said, size)
    elif len(there) == 1:
        assert choose_range(said, size) == choose_range(f"bytes={there[0]}", size)
    else:
        assert choose_range(said, size) is None


IGNORED = [
    None,
    "",
    "bytes",
    "bytes=",
    "bytes=,",
    "bytes=-",
    "bytes=--1",
    "bytes=5-4",
    "bytes=0-1,5-4",
    "bytes=0-1,x",
    "bytes=a-b",
    "bytes=0x0-1",
    "bytes=+1-2",
    "bytes=1 -2",
    "bytes = 0-1",
    "bytes =0-1",
    "bytes=0-1;2",
    "bytes=٠-١",
    "bytes=1_0-20",
    "lines=0-1",
    "0-1",
    "bytes: 0-1",
    "bytes=0-1, bytes=2-3",
    "bytes=" + "0" * (MAX_RANGE_CHARS + 1) + "-",
]


@pytest.mark.parametrize("said", IGNORED, ids=lambda said: str(said)[:20])
def test_what_is_no_range_of_bytes_is_ignored(said: str | None) -> None:
    assert not is_range(said)
    assert choose_range(said, 10) is None
    assert choose_range(said, 0) is None


@given(st.text(max_size=20), sizes)
def test_whatever_is_sent_is_a_part_the_whole_or_refused(said: str, size: int) -> None:
    for field in (said, f"bytes={said}"):
        try:
            span = choose_range(field, size)
        except RangeNotSatisfiable:
            continue
        assert span is None or 0 <= span.start < span.stop <= size


def test_numbers_of_any_length_are_numbers() -> None:
    many = "9" * 900

    assert choose_range(f"bytes=3-{many}", 10) == Span(3, 10)
    assert choose_range(f"bytes=-{many}", 10) == Span(0, 10)
    assert choose_range("bytes=" + "0" * 900 + "2-3", 10) == Span(2, 4)
    with pytest.raises(RangeNotSatisfiable):
        choose_range(f"bytes={many}-", 10)
