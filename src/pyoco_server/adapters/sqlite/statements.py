"""Building blocks of SQL statements; every value is bound."""

# ruff: noqa: S608 — only constants are put into SQL; every value is bound.

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

import orjson

Param = str | int | float | bytes
Condition = tuple[str, tuple[Param, ...]]

# SQLite takes 500 parts, and each part adds to the cost of every row.
MAX_MERGED = 100


def equal(**columns: Param | None) -> list[Condition]:
    """Columns that have these values; None means any."""
    return [(f"{name} = ?", (value,)) for name, value in columns.items() if value is not None]


def all_of(conditions: Sequence[Condition]) -> tuple[str, tuple[Param, ...]]:
    """SQL to append to a first condition, and its values."""
    sql = "".join(f" AND {condition}" for condition, _ in conditions)
    return sql, tuple(value for _, values in conditions for value in values)


def merged(
    reader: sqlite3.Connection, part: str, values: Sequence[tuple[Param, ...]], *, order: str, limit: int | None = None
) -> Iterator[sqlite3.Cursor]:
    """One part per tuple of values, each read by its index and merged row by row into the order.

    More than `MAX_MERGED` parts become several cursors; the caller merges their rows.
    """
    for first in range(0, len(values), MAX_MERGED):
        some = values[first : first + MAX_MERGED]
        sql = " UNION ALL ".join([part] * len(some)) + f" ORDER BY {order} LIMIT ?"
        yield reader.execute(sql, (*(value for row in some for value in row), -1 if limit is None else limit))


def json_array(values: Sequence[int] | Sequence[str]) -> str:
    """For `json_each`: one value and one text of SQL, however many there are."""
    return orjson.dumps(values).decode()


def undamaged(summary: bytes, checksum: int) -> bytes:
    """The summary, if it is the one that was stored."""
    if crc32(summary) != checksum:
        raise sqlite3.DatabaseError("a summary differs from its checksum")
    return summary


class KeyIds(dict[tuple[Any, ...], int]):
    """The row ids of keys in a table, looked up once; a missing row is inserted."""

    def __init__(self, writer: sqlite3.Connection, table: str, id_column: str, *columns: str) -> None:
        super().__init__()
        self._writer = writer
        condition = " AND ".join(f"{column} = ?" for column in columns)
        self._find = f"SELECT {id_column} FROM {table} WHERE {condition}"
        self._insert = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"

    def __missing__(self, key: tuple[Any, ...]) -> int:
        self._writer.execute(self._insert, key)
        self[key] = int(self._writer.execute(self._find, key).fetchone()[0])
        return self[key]
