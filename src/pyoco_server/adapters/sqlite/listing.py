"""SQL for lists of runs: the shelves or cells of a query, each read in order by its index, merged. It runs nothing.

A list costs what its page costs, whatever is stored and however rare the matches are: the filters are the head of an
index and the order is its tail. SQLite merges the parts of an ordered UNION ALL row by row. Labels and YAML have no
column, so what has them is found among the families first; where too many families have them, a list walks down its
shelves and asks each row: then they are common, and met soon.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from pyoco_server.adapters.sqlite.cells import Cell
from pyoco_server.domain.queries.query import RunQuery

Param = str | int | float | bytes
Condition = tuple[str, tuple[Param, ...]]

SHELVES = """
    SELECT shelf FROM shelves
    WHERE runs > 0 AND archived = :archived
      AND (:status IS NULL OR status = :status) AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
      AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
"""
UNFINISHED_SHELVES = "SELECT shelf FROM shelves WHERE runs > 0 AND status = ?"
AT_WORK = "SELECT run_id, revision FROM runs WHERE shelf IN (SELECT value FROM json_each(?)) LIMIT ?"
KNOWN = """
    SELECT run_id, version, status FROM runs JOIN shelves USING (shelf)
    WHERE run_id IN (SELECT value FROM json_each(?))
"""
TENANTS = """
    SELECT run_id, tenant_id FROM runs JOIN shelves USING (shelf)
    WHERE run_id IN (SELECT value FROM json_each(?))
"""
CELLS = """
    SELECT cells.family, shelf, runs FROM json_each(?) AS wanted CROSS JOIN cells ON cells.family = wanted.value
    WHERE shelf IN (SELECT value FROM json_each(?))
"""
LAST_RUN_ID = "SELECT coalesce(max(run_id), '') FROM runs"
# Up to here terms are counted, to begin with the rarest; beyond, all are common.
MAX_COUNTED = 2000
TERM_FAMILIES = f"SELECT count(*) FROM (SELECT 1 FROM terms WHERE term = ? LIMIT {MAX_COUNTED})"
# SQLite takes 500 parts, and each part adds to the cost of every row.
MAX_MERGED = 100
# Of so many families the cells can be looked up, and so many runs fetched and sorted, in the time of a list.
MAX_FAMILIES = 1000
MAX_GATHERED = 1000
# With more changes than this since the mark, one in the next few runs is a change: look at all of them in order.
MAX_CHANGES_SORTED = 20_000
CHANGES = f"SELECT count(*) FROM (SELECT 1 FROM runs WHERE changed > ? LIMIT {MAX_CHANGES_SORTED + 1})"

_NEWEST_FIRST = "updated_at DESC, run_id DESC"
_OLDEST_FIRST = "updated_at, run_id"
_COLUMNS = "updated_at, run_id, summary"
_ON_SHELVES = "runs.shelf IN (SELECT value FROM json_each(?))"
_HAS_TERM = "EXISTS (SELECT 1 FROM terms AS theirs WHERE theirs.term = ? AND theirs.family = runs.family)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One SELECT and its values."""

    sql: str
    params: tuple[Param, ...]


def shelves(query: RunQuery) -> dict[str, Param | None]:
    """The values of `SHELVES`."""
    statuses = orjson.dumps(query.statuses).decode() if query.statuses else None
    return {
        "archived": query.archived,
        "status": query.status,
        "statuses": statuses,
        "tenant_id": query.tenant_id,
    }


def in_order(query: RunQuery, shelves: Sequence[int]) -> list[Statement]:
    """For `Listed`, newest first; of several statements each gives a page, to be merged."""
    where, params = all_of([*equal(flow=query.flow, tag=query.tag), *_terms(query), *_span(query)])
    part = f"SELECT {_COLUMNS} FROM runs WHERE shelf = ?{where}"
    return merged(part, [(shelf, *params) for shelf in shelves], order=_NEWEST_FIRST, limit=query.limit)


def families(query: RunQuery, terms: Sequence[str]) -> Statement:
    """For the families of the query's flow, tag and terms; the first of the terms should be the rarest."""
    where, params = all_of(equal(flow=query.flow, tag=query.tag))
    if not terms:
        return Statement(sql=f"SELECT family FROM families WHERE true{where} LIMIT {MAX_FAMILIES + 1}", params=params)
    first, *rest = terms
    joins = "".join(
        f" CROSS JOIN terms AS t{n} ON t{n}.term = ? AND t{n}.family = t0.family" for n in range(1, len(terms))
    )
    joins += " CROSS JOIN families ON families.family = t0.family" if where else ""
    sql = f"SELECT t0.family FROM terms AS t0{joins} WHERE t0.term = ?{where} LIMIT {MAX_FAMILIES + 1}"
    return Statement(sql=sql, params=(*rest, first, *params))


def by_cells(query: RunQuery, found: Sequence[Cell]) -> list[Statement]:
    """The same page as `in_order`, merged from these cells."""
    where, params = all_of(_span(query))
    part = f"SELECT {_COLUMNS} FROM runs WHERE family = ? AND shelf = ?{where}"
    return merged(part, [(*cell, *params) for cell in found], order=_NEWEST_FIRST, limit=query.limit)


def gathered(query: RunQuery, families: Sequence[int], shelves: Sequence[int]) -> list[Statement]:
    """The same page, from the few runs of many families, sorted."""
    where, params = all_of(_span(query))
    sql = (
        f"SELECT {_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN runs ON runs.family = wanted.value"
        f" WHERE {_ON_SHELVES}{where} ORDER BY {_NEWEST_FIRST} LIMIT ?"
    )
    return [Statement(sql=sql, params=(numbers(families), numbers(shelves), *params, query.limit))]


def changed(
    query: RunQuery, shelves: Sequence[int], *, since: int, after: str, upto: str, sort: bool
) -> list[Statement]:
    """For `Listed` of what changed behind `since`, by id: by sorting the changes, or by looking at every run."""
    where, params = all_of([*equal(flow=query.flow, tag=query.tag), *_terms(query), *_span(query)])
    index = "by_change" if sort else "by_id"
    sql = (
        f"SELECT {_COLUMNS} FROM runs INDEXED BY {index} WHERE changed > ? AND run_id > ? AND run_id <= ?"
        f" AND {_ON_SHELVES}{where} ORDER BY run_id LIMIT ?"
    )
    return [Statement(sql=sql, params=(since, after, upto, numbers(shelves), *params, query.limit))]


def numbers(values: Sequence[int]) -> str:
    """For `json_each`: one value, and one text of SQL, however many there are."""
    return orjson.dumps(values).decode()


def oldest(shelves: Sequence[int], after: tuple[float, str] | None, limit: int) -> list[Statement]:
    """For `Listed`, oldest first, behind this key."""
    where, params = all_of([("(updated_at, run_id) > (?, ?)", after)] if after is not None else [])
    part = f"SELECT {_COLUMNS} FROM runs WHERE shelf = ?{where}"
    return merged(part, [(shelf, *params) for shelf in shelves], order=_OLDEST_FIRST, limit=limit)


def unfinished(shelves: Sequence[int], tag: str, updated_before: float, limit: int) -> list[Statement]:
    """For (updated_at, run_id), oldest first."""
    part = "SELECT updated_at, run_id FROM runs WHERE shelf = ? AND tag = ? AND updated_at < ?"
    return merged(part, [(shelf, tag, updated_before) for shelf in shelves], order=_OLDEST_FIRST, limit=limit)


def equal(**columns: Param | None) -> list[Condition]:
    """Columns that have these values; None means any."""
    return [(f"{name} = ?", (value,)) for name, value in columns.items() if value is not None]


def _terms(query: RunQuery) -> list[Condition]:
    return [(_HAS_TERM, (term,)) for term in query.terms]


def _span(query: RunQuery) -> list[Condition]:
    after = [("updated_at > ?", (query.updated_after,))] if query.updated_after is not None else []
    before = [("(updated_at, run_id) < (?, ?)", query.before)] if query.before is not None else []
    return [*after, *before]


def all_of(conditions: Sequence[Condition]) -> tuple[str, tuple[Param, ...]]:
    """SQL to go on with behind a first condition, and its values."""
    sql = "".join(f" AND {condition}" for condition, _ in conditions)
    return sql, tuple(value for _, values in conditions for value in values)


def merged(part: str, values: Sequence[tuple[Param, ...]], *, order: str, limit: int) -> list[Statement]:
    """The rows of all parts in order, each part read by its index; of several statements each gives a page."""
    pages = []
    for first in range(0, len(values), MAX_MERGED):
        some = values[first : first + MAX_MERGED]
        sql = " UNION ALL ".join([part] * len(some)) + f" ORDER BY {order} LIMIT ?"
        pages.append(Statement(sql=sql, params=(*(value for row in some for value in row), limit)))
    return pages
