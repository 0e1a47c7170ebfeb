"""Conditions and ranges of RFC 9110: lists of tags, weak and strong comparison, ranges against a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.errors import RangeNotSatisfiable
from pyoco_server.http_api.protocol.conditional import (
    MAX_LIST_CHARS,
    MAX_RANGE_CHARS,
    Span,
    choose_range,
    is_known,
    is_range,
    may_be_partial,
    strong_tag,
)

opaque = st.text(st.sampled_from("ab,* W/!~\x80ÿ".replace(" ", "")), max_size=4)
tags = st.builds(lambda weak, text: f'{"W/" if weak else ""}"{text}"', st.booleans(), opaque)
gaps = st.text(st.sampled_from(" \t"), max_size=2)
commas = st.builds(
    lambda before, more, after: before + "," + more + after, gaps, st.sampled_from(["", ",", " , "]), gaps
)


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A list header and its tags."""
    found = draw(st.lists(tags, min_size=1, max_size=4))
    header = draw(st.sampled_from(["", " ", ", ", ",,"])) + found[0]
    for tag in found[1:]:
        header += draw(commas) + tag
    return header + draw(st.sampled_from(["", " ", ",", " , ,"])), found


@given(lists(), opaque)
def test_a_list_matches_weakly_and_a_single_tag_strongly(written: tuple[str, list[str]], text: str) -> None:
    header, found = written

    assert is_known(header, f'"{text}"') == (f'"{text}"' in found or f'W/"{text}"' in found)
    assert may_be_partial(header, f'"{text}"') == (header.strip(" \t") == f'"{text}"')


def test_a_star_matches_any_tag_and_a_missing_header_is_no_condition() -> None:
    for header in ("*", " * "):
        assert (is_known(header, '"a"'), may_be_partial(header, '"a"')) == (True, False)
    assert (is_known(None, '"a"'), may_be_partial(None, '"a"')) == (False, True)


@pytest.mark.parametrize("header", ["", "a", '"a', 'a"', '"a" "a"', '"a"x', '*, "a"', '"a", *', "'a'", 'w/"a"', ","])
def test_a_malformed_list_matches_nothing(header: str) -> None:
    assert (is_known(header, '"a"'), may_be_partial(header, '"a"')) == (False, False)


@pytest.mark.parametrize("header", ['W/"a"', "Wed, 18 Feb 2026 12:00:00 GMT", '"a", "b"'])
def test_a_partial_response_needs_one_strong_tag(header: str) -> None:
    assert not may_be_partial(header, '"a"')


def test_a_list_may_be_long_and_an_overlong_one_matches_nothing() -> None:
    header = ",".join(f'"{number}"' for number in range(1000))
    endless = header + "," * MAX_LIST_CHARS

    assert is_known(header, '"999"')
    assert not is_known(header + "x", '"999"')
    assert not is_known(endless, '"999"')


facts = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.booleans(), st.none())


@given(st.lists(facts, max_size=4), st.lists(facts, max_size=4))
def test_tags_are_equal_exactly_for_equal_facts(one: list[str], other: list[str]) -> None:
    def typed(values: list[str]) -> list[tuple[type, str]]:
        return [(type(value), value) for value in values]

    assert (strong_tag(*one) == strong_tag(*other)) == (typed(one) == typed(other))
    assert is_known(strong_tag(*one), strong_tag(*one))
    assert may_be_partial(strong_tag(*one), strong_tag(*one))


def test_a_tag_is_stable_across_versions() -> None:
    # Cached logs stay valid after an upgrade.
    assert strong_tag(1, "0198", "whole", 512, True, None) == '"U5GD2mTJtj98PmXZ"'


# --- ranges -----------------------------------------------------------------------------------------------------------

sizes = st.integers(0, 12)
numbers = st.integers(0, 15)


def written(kind: str, one: int, other: int) -> str:
    low, high = sorted((one, other))
    return {"between": f"{low}-{high}", "from": f"{one}-", "last": f"-{one}"}[kind]


def requested_bytes(text: str, size: int) -> list[int]:
    """The bytes of the range, found byte by byte."""
    first, last = text.split("-")
    if not first:
        return [byte for byte in range(size) if byte >= size - int(last)]
    return [byte for byte in range(size) if byte >= int(first) and (not last or byte <= int(last))]


range_texts = st.builds(written, st.sampled_from(["between", "from", "last"]), numbers, numbers)
units = st.sampled_from(["bytes", "Bytes", "BYTES"])
gaps = st.sampled_from(["", " ", "\t", " \t"])


@given(units, range_texts, gaps, gaps, sizes)
def test_one_range_selects_its_bytes(unit: str, text: str, before: str, behind: str, size: int) -> None:
    expected = requested_bytes(text, size)
    header = f"{unit}={before}{text}{behind}"

    assert is_range(header)
    if expected:
        span = choose_range(header, size)
        assert span is not None
        assert list(range(*span)) == expected
        assert span.content_range(size) == f"bytes {expected[0]}-{expected[-1]}/{size}"
    elif size == 0 and text.startswith("-") and text != "-0":
        assert choose_range(header, size) is None  # satisfiable, but it has no Content-Range
    else:
        with pytest.raises(RangeNotSatisfiable) as refused:
            choose_range(header, size)
        assert refused.value.facts == {"size_bytes": size}


@given(st.lists(range_texts, min_size=2, max_size=4), st.sampled_from([",", " , ", ",,"]), st.integers(1, 12))
def test_of_several_ranges_a_single_satisfiable_one_is_used_and_otherwise_the_whole(
    texts: list[str], comma: str, size: int
) -> None:
    satisfiable = [text for text in texts if requested_bytes(text, size)]
    header = "bytes=" + comma.join(texts)

    if not satisfiable:
        with pytest.raises(RangeNotSatisfiable):
            choose_range(header, size)
    elif len(satisfiable) == 1:
        assert choose_range(header, size) == choose_range(f"bytes={satisfiable[0]}", size)
    else:
        assert choose_range(header, size) is None


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "bytes", "lines=0-1", "0-1", "bytes: 0-1", "bytes = 0-1", "bytes =0-1"),
        *("bytes=" + text for text in ("", ",", "-", "--1", "5-4", "0-1,5-4", "0-1,x", "a-b", "0x0-1", "+1-2", "1 -2")),
        *("bytes=" + text for text in ("0-1;2", "٠-١", "1_0-20", "2-3, bytes=2-3", "0" * (MAX_RANGE_CHARS + 1) + "-")),
    ],
    ids=lambda header: str(header)[:20],
)
def test_a_malformed_range_is_ignored(header: str | None) -> None:
    assert not is_range(header)
    assert choose_range(header, 10) is None
    assert choose_range(header, 0) is None


@given(st.text(max_size=20), sizes)
def test_any_range_header_gives_a_part_the_whole_or_an_error(header: str, size: int) -> None:
    for field in (header, f"bytes={header}"):
        try:
            span = choose_range(field, size)
        except RangeNotSatisfiable:
            continue
        assert span is None or 0 <= span.start < span.stop <= size


def test_numbers_may_have_any_length() -> None:
    many = "9" * 900

    assert choose_range(f"bytes=3-{many}", 10) == Span(3, 10)
    assert choose_range(f"bytes=-{many}", 10) == Span(0, 10)
    assert choose_range("bytes=" + "0" * 900 + "2-3", 10) == Span(2, 4)
    with pytest.raises(RangeNotSatisfiable):
        choose_range(f"bytes={many}-", 10)
