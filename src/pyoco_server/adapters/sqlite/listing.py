"""SQL for lists of runs: the shelves a query allows, each read in order through its index, merged. It runs nothing.

A list costs what its page costs, whatever is stored and however rare the matches are: on every shelf the filters are
the head of an index and the order is its tail. SQLite merges the parts of an ordered UNION ALL row by row.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyoco_server.readmodel.query import RunQuery

Param = str | int | float

SHELVES = """
    SELECT shelf FROM shelves
    WHERE runs > 0 AND archived = :archived
      AND (:status IS NULL OR status = :status) AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
"""
UNFINISHED_SHELVES = "SELECT shelf FROM shelves WHERE runs > 0 AND status = ?"
KNOWN = """
    SELECT run_id, version, status FROM runs JOIN shelves USING (shelf)
    WHERE run_id IN (SELECT value FROM json_each(?))
"""
TENANTS = """
    SELECT run_id, tenant_id FROM runs JOIN shelves USING (shelf)
    WHERE run_id IN (SELECT value FROM json_each(?))
"""
# A label with no more runs than this is followed to its runs; a commoner one is looked for on the way down the list.
RARE_LABEL_RUNS = 500
LABEL_RUNS = f"SELECT count(*) FROM (SELECT 1 FROM labels WHERE label = ? LIMIT {RARE_LABEL_RUNS + 1})"
# SQLite takes 500 parts, and each part adds to the cost of every row.
MAX_MERGED_SHELVES = 100

_NEWEST_FIRST = "updated_at DESC, run_id DESC"
_OLDEST_FIRST = "updated_at, run_id"
_HAS_LABEL = "EXISTS (SELECT 1 FROM labels AS theirs WHERE theirs.label = ? AND theirs.id = runs.id)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One SELECT and its values."""

    sql: str
    params: tuple[Param, ...]


def in_order(query: RunQuery, shelves: Sequence[int]) -> list[Statement]:
    """For (updated_at, run_id, summary), newest first; of several statements each gives a page, to be merged."""
    where, params = _filters(query)
    part = f"SELECT updated_at, run_id, summary FROM runs WHERE shelf = ?{where}"
    return _merged(part, shelves, params, order=_NEWEST_FIRST, limit=query.limit)


def by_label(query: RunQuery, shelves: Sequence[int], label: str) -> list[Statement]:
    """The same page, from the few runs of one rare label."""
    where, params = _filters(query)
    allowed = ", ".join("?" * len(shelves))
    sql = (
        "SELECT updated_at, run_id, summary FROM labels CROSS JOIN runs USING (id)"
        f" WHERE label = ? AND shelf IN ({allowed}){where} ORDER BY {_NEWEST_FIRST} LIMIT ?"
    )
    return [Statement(sql=sql, params=(label, *shelves, *params, query.limit))]


def oldest(shelves: Sequence[int], tag: str, updated_before: float, limit: int) -> list[Statement]:
    """For (updated_at, run_id), oldest first."""
    part = "SELECT updated_at, run_id FROM runs WHERE shelf = ? AND tag = ? AND updated_at < ?"
    return _merged(part, shelves, (tag, updated_before), order=_OLDEST_FIRST, limit=limit)


def _filters(query: RunQuery) -> tuple[str, tuple[Param, ...]]:
    conditions = [(f"{column} = ?", value) for column, value in (("flow", query.flow), ("tag", query.tag))]
    conditions += [(_HAS_LABEL, label) for label in query.labels]
    asked = [(condition, value) for condition, value in conditions if value is not None]
    return "".join(f" AND {condition}" for condition, _ in asked), tuple(value for _, value in asked)


def _merged(part: str, shelves: Sequence[int], params: tuple[Param, ...], *, order: str, limit: int) -> list[Statement]:
    pages = []
    for first in range(0, len(shelves), MAX_MERGED_SHELVES):
        some = shelves[first : first + MAX_MERGED_SHELVES]
        sql = " UNION ALL ".join([part] * len(some)) + f" ORDER BY {order} LIMIT ?"
        pages.append(Statement(sql=sql, params=(*(value for shelf in some for value in (shelf, *params)), limit)))
    return pages
