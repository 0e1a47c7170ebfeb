"""The counters of the time series: changed with the rows in their transaction, and added up for a query.

    a batch ─▶ `uncounted`, one row ─▶ with some thousand others: `hours`, one row per series and hour
                     └───────────────── a query adds both ─────────────────┘

All counters of an interval are the bytes of one integer, four for each, so that intervals are added by one addition.
Stored they take a byte each as long as all are below 256; the first byte has the width, and zeros at the end are left
out. The minutes of an hour are stored one after the other, each behind its number and its length.
"""

# ruff: noqa: S608 — only constants are put into SQL; every value is bound.

from __future__ import annotations

import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct, error

import orjson

from pyoco_server.adapters.sqlite.statements import Condition, KeyIds, all_of, equal, json_array
from pyoco_server.domain.queries.stats import (
    COUNTERS,
    HOUR,
    MINUTE,
    Counted,
    Counters,
    RunTimes,
    Stats,
    StatsQuery,
    counted,
)

_WIDTH = 4
_ONE = tuple(1 << 8 * _WIDTH * counter for counter in range(COUNTERS))
_ABOVE_A_BYTE = sum(0xFFFFFF00 * one for one in _ONE)
_HEAD = Struct("<BH")
# How many changes wait to be counted: a query reads them all, and counting them costs the same for more of them.
MAX_UNCOUNTED = 2_000

_LATER = "INSERT INTO uncounted (changes, counters) VALUES (?, ?)"
_WAITING = "SELECT coalesce(sum(changes), 0) FROM uncounted"
_UNCOUNTED = "SELECT counters FROM uncounted"
_HOUR = "SELECT counters, minutes FROM hours WHERE series = ? AND start = ?"
_PUT = "INSERT OR REPLACE INTO hours VALUES (?, ?, ?, ?)"
_REMOVE = "DELETE FROM hours WHERE series = ? AND start = ?"
_REMOVE_EMPTY_SERIES = """
    DELETE FROM series WHERE series IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM hours WHERE hours.series = series.series)
"""
_HOURS = "SELECT start, counters FROM hours WHERE series = ? AND start >= ? AND start < ?"
_MINUTES = "SELECT start, minutes FROM hours WHERE series = ? AND start > ? AND start < ?"

Source = tuple[str, str, str]
"""The tenant, flow and tag of a run."""
Change = tuple[str, str, str, int, int, int]
"""A source, a minute, a counter of it, and by how much."""


class StatsChanges:
    """What a batch changes in the counters."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self._writer = writer
        self._changes: dict[Source, dict[Counted, int]] = defaultdict(lambda: defaultdict(int))

    def add(self, source: Source, run: RunTimes) -> None:
        changes = self._changes[source]
        for place in counted(run):
            changes[place] += 1

    def remove(self, source: Source, run: RunTimes) -> None:
        changes = self._changes[source]
        for place in counted(run):
            changes[place] -= 1

    def flush(self) -> None:
        changes = [
            (*source, *place, by) for source, places in self._changes.items() for place, by in places.items() if by
        ]
        if not changes:
            return
        waiting = self._writer.execute(_WAITING).fetchone()[0]
        if waiting + len(changes) < MAX_UNCOUNTED:
            self._writer.execute(_LATER, (len(changes), orjson.dumps(changes)))
            return
        _count(self._writer, [*_uncounted(self._writer), *changes])
        self._writer.execute("DELETE FROM uncounted")


def stats(reader: sqlite3.Connection, query: StatsQuery) -> Stats:
    sums: dict[int, int] = defaultdict(int)
    for series in _series(reader, query):
        for start, counters in _kept(reader, series, query):
            sums[query.start_of(start)] += counters
    for tenant_id, flow, tag, minute, counter, by in _uncounted(reader):
        if query.covers(tenant_id, flow, tag, minute):
            sums[query.start_of(minute)] += by * _ONE[counter]
    points = {start: _unpacked(counters) for start, counters in sums.items() if counters}
    return Stats(points=points, total=_unpacked(sum(sums.values())))


def _uncounted(connection: sqlite3.Connection) -> Iterator[Change]:
    for (stored,) in connection.execute(_UNCOUNTED):
        yield from orjson.loads(stored)


def _count(writer: sqlite3.Connection, changes: Iterable[Change]) -> None:
    """Add the changes to their hours; each hour is read and written once."""
    minutes: dict[tuple[Source, int], int] = defaultdict(int)
    for tenant_id, flow, tag, minute, counter, by in changes:
        minutes[(tenant_id, flow, tag), minute] += by * _ONE[counter]
    ids = KeyIds(writer, "series", "series", "level", "flow", "tag", "tenant_id")
    hours: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for ((tenant_id, flow, tag), minute), change in minutes.items():
        hour, nth = minute // HOUR * HOUR, minute % HOUR // MINUTE
        for key in ((0, "", "", ""), (1, "", "", tenant_id), (2, "", tag, tenant_id), (3, flow, tag, tenant_id)):
            hours[ids[key], hour][nth] += change
    puts, emptied = [], []
    # In the order of the table: neighbouring hours share a page.
    for (series, hour), changed in sorted(hours.items()):
        counters, stored = writer.execute(_HOUR, (series, hour)).fetchone() or (b"", b"")
        minutes_of = dict(_minutes(stored))
        for nth, change in changed.items():
            minutes_of[nth] = _encode(_decode(minutes_of.get(nth, b"")) + change)
        if left := _encode(_decode(counters) + sum(changed.values())):
            puts.append((series, hour, left, _joined(minutes_of)))
        else:
            emptied.append((series, hour))
    writer.executemany(_PUT, puts)
    if emptied:
        writer.executemany(_REMOVE, emptied)
        writer.execute(_REMOVE_EMPTY_SERIES, (json_array([series for series, _ in emptied]),))


def _series(reader: sqlite3.Connection, query: StatsQuery) -> list[int]:
    """The series to add up: one, or those of a flow's tags and of the tenants."""
    conditions: list[Condition]
    if query.flow is not None:
        conditions = equal(level=3, flow=query.flow, tag=query.tag, tenant_id=query.tenant_id)
    elif query.tag is not None:
        conditions = equal(level=2, flow="", tag=query.tag, tenant_id=query.tenant_id)
    elif query.tenant_id is not None:
        conditions = equal(level=1, flow="", tag="", tenant_id=query.tenant_id)
    else:
        conditions = equal(level=0)
    where, values = all_of(conditions)
    return [series for (series,) in reader.execute(f"SELECT series FROM series WHERE true{where}", values)]


def _kept(reader: sqlite3.Connection, series: int, query: StatsQuery) -> Iterator[tuple[int, int]]:
    """The counted intervals of the window: hours where the step is made of hours, else minutes."""
    if query.step_sec % HOUR == 0:
        for start, encoded in reader.execute(_HOURS, (series, query.since, query.until)):
            yield start, _decode(encoded)
        return
    for start, stored in reader.execute(_MINUTES, (series, query.since - HOUR, query.until)):
        for nth, encoded in _minutes(stored):
            if query.since <= (minute := start + nth * MINUTE) < query.until:
                yield minute, _decode(encoded)


def _minutes(stored: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    try:
        while place < len(stored):
            nth, length = _HEAD.unpack_from(stored, place)
            place += _HEAD.size
            yield nth, stored[place : place + length]
            place += length
    except error as damage:
        raise sqlite3.DatabaseError("the minutes of an hour cannot be read") from damage


def _joined(minutes: Mapping[int, bytes]) -> bytes:
    return b"".join(_HEAD.pack(nth, len(encoded)) + encoded for nth, encoded in minutes.items() if encoded)


def _encode(counters: int) -> bytes:
    """Empty when all counters are zero."""
    if counters < 0:
        raise sqlite3.DatabaseError("an interval has counted less than it loses")
    wide = counters.to_bytes(_WIDTH * -(-counters.bit_length() // (8 * _WIDTH)), "little")
    if counters & _ABOVE_A_BYTE:
        return b"\x04" + wide
    return b"\x01" + wide[::_WIDTH] if wide else b""


def _decode(encoded: bytes) -> int:
    if encoded[:1] != b"\x01":
        return int.from_bytes(encoded[1:], "little")
    wide = bytearray(_WIDTH * (len(encoded) - 1))
    wide[::_WIDTH] = encoded[1:]
    return int.from_bytes(wide, "little")


def _unpacked(counters: int) -> Counters:
    try:
        return array("I", counters.to_bytes(_WIDTH * COUNTERS, "little"))
    except OverflowError as damage:
        raise sqlite3.DatabaseError("an interval has more counters than there are") from damage
