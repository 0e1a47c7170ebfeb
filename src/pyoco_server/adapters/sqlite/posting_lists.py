"""The label index: posting lists of run numbers as bitmaps, in blocks of 4096 runs.

An intersection is one AND per block. It costs the same however two lists interleave: with 50,000 runs each that never
meet it reads 26 rows, where seeking from list to list would take 100,000 steps.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from pyoco_server.adapters.sqlite.statements import KeyIds, all_of, equal
from pyoco_server.domain.queries.jobs import LabelCount, LabelQuery
from pyoco_server.domain.queries.query import labels_of, terms_of

BLOCK_BITS = 12
_BITMAP_BYTES = (1 << BLOCK_BITS) // 8
_LAST = (1 << BLOCK_BITS) - 1
# Up to here a block is a sorted array of 16-bit numbers, beyond it is a bitmap; they differ in length.
MAX_ARRAY = 64

_COUNT = "UPDATE posting_lists SET runs = runs + ? WHERE list = ?"
_REMOVE_EMPTY = "DELETE FROM posting_lists WHERE list = ? AND runs = 0"
_BLOCKS = "SELECT block, members FROM postings WHERE list = ?"
_BLOCK = "SELECT members FROM postings WHERE list = ? AND block = ?"
_PUT_BLOCK = "INSERT OR REPLACE INTO postings VALUES (?, ?, ?)"
_REMOVE_BLOCK = "DELETE FROM postings WHERE list = ? AND block = ?"


class Matches(dict[int, int]):
    """A set of run numbers: by block, its members as the bits of an integer."""

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Matches:
        matches = cls()
        for number in numbers:
            matches[number >> BLOCK_BITS] = matches.get(number >> BLOCK_BITS, 0) | 1 << (number & _LAST)
        return matches

    def has(self, number: int) -> bool:
        return bool(self.get(number >> BLOCK_BITS, 0) >> (number & _LAST) & 1)

    def count(self) -> int:
        return sum(members.bit_count() for members in self.values())

    def numbers(self) -> list[int]:
        return [(block << BLOCK_BITS) + member for block, members in self.items() for member in _bits(members)]

    def intersection(self, other: Matches) -> Matches:
        both = {block: members & other.get(block, 0) for block, members in self.items()}
        return Matches({block: members for block, members in both.items() if members})


class Posted(NamedTuple):
    """What decides which posting lists a run is in."""

    tenant_id: str
    archived: bool
    terms: tuple[str, ...]


class PostingChanges:
    """What a batch changes in the posting lists; each block is read and written once."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self.writer = writer
        self.lists = KeyIds(writer, "posting_lists", "list", "tenant_id", "archived", "term")
        # (list, block) -> the bits to set, the bits to clear
        self.blocks: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        self.counts = Counter[int]()

    def change(self, number: int, before: Posted | None, after: Posted | None) -> None:
        """Move the run from the lists of `before` to those of `after`; None means in no list."""
        if before == after:
            return
        old, new = self._lists(before), self._lists(after)
        for found, add in [(found, True) for found in new - old] + [(found, False) for found in old - new]:
            self.blocks[found, number >> BLOCK_BITS][not add] |= 1 << (number & _LAST)
            self.counts[found] += 1 if add else -1

    def flush(self) -> None:
        emptied, puts = [], []
        # In the order of the table: neighbouring blocks share a page.
        for key, (added, removed) in sorted(self.blocks.items()):
            stored = self.writer.execute(_BLOCK, key).fetchone()
            members = (_decode(stored[0]) if stored else 0) & ~removed | added
            if members:
                puts.append((*key, _encode(members)))
            else:
                emptied.append(key)
        self.writer.executemany(_PUT_BLOCK, puts)
        self.writer.executemany(_REMOVE_BLOCK, emptied)
        self.writer.executemany(_COUNT, [(by, found) for found, by in self.counts.items() if by])
        self.writer.executemany(_REMOVE_EMPTY, [(found,) for found, by in self.counts.items() if by < 0])

    def _lists(self, posted: Posted | None) -> set[int]:
        if posted is None:
            return set()
        return {self.lists[posted.tenant_id, posted.archived, term] for term in posted.terms}


def matching(
    reader: sqlite3.Connection, terms: Sequence[str], *, tenant_id: str | None, archived: bool
) -> Matches | None:
    """The runs (of one tenant) that have all of these terms; None when there are no terms."""
    if not terms:
        return None
    lists: dict[str, list[int]] = {term: [] for term in terms}
    runs: Counter[str] = Counter()
    where, params = all_of(equal(tenant_id=tenant_id))
    # Each bound by itself: json_each cuts a text at a NUL, and what is left is another label.
    wanted = ", ".join("?" * len(terms))
    sql = f"SELECT term, list, runs FROM posting_lists WHERE archived = ? AND term IN ({wanted}){where}"
    for term, found, count in reader.execute(sql, (archived, *terms, *params)):
        lists[term].append(found)
        runs[term] += count
    matches: Matches | None = None
    for term in sorted(lists, key=lambda term: runs[term]):
        theirs = _members(reader, lists[term])
        matches = theirs if matches is None else matches.intersection(theirs)
        if not matches:
            break
    return matches


def labels(reader: sqlite3.Connection, query: LabelQuery) -> Sequence[LabelCount]:
    (prefix,) = terms_of([query.prefix], None)
    begin, comparison = query.prefix, ">="
    if query.after is not None and query.after >= query.prefix:
        begin, comparison = query.after, ">"
    where, params = all_of(equal(tenant_id=query.tenant_id))
    sql = (
        f"SELECT term, sum(runs) FROM posting_lists WHERE archived = 0 AND term {comparison} ?{where}"
        " GROUP BY term ORDER BY term LIMIT ?"
    )
    found = reader.execute(sql, (*terms_of([begin], None), *params, query.limit)).fetchall()
    # By code points from where the query starts; terms without its prefix follow at the end.
    listed = takewhile(lambda row: row[0].startswith(prefix), found)
    return [LabelCount(label, runs) for term, runs in listed for label in labels_of([term])]


def _members(reader: sqlite3.Connection, lists: Sequence[int]) -> Matches:
    members = Matches()
    for found in lists:
        for block, stored in reader.execute(_BLOCKS, (found,)):
            members[block] = members.get(block, 0) | _decode(stored)
    return members


def _encode(members: int) -> bytes:
    if members.bit_count() > MAX_ARRAY:
        return members.to_bytes(_BITMAP_BYTES, "little")
    return array("H", _bits(members)).tobytes()


def _decode(stored: bytes) -> int:
    if len(stored) == _BITMAP_BYTES:
        return int.from_bytes(stored, "little")
    members = 0
    for member in memoryview(stored).cast("H"):
        members |= 1 << member
    return members


def _bits(members: int) -> Iterator[int]:
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest
