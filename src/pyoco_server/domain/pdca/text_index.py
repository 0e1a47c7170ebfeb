"""Which of many short texts contain a text, found without comparing all of them.

    neighbouring bytes of the text ─▶ texts that have them all   ┐
    kept pieces that contain it    ─▶ texts that surely match    ├─▶ only those between them are compared
    only kept phrases              ─▶ texts that are decided     ┘

A phrase is what is between digits: texts that differ by their numbers share it, and a text without digits is either in
one of the phrases or nowhere. Pairs of bytes share 1,024 sets, so that texts in any script take at most 13 MB at
100,000 texts.
"""

from __future__ import annotations

import operator
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise, repeat

from pyoco_server.domain.pdca.slots import SlotSet, bits_of, bits_where, slots_of, union

# Searched texts whose matches are kept, and follow every change: 12 KB each at 100,000 texts.
MAX_SEARCHED = 256
# The words and phrases in most texts, chosen when the index is made. Without them a search for what is in most texts
# would compare most texts.
MAX_PIECES = 256
# Comparing all texts in order is cheaper than picking out this share of them.
PICKED_SHARE = 1 / 4

_PAIRS = 1024
_WORD = re.compile(r"[^\W\d_]{2,}")
_PHRASE = re.compile(r"\D+")


class TextIndex:
    """Texts by slot; an empty one matches nothing."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts = list(texts)
        self._matches: dict[str, int] = {}
        by_pair: defaultdict[int, list[int]] = defaultdict(list)
        for slot, text in enumerate(self._texts):
            for pair in _pairs(text):
                by_pair[pair].append(slot)
        self._pairs = {pair: SlotSet(slots) for pair, slots in by_pair.items()}
        counted = Counter(piece for text in self._texts for piece in _pieces(text))
        by_piece: dict[str, list[int]] = {piece: [] for piece, _ in counted.most_common(MAX_PIECES)}
        undecided = []
        for slot, text in enumerate(self._texts):
            for piece in _pieces(text) & by_piece.keys():
                by_piece[piece].append(slot)
            if not by_piece.keys() >= set(_PHRASE.findall(text)):
                undecided.append(slot)
        self._pieces = {piece: SlotSet(slots) for piece, slots in by_piece.items()}
        self._undecided = SlotSet(undecided)

    def replace(self, slot: int, text: str) -> None:
        """Put a text in the place of another one, or behind all."""
        if slot == len(self._texts):
            self._texts.append("")
        before = self._texts[slot]
        if text == before:
            return
        self._texts[slot] = text
        had, has = _pairs(before), _pairs(text)
        for pair in had - has:
            self._pairs[pair].discard(slot)
        for pair in has - had:
            self._pairs.setdefault(pair, SlotSet()).add(slot)
        had_pieces, has_pieces = _pieces(before) & self._pieces.keys(), _pieces(text) & self._pieces.keys()
        for piece in had_pieces - has_pieces:
            self._pieces[piece].discard(slot)
        for piece in has_pieces - had_pieces:
            self._pieces[piece].add(slot)
        if self._pieces.keys() >= set(_PHRASE.findall(text)):
            self._undecided.discard(slot)
        else:
            self._undecided.add(slot)
        for searched, bits in self._matches.items():
            if (bits >> slot & 1) != (searched in text):
                self._matches[searched] = bits ^ 1 << slot

    def containing(self, text: str) -> int:
        """The bits of the texts that contain the text, which is not empty."""
        found = self._matches.pop(text, None)
        if found is None:
            found = self._search(text)
        self._matches[text] = found  # behind all others, which are forgotten before it
        if len(self._matches) > MAX_SEARCHED:
            del self._matches[next(iter(self._matches))]
        return found

    def _search(self, text: str) -> int:
        known = [bits for searched, bits in self._matches.items() if searched in text]
        pairs = [self._pairs[pair].bits if pair in self._pairs else 0 for pair in _pairs(text)]
        possible = reduce(operator.and_, [*known, *pairs], (1 << len(self._texts)) - 1)
        certain = union(slots for piece, slots in self._pieces.items() if text in piece)
        if _PHRASE.fullmatch(text):
            possible &= self._undecided.bits
        return certain | self._compared(text, possible & ~certain)

    def _compared(self, text: str, bits: int) -> int:
        """Those of the slots whose texts contain the text."""
        if bits.bit_count() > len(self._texts) * PICKED_SHARE:
            return bits_where(map(operator.contains, self._texts, repeat(text)))
        return bits_of([slot for slot in slots_of(bits) if text in self._texts[slot]])


def _pairs(text: str) -> set[int]:
    """Small numbers that stand for the neighbouring bytes in the text; a part of the text has a part of them."""
    return {(first * 31 + second) % _PAIRS for first, second in pairwise(text.encode(errors="surrogatepass"))}


def _pieces(text: str) -> set[str]:
    return {*_WORD.findall(text), *_PHRASE.findall(text)}
