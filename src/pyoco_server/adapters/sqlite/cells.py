"""Shelves, families and cells: where rows lie, and how many in each. It finds or makes them and keeps count."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import orjson

from pyoco_server.domain.queries.rows import RunRow

Cell = tuple[int, int]
"""A family and a shelf."""

_SHELF = "SELECT shelf FROM shelves WHERE status = ? AND tenant_id = ? AND archived = ?"
_NEW_SHELF = "INSERT INTO shelves (status, tenant_id, archived) VALUES (?, ?, ?)"
_FAMILY = "SELECT family FROM families WHERE signature = ?"
_NEW_FAMILY = "INSERT INTO families (signature, flow, tag, terms) VALUES (?, ?, ?, ?)"
_COUNT_CELL = """
    INSERT INTO cells (family, shelf, runs) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET runs = runs + excluded.runs
"""
_DEAD_FAMILIES = """
    SELECT family, terms FROM families
    WHERE family IN (SELECT value FROM json_each(?)) AND NOT EXISTS (SELECT 1 FROM cells WHERE family = families.family)
"""


class Cells:
    """The cells of one batch, each looked up once."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self._writer = writer
        self._shelves: dict[tuple[str, str, bool], int] = {}
        self._families: dict[bytes, int] = {}

    def of(self, row: RunRow) -> Cell:
        """Where the row belongs."""
        kind = (row.status, row.tenant_id, row.archived)
        shelf = self._shelves.get(kind)
        if shelf is None:
            shelf = self._shelves[kind] = self._shelf(kind)
        terms = orjson.dumps(row.terms)
        # A digest instead of the words themselves: 64 labels of 128 characters would be kept a second time.
        signature = blake2b(orjson.dumps((row.flow, row.tag)) + terms, digest_size=16).digest()
        family = self._families.get(signature)
        if family is None:
            family = self._families[signature] = self._family(signature, row, terms.decode())
        return family, shelf

    def _shelf(self, kind: tuple[str, str, bool]) -> int:
        found = self._writer.execute(_SHELF, kind).fetchone()
        return int(found[0]) if found else inserted_id(self._writer.execute(_NEW_SHELF, kind))

    def _family(self, signature: bytes, row: RunRow, terms: str) -> int:
        found = self._writer.execute(_FAMILY, (signature,)).fetchone()
        if found:
            return int(found[0])
        family = inserted_id(self._writer.execute(_NEW_FAMILY, (signature, row.flow, row.tag, terms)))
        self._writer.executemany("INSERT INTO terms VALUES (?, ?)", [(term, family) for term in row.terms])
        return family


def count(writer: sqlite3.Connection, moved: Counter[Cell]) -> None:
    """Add to the counts of cells and shelves; a family that has no run any more is forgotten with its terms."""
    shelves: Counter[int] = Counter()
    for (_, shelf), by in moved.items():
        shelves[shelf] += by
    writer.executemany("UPDATE shelves SET runs = runs + ? WHERE shelf = ?", [(by, s) for s, by in shelves.items()])
    writer.executemany(_COUNT_CELL, [(*cell, by) for cell, by in moved.items() if by])
    left = [cell for cell, by in moved.items() if by < 0]
    writer.executemany("DELETE FROM cells WHERE family = ? AND shelf = ? AND runs = 0", left)
    _forget_families(writer, {family for family, _ in left})


def _forget_families(writer: sqlite3.Connection, families: Iterable[int]) -> None:
    dead = writer.execute(_DEAD_FAMILIES, (orjson.dumps(list(families)).decode(),)).fetchall()
    for family, terms in dead:
        writer.executemany(
            "DELETE FROM terms WHERE term = ? AND family = ?", [(t, family) for t in orjson.loads(terms)]
        )
    writer.executemany("DELETE FROM families WHERE family = ?", [(family,) for family, _ in dead])


def inserted_id(inserted: sqlite3.Cursor) -> int:
    """The number that SQLite gave to the row."""
    if inserted.lastrowid is None:
        raise sqlite3.DatabaseError("an inserted row has no id")
    return inserted.lastrowid
