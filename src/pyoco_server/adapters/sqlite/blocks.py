"""Bounds of blocks of 4096 run numbers, and how lists use them: a page reads only between the bounds of its blocks.

    few runs in a range   ─▶ their numbers, to fetch and sort
    many runs in a range  ─▶ bounds of the blocks that can hold them; between these the list is read in its order

Runs are numbered as they come, so a block holds neighbours in time. A run that changes late widens the bounds of its
block, which costs time and never a result.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pyoco_server.adapters.sqlite.posting_lists import BLOCK_BITS, Matches
from pyoco_server.adapters.sqlite.statements import Condition, all_of, json_array
from pyoco_server.domain.queries.query import Ranges
from pyoco_server.domain.queries.rows import RunRow

# Runs of a range that are worth fetching one by one: a millisecond.
MAX_FETCHED = 1_000

_WIDEN = """
    INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (block) DO UPDATE SET
        oldest_update = min(oldest_update, excluded.oldest_update),
        newest_update = max(newest_update, excluded.newest_update),
        oldest_key = min(oldest_key, excluded.oldest_key),
        newest_key = max(newest_key, excluded.newest_key),
        first_submission = min(first_submission, excluded.first_submission),
        last_submission = max(last_submission, excluded.last_submission)
"""
_BOUNDS = "SELECT min(oldest_update), max(newest_update), min(oldest_key), max(newest_key) FROM blocks WHERE true"
# Behind every digit and dash of an id.
_BEHIND_DIGITS = "g"


class Bounds(NamedTuple):
    """No run of the blocks is outside of these, ends included."""

    oldest_update: float
    newest_update: float
    oldest_key: bytes
    newest_key: bytes


class BlockBounds:
    """What a batch adds to the bounds."""

    def __init__(self) -> None:
        self._seen: dict[int, list[tuple[float, bytes, float]]] = defaultdict(list)

    def widen(self, number: int, key: bytes, row: RunRow) -> None:
        self._seen[number >> BLOCK_BITS].append((row.updated_at, key, row.submitted_at))

    def flush(self, writer: sqlite3.Connection) -> None:
        bounds = []
        for block, seen in self._seen.items():
            updates, keys, submissions = zip(*seen, strict=True)
            both = [end for values in (updates, keys, submissions) for end in (min(values), max(values))]
            bounds.append((block, *both))
        writer.executemany(_WIDEN, bounds)


def bounds(reader: sqlite3.Connection, matches: Matches | None, ranges: Ranges) -> Bounds | None:
    """Bounds of the runs that match and are within the ranges; None when there are none."""
    conditions: list[Condition] = []
    if matches is not None:
        conditions.append(("block IN (SELECT value FROM json_each(?))", (json_array(list(matches)),)))
    if ranges.submitted_after is not None:
        conditions.append(("last_submission >= ?", (ranges.submitted_after,)))
    if ranges.submitted_before is not None:
        conditions.append(("first_submission < ?", (ranges.submitted_before,)))
    if ranges.id_prefix is not None:
        first, behind = key_range(ranges.id_prefix)
        conditions.append(("newest_key >= ? AND oldest_key < ?", (first, behind)))
    where, params = all_of(conditions)
    found = reader.execute(_BOUNDS + where, params).fetchone()
    return None if found[0] is None else Bounds(*found)


def few_within(reader: sqlite3.Connection, ranges: Ranges) -> Iterator[Matches]:
    """The runs of each range that holds few."""
    submission = _submission(ranges, "submitted_at")
    if submission and (few := _few(reader, "by_submission", submission)) is not None:
        yield few
    prefix = _prefix(ranges, "run_id")
    if prefix and (few := _few(reader, "by_id", prefix)) is not None:
        yield few


def conditions_within(ranges: Ranges, *, but_prefix: bool = False) -> list[Condition]:
    """The conditions of the ranges, or all but that of the prefix.

    The signs keep SQLite from choosing an index for them: lists stay in their order.
    """
    submission = _submission(ranges, "+submitted_at")
    return submission if but_prefix else submission + _prefix(ranges, "+run_id")


def key_range(id_prefix: str) -> tuple[bytes, bytes]:
    """The first key of ids with this prefix, and the first behind them; no foreign id has a key between."""
    digits = id_prefix.replace("-", "")[:32]
    last = bytes.fromhex(digits.ljust(32, "f"))
    return bytes.fromhex(digits.ljust(32, "0")), last + b"\0"


def _submission(ranges: Ranges, column: str) -> list[Condition]:
    bounds = ((">=", ranges.submitted_after), ("<", ranges.submitted_before))
    return [(f"{column} {sign} ?", (value,)) for sign, value in bounds if value is not None]


def _prefix(ranges: Ranges, column: str) -> list[Condition]:
    if ranges.id_prefix is None:
        return []
    is_ours = f"length({column}) = 36 AND {column} NOT GLOB '*[^0-9a-f-]*'"
    return [(f"{column} >= ? AND {column} < ? AND {is_ours}", (ranges.id_prefix, ranges.id_prefix + _BEHIND_DIGITS))]


def _few(reader: sqlite3.Connection, index: str, conditions: Sequence[Condition]) -> Matches | None:
    where, params = all_of(conditions)
    sql = f"SELECT number FROM runs INDEXED BY {index} WHERE true{where} LIMIT {MAX_FETCHED + 1}"
    numbers = [number for (number,) in reader.execute(sql, params)]
    return None if len(numbers) > MAX_FETCHED else Matches.of(numbers)
