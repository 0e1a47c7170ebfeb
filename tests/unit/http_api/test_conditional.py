"""Conditions by tags, as RFC 9110 has them: lists, weak and strong comparison, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_api.protocol.conditional import MAX_LIST_CHARS, is_known, may_be_partial, strong_tag

opaque = st.text(st.sampled_from("ab,* W/!~\x80ÿ".replace(" ", "")), max_size=4)
tags = st.builds(lambda weak, text: f'{"W/" if weak else ""}"{text}"', st.booleans(), opaque)
gaps = st.text(st.sampled_from(" \t"), max_size=2)
commas = st.builds(
    lambda before, more, after: before + "," + more + after, gaps, st.sampled_from(["", ",", " , "]), gaps
)


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A list as it may be written, and what is in it."""
    found = draw(st.lists(tags, min_size=1, max_size=4))
    said = draw(st.sampled_from(["", " ", ", ", ",,"])) + found[0]
    for tag in found[1:]:
        said += draw(commas) + tag
    return said + draw(st.sampled_from(["", " ", ",", " , ,"])), found


@given(lists(), opaque)
def test_a_list_names_what_it_has_weakly_or_strongly(written: tuple[str, list[str]], text: str) -> None:
    said, found = written

    assert is_known(said, f'"{text}"') == (f'"{text}"' in found or f'W/"{text}"' in found)
    assert may_be_partial(said, f'"{text}"') == (said.strip(" \t") == f'"{text}"')


def test_a_star_is_whatever_there_is_and_nothing_at_all_is_no_condition() -> None:
    for said in ("*", " * "):
        assert (is_known(said, '"a"'), may_be_partial(said, '"a"')) == (True, False)
    assert (is_known(None, '"a"'), may_be_partial(None, '"a"')) == (False, True)


@pytest.mark.parametrize("said", ["", "a", '"a', 'a"', '"a" "a"', '"a"x', '*, "a"', '"a", *', "'a'", 'w/"a"', ","])
def test_what_is_no_list_names_nothing(said: str) -> None:
    assert (is_known(said, '"a"'), may_be_partial(said, '"a"')) == (False, False)


@pytest.mark.parametrize("said", ['W/"a"', "Wed, 18 Feb 2026 12:00:00 GMT", '"a", "b"'])
def test_a_part_is_given_of_one_strong_tag_only(said: str) -> None:
    assert not may_be_partial(said, '"a"')


def test_a_list_names_a_few_hundred_tags_and_an_endless_one_nothing() -> None:
    said = ",".join(f'"{number}"' for number in range(1000))
    endless = said + "," * MAX_LIST_CHARS

    assert is_known(said, '"999"')
    assert not is_known(said + "x", '"999"')
    assert not is_known(endless, '"999"')


facts = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.booleans(), st.none())


@given(st.lists(facts, max_size=4), st.lists(facts, max_size=4))
def test_tags_are_the_same_for_the_same_facts_and_others_for_others(one: list[str], other: list[str]) -> None:
    def typed(values: list[str]) -> list[tuple[type, str]]:
        return [(type(value), value) for value in values]

    assert (strong_tag(*one) == strong_tag(*other)) == (typed(one) == typed(other))
    assert is_known(strong_tag(*one), strong_tag(*one))
    assert may_be_partial(strong_tag(*one), strong_tag(*one))


def test_a_tag_stays_what_it_is_over_versions() -> None:
    # Whoever keeps logs by their tags keeps them over an upgrade.
    assert strong_tag(1, "0198", "whole", 512, True, None) == '"U5GD2mTJtj98PmXZ"'
