"""Lists of runs (last update first) and jobs (newest id first), each from an index in the order of the list.

    no label      ─▶ read the partitions of the query in order, merged, as far as the page goes
    few matches   ─▶ fetch the runs of the intersected posting lists and ranges and sort them
    many matches  ─▶ read the partitions in order and keep the runs that match
    error         ─▶ read the runs with an error in order and keep those whose error contains the text

Reading stays within the bounds of the blocks that can hold matches, so that labels and ranges of another time cost
nothing. A page of jobs ends after `MAX_READ` runs, one of a search after `MAX_SEARCHED`.
"""

# ruff: noqa: S608 — only constants of this module are put into SQL; every value is bound.

from __future__ import annotations

import heapq
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

from pyoco_server.adapters.sqlite.blocks import Bounds, bounds, conditions_within, few_within, key_range
from pyoco_server.adapters.sqlite.posting_lists import Matches, matching
from pyoco_server.adapters.sqlite.statements import Condition, all_of, equal, json_array, merged, undamaged
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, order_of, run_id_of
from pyoco_server.domain.queries.query import Listed, RunQuery, SearchPage, folded, terms_of

# Runs read for one page of jobs with labels: some milliseconds.
MAX_READ = 4096
# Errors read for one page of a search: some milliseconds, when each has as many characters as a list shows.
MAX_SEARCHED = 2000
# Fetching a run by its number costs about as much as reading so many from an index.
FETCH_COST = 5
# With more changes than this since the mark, one in the next few runs has changed: read all of them in order.
MAX_CHANGES_SORTED = 20_000

PARTITIONS = """
    SELECT partition, runs FROM partitions
    WHERE runs > 0 AND archived = :archived AND (:tenant_id IS NULL OR tenant_id = :tenant_id)
      AND (:status IS NULL OR status = :status)
      AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
"""
LISTED = """
    SELECT updated_at, run_id, summary, checksum FROM json_each(?) AS wanted CROSS JOIN runs ON number = wanted.value
"""

_STATUS_PARTITIONS = "SELECT partition FROM partitions WHERE runs > 0 AND status = ?"
_CHANGES = f"SELECT count(*) FROM (SELECT 1 FROM runs WHERE changed > ? LIMIT {MAX_CHANGES_SORTED + 1})"
_IN_PARTITIONS = "partition IN (SELECT value FROM json_each(?))"
# Greater than every key, and every id, of a run.
_ABOVE_ALL_KEYS = b"\xff" * 17
_ABOVE_ALL_IDS = "\U0010ffff"


class Partition(NamedTuple):
    partition: int
    runs: int


class Order(NamedTuple):
    columns: str
    by: str
    through: str = ""


class Keys(NamedTuple):
    """A range of `run_key`, without its end."""

    first: bytes
    behind: bytes

    def between(self, within: Bounds) -> Keys:
        # The least key above the newest one ends with a zero.
        return Keys(max(self.first, within.oldest_key), min(self.behind, within.newest_key + b"\0"))

    def conditions(self) -> list[Condition]:
        first: list[Condition] = [("run_key >= ?", (self.first,))] if self.first else []
        return [*first, ("run_key < ?", (self.behind,))]


LAST_UPDATE_FIRST = Order("updated_at, run_id", "updated_at DESC, run_id DESC")
NEWEST_ID_FIRST = Order("run_key", "run_key DESC")
ERRORS = Order("updated_at, run_id, submitted_at, flow, tag, error", LAST_UPDATE_FIRST.by, " INDEXED BY by_error")


def runs(reader: sqlite3.Connection, query: RunQuery) -> Sequence[Listed]:
    allowed = _partitions(reader, query)
    matches = _matching(reader, query, query.terms, archived=query.archived)
    if matches is not None and is_fetched(matches, allowed, query.limit):
        found = fetched(reader, LAST_UPDATE_FIRST, conditions_of(query), allowed, matches, limit=query.limit)
    else:
        if matches is not None or query.given_ranges:
            within = bounds(reader, matches, query)
            if within is None:
                return []
            query = _between(query, within)
        limit = query.limit if matches is None else None
        with in_order(reader, LAST_UPDATE_FIRST, conditions_of(query), allowed, limit=limit) as ordered:
            found = list(islice(_kept(ordered, matches), query.limit))
    return _listed(reader, [row[-1] for row in found])


def search(reader: sqlite3.Connection, query: RunQuery) -> SearchPage:
    allowed = _partitions(reader, query)
    matches = _matching(reader, query, query.terms, archived=query.archived)
    limit = query.limit + 1  # one more than asked for, so that the last page knows that it is the last
    found, unread = [], None
    if matches is not None and is_fetched(matches, allowed, limit):
        found = fetched(reader, LAST_UPDATE_FIRST, conditions_of(query), allowed, matches, limit=limit)
    else:
        between = query
        if matches is not None or query.given_ranges:
            within = bounds(reader, matches, query)
            if within is None:
                return SearchPage([], None)
            between = _between(query, within)
        # Other conditions would be tested before the limit counts.
        of_place = conditions_of(RunQuery(updated_after=between.updated_after, before=between.before))
        conditions: list[Condition] = [*of_place, ("error IS NOT NULL", ())]
        with in_order(reader, ERRORS, conditions, allowed, limit=MAX_SEARCHED) as ordered:
            found, unread = _first(limit, ordered, _is_found(query, matches), MAX_SEARCHED)
    page = found[: query.limit]
    following = page[-1] if len(found) > len(page) else unread
    shown = _listed(reader, [row[-1] for row in page])
    return SearchPage(shown, None if following is None else (following[0], following[1]))


def _is_found(query: RunQuery, matches: Matches | None) -> Callable[[Any], bool]:
    text = folded(query.error or "")

    def is_found(row: Any) -> bool:
        _, run_id, submitted_at, flow, tag, error, number = row
        return (
            text in error
            and query.flow in (None, flow)
            and query.tag in (None, tag)
            and query.holds(submitted_at, run_id)
            and (matches is None or matches.has(number))
        )

    return is_found


def count(reader: sqlite3.Connection, query: RunQuery) -> int:
    return sum(each.runs for each in _partitions(reader, query))


def jobs(reader: sqlite3.Connection, query: JobQuery) -> JobPage:
    allowed = _partitions(reader, RunQuery(statuses=query.status, tenant_id=query.tenant_id))
    matches = _matching(reader, query, terms_of(query.labels, None), archived=False)
    limit = query.limit + 1  # one more than asked for, so that the last page knows that it is the last
    keys = keys_of(query)
    found, unread = [], None
    if matches is not None and is_fetched(matches, allowed, limit):
        conditions = [*keys.conditions(), *conditions_within(query)]
        found = fetched(reader, NEWEST_ID_FIRST, conditions, allowed, matches, limit=limit)
    else:
        if matches is not None or query.given_ranges:
            within = bounds(reader, matches, query)
            if within is None:
                return JobPage(runs=[], following=None)
            keys = keys.between(within)
        # The index of the keys has no ids, but a prefix is a range of keys, apart from the longer ones of foreign ids.
        conditions = [*keys.conditions(), *conditions_within(query, but_prefix=True)]
        if query.id_prefix is not None:
            conditions.append(("length(run_key) = 16", ()))
        with in_order(reader, NEWEST_ID_FIRST, conditions, allowed, limit=MAX_READ) as ordered:
            found, unread = _first(limit, ordered, lambda row: matches is None or matches.has(row[-1]), MAX_READ)
    page = found[: query.limit]
    following = page[-1] if len(found) > len(page) else unread
    shown = _listed(reader, [number for _, number in page])
    return JobPage(runs=shown, following=None if following is None else run_id_of(following[0]))


def changed(reader: sqlite3.Connection, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
    allowed = _partitions(reader, query)
    if not allowed:
        return []
    few = reader.execute(_CHANGES, (since,)).fetchone()[0] <= MAX_CHANGES_SORTED
    matches = matching(reader, query.terms, tenant_id=query.tenant_id, archived=query.archived)
    with closing(changes(reader, query, allowed, since=since, after=after, upto=upto, sort=few)) as ordered:
        found = list(islice(_kept(ordered, matches), query.limit))
    return _listed(reader, [number for _, number in found])


def oldest(
    reader: sqlite3.Connection,
    status: str,
    *,
    tag: str | None = None,
    after: tuple[float, str] | None = None,
    updated_before: float | None = None,
    limit: int,
) -> Sequence[Listed]:
    behind: list[Condition] = [("(updated_at, run_id) > (?, ?)", after)] if after is not None else []
    before: list[Condition] = [("updated_at < ?", (updated_before,))] if updated_before is not None else []
    where, params = all_of([*equal(tag=tag), *behind, *before])
    part = f"SELECT updated_at, run_id, summary, checksum FROM runs WHERE partition = ?{where}"
    values = [(partition, *params) for partition in status_partitions(reader, status)]
    cursors = merged(reader, part, values, order="updated_at, run_id", limit=limit)
    return _undamaged(sorted(chain.from_iterable(cursors))[:limit])


def status_partitions(reader: sqlite3.Connection, status: str) -> list[int]:
    return [partition for (partition,) in reader.execute(_STATUS_PARTITIONS, (status,))]


def is_fetched(matches: Matches, allowed: Sequence[Partition], limit: int) -> bool:
    """Whether fetching and sorting all matches is expected to be cheaper than reading the partitions in order."""
    # In order, `limit` matches are expected among the first `limit * runs / count` runs.
    return matches.count() ** 2 * FETCH_COST <= limit * sum(each.runs for each in allowed)


@contextmanager
def in_order(
    reader: sqlite3.Connection,
    order: Order,
    conditions: Sequence[Condition],
    allowed: Sequence[Partition],
    *,
    limit: int | None,
) -> Iterator[Iterable[Any]]:
    """The columns of the order and the number of each run, read as far as they are asked for."""
    where, params = all_of(conditions)
    part = f"SELECT {order.columns}, number FROM runs{order.through} WHERE partition = ?{where}"
    values = [(each.partition, *params) for each in allowed]
    with ExitStack() as stack:
        # Closed in any case: a statement that is not read to its end would keep the transaction's snapshot open.
        found = merged(reader, part, values, order=order.by, limit=limit)
        cursors = [stack.enter_context(closing(cursor)) for cursor in found]
        yield cursors[0] if len(cursors) == 1 else heapq.merge(*cursors, reverse=True)


def fetched(
    reader: sqlite3.Connection,
    order: Order,
    conditions: Sequence[Condition],
    allowed: Sequence[Partition],
    matches: Matches,
    *,
    limit: int,
) -> list[Any]:
    """The same page from these runs."""
    where, params = all_of(conditions)
    sql = (
        f"SELECT {order.columns}, number FROM json_each(?) AS wanted CROSS JOIN runs ON number = wanted.value"
        f" WHERE {_IN_PARTITIONS}{where} ORDER BY {order.by} LIMIT ?"
    )
    return reader.execute(sql, (json_array(matches.numbers()), _numbers(allowed), *params, limit)).fetchall()


def changes(
    reader: sqlite3.Connection,
    query: RunQuery,
    allowed: Sequence[Partition],
    *,
    since: int,
    after: str,
    upto: str,
    sort: bool,
) -> sqlite3.Cursor:
    """(run_id, number) of what changed behind `since`, by id: by sorting the changes, or by reading every run."""
    where, params = all_of(conditions_of(query))
    index = "by_change" if sort else "by_id"
    sql = (
        f"SELECT run_id, number FROM runs INDEXED BY {index} WHERE changed > ? AND run_id > ? AND run_id <= ?"
        f" AND {_IN_PARTITIONS}{where} ORDER BY run_id"
    )
    return reader.execute(sql, (since, after, upto, _numbers(allowed), *params))


def _partitions(reader: sqlite3.Connection, query: RunQuery) -> list[Partition]:
    values = {
        "archived": query.archived,
        "status": query.status,
        "statuses": json_array(query.statuses) if query.statuses else None,
        "tenant_id": query.tenant_id,
    }
    return [Partition(*row) for row in reader.execute(PARTITIONS, values)]


def _matching(
    reader: sqlite3.Connection, query: RunQuery | JobQuery, terms: Sequence[str], *, archived: bool
) -> Matches | None:
    """The runs with these terms, and within the ranges of the query as far as these hold few; None: not known."""
    matches = matching(reader, terms, tenant_id=query.tenant_id, archived=archived)
    for few in few_within(reader, query):
        matches = few if matches is None else matches.intersection(few)
    return matches


def _first(
    limit: int, ordered: Iterable[Any], is_wanted: Callable[[Any], bool], most: int
) -> tuple[list[Any], Any | None]:
    """The first wanted rows among the first `most`, and the last of these if more may follow."""
    found: list[Any] = []
    for nth, row in enumerate(ordered, start=1):
        if is_wanted(row):
            found.append(row)
        if len(found) == limit:
            break
        if nth == most:
            return found, row
    return found, None


def _kept(ordered: Iterable[Any], matches: Matches | None) -> Iterable[Any]:
    return ordered if matches is None else (row for row in ordered if matches.has(row[-1]))


def _listed(reader: sqlite3.Connection, found: Sequence[int]) -> list[Listed]:
    return _undamaged(reader.execute(LISTED, (json_array(found),)))


def _undamaged(rows: Iterable[Any]) -> list[Listed]:
    return [Listed(updated_at, run_id, undamaged(summary, stored)) for updated_at, run_id, summary, stored in rows]


def _between(query: RunQuery, within: Bounds) -> RunQuery:
    newest = (within.newest_update, _ABOVE_ALL_IDS)
    below_oldest = math.nextafter(within.oldest_update, -math.inf)
    return replace(
        query,
        before=newest if query.before is None else min(query.before, newest),
        updated_after=below_oldest if query.updated_after is None else max(query.updated_after, below_oldest),
    )


def conditions_of(query: RunQuery) -> list[Condition]:
    conditions = equal(flow=query.flow, tag=query.tag)
    if query.updated_after is not None:
        conditions.append(("updated_at > ?", (query.updated_after,)))
    if query.error is not None:
        conditions.append(("instr(error, ?) > 0", (folded(query.error),)))
    if query.before is not None:
        conditions.append(("(updated_at, run_id) < (?, ?)", query.before))
    return conditions + conditions_within(query)


def keys_of(query: JobQuery) -> Keys:
    first, behind = (b"", _ABOVE_ALL_KEYS) if query.id_prefix is None else key_range(query.id_prefix)
    return Keys(first, behind if query.before is None else min(behind, order_of(query.before)))


def _numbers(allowed: Sequence[Partition]) -> str:
    return json_array([each.partition for each in allowed])
