"""Search in many short texts, compared with a plain list."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.pdca import slots, text_index
from pyoco_server.domain.pdca.slots import slots_of
from pyoco_server.domain.pdca.text_index import TextIndex

PARTS = st.sampled_from(["al", "alpha", "beta", " ", "-", "1", "12", "日本", "本", "é", "\U0001f600", "ß", "\ud800"])
TEXTS = st.lists(PARTS, max_size=4).map("".join)
STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 9), TEXTS), TEXTS.filter(bool)))


class CountedText(str):
    """Counts in how many texts something was searched."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __contains__(self, part: object) -> bool:
        CountedText.compared += 1
        return str.__contains__(self, str(part))


def compared_for(index: TextIndex, text: str) -> int:
    CountedText.compared = 0
    index.containing(text)
    return CountedText.compared


@given(st.lists(TEXTS, max_size=8), STEPS, st.integers(0, 6))
def test_every_search_finds_what_a_plain_list_has(
    texts: list[str], steps: list[tuple[int, str] | str], pieces: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "FEW", 1)
        patch.setattr(text_index, "MAX_SEARCHED", 2)
        patch.setattr(text_index, "MAX_PIECES", pieces)
        index = TextIndex(texts)
        for step in steps:
            match step:
                case str():
                    found = slots_of(index.containing(step))
                    assert found == [slot for slot, text in enumerate(texts) if step in text]
                case (slot, text):
                    slot = min(slot, len(texts))
                    texts[slot : slot + 1] = [text]
                    index.replace(slot, text)


def test_a_rare_text_is_compared_with_few_texts() -> None:
    index = TextIndex(CountedText(f"carry number {number}") for number in range(1000))

    assert compared_for(index, "number 777") <= 30
    assert compared_for(index, "zzz") == 0


def test_a_word_in_most_texts_is_compared_with_none() -> None:
    index = TextIndex(CountedText(f"carry number {number}") for number in range(1000))

    assert compared_for(index, "numb") == 0
    assert index.containing("numb").bit_count() == 1000


def test_a_text_that_extends_a_searched_one_is_compared_with_its_matches() -> None:
    index = TextIndex(CountedText(f"{'ab' if number % 100 else 'ba'} aba {number}") for number in range(1000))
    index.containing("ba a")

    assert compared_for(index, "ba ab") <= 10


def test_common_words_in_a_row_are_compared_with_none() -> None:
    families = ("carry", "pairs", "momentum")
    index = TextIndex(CountedText(f"strat {families[number % 3]} number {number}") for number in range(1000))

    assert compared_for(index, "carry number") == 0
    assert index.containing("carry number").bit_count() == 334


def test_only_texts_with_a_rare_phrase_are_compared_for_a_text_without_digits() -> None:
    index = TextIndex(CountedText(f"{'a rare arc' if number == 7 else 'rare car'} {number}") for number in range(1000))
    for nth in range(text_index.MAX_PIECES):
        index.replace(1000 + nth, f"filler {nth}")

    assert compared_for(index, "re ar") <= 1
