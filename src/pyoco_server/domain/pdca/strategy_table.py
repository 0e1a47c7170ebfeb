"""The strategies of one tenant in memory: any filter, order and page of 100,000 in about two milliseconds.

    filters ─▶ one set of slots per value of a field (bits of a number) ─▶ united and intersected, counted
    page    ─▶ the order of the sort field, whose chunks are counted in the same way

Why not in SQLite: it takes about 100 ns a row, and a page with an exact total needs all of them.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.listing import ListedStrategy, SortBy, StrategyPage, StrategyQuery
from pyoco_server.domain.pdca.slots import SlotOrder, SlotSet, slots_of, union
from pyoco_server.domain.pdca.strategies import Health, Strategy
from pyoco_server.domain.pdca.text_index import TextIndex

# Sorting so many matches is cheaper than walking to them.
FEW_MATCHES = 1_000
# Between id and title; no text that is searched may match across it.
_BETWEEN = "\n"


class Latest(NamedTuple):
    """The newest result of a strategy; `checked_at` is None when it has none (any more)."""

    tenant_id: str | None
    strategy_id: StrategyId
    checked_at: float | None
    health: Health


Facet = tuple[str, object]

# In the slots of removed rows, which are in no set and in no order.
_GONE = ListedStrategy(strategy=Strategy(id=StrategyId(""), title="", instrument=""))


class StrategyTable:
    """Rows by id. Results of strategies that are not registered are remembered: these may be registered (again)."""

    def __init__(self, strategies: Iterable[Strategy] = (), latest: Iterable[Latest] = ()) -> None:
        self._latest: dict[StrategyId, Latest] = {each.strategy_id: each for each in latest}
        self._rows: list[ListedStrategy] = [self._row(strategy) for strategy in strategies]
        self._texts = TextIndex(map(_searched, self._rows))
        self._slots = {row.strategy.id: slot for slot, row in enumerate(self._rows)}
        self._free: list[int] = []
        by_facet: defaultdict[Facet, list[int]] = defaultdict(list)
        for slot, row in enumerate(self._rows):
            for facet in _facets(row):
                by_facet[facet].append(slot)
        self._facets = {facet: SlotSet(slots) for facet, slots in by_facet.items()}
        self._orders = {sort_by: SlotOrder(self._key_of(sort_by), self._slots.values()) for sort_by in SortBy}

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, strategy_id: StrategyId) -> ListedStrategy | None:
        slot = self._slots.get(strategy_id)
        return None if slot is None else self._rows[slot]

    def put(self, strategy: Strategy) -> None:
        slot = self._slots.get(strategy.id)
        if slot is None:
            slot = self._free.pop() if self._free else len(self._rows)
            if slot == len(self._rows):
                self._rows.append(_GONE)
        self._replace(slot, self._row(strategy))

    def remove(self, strategy_id: StrategyId) -> None:
        """Forget the strategy, but not its results."""
        slot = self._slots.get(strategy_id)
        if slot is not None:
            self._replace(slot, _GONE)
            self._free.append(slot)

    def note(self, latest: Latest) -> None:
        """The strategy has another newest result."""
        if latest.checked_at is None:
            self._latest.pop(latest.strategy_id, None)
        else:
            self._latest[latest.strategy_id] = latest
        slot = self._slots.get(latest.strategy_id)
        if slot is not None:
            self._replace(slot, self._row(self._rows[slot].strategy))

    def forget_results(self) -> None:
        """No results are known any more: the log is read again."""
        for latest in list(self._latest.values()):
            self.note(latest._replace(checked_at=None, health=Health.UNKNOWN))

    def page(self, query: StrategyQuery) -> StrategyPage:
        """The strategies of one page, and the exact number of all that match."""
        bits = self._matching(query)
        total = len(self._slots) if bits is None else bits.bit_count()
        first, behind = min(query.offset, total), min(query.offset + query.limit, total)
        start, stop = (total - behind, total - first) if query.descending else (first, behind)
        order = self._orders[query.sort_by]
        if start == stop:
            slots: Sequence[int] = ()
        elif bits is None:
            slots = order.slice(start, stop)
        elif total <= FEW_MATCHES:
            slots = order.sorted(slots_of(bits))[start:stop]
        else:
            slots = order.slice_of(bits, len(self._rows), start, stop)
        return StrategyPage(
            items=[self._rows[slot] for slot in (reversed(slots) if query.descending else slots)], total=total
        )

    def ids(self, query: StrategyQuery) -> list[StrategyId]:
        """The ids of all matching strategies, sorted."""
        bits = self._matching(query)
        slots = self._slots.values() if bits is None else slots_of(bits)
        return sorted(self._rows[slot].strategy.id for slot in slots)

    def _matching(self, query: StrategyQuery) -> int | None:
        """The bits of the matching rows; None when nothing is filtered."""
        wanted: list[list[Facet]] = [
            [("tag", tag) for tag in query.tags_any],
            [("health", health) for health in query.health],
            [("instrument", instrument) for instrument in query.instruments],
            [] if query.enabled is None else [("enabled", query.enabled)],
        ]
        parts = [union(self._facets[each] for each in some if each in self._facets) for some in wanted if some]
        if query.text:
            text = query.text.casefold()
            parts.append(0 if _BETWEEN in text else self._texts.containing(text))
        return reduce(operator.and_, parts) if parts else None

    def _replace(self, slot: int, row: ListedStrategy) -> None:
        """Put a row in the place of another; only what differs is touched."""
        before = self._rows[slot]
        moved = [order for sort_by, order in self._orders.items() if _KEYS[sort_by](before) != _KEYS[sort_by](row)]
        if before is not _GONE:
            for order in moved:
                order.remove(slot)
            del self._slots[before.strategy.id]
        self._rows[slot] = row
        if row is not _GONE:
            for order in moved:
                order.add(slot)
            self._slots[row.strategy.id] = slot
        had, has = set(_facets(before)), set(_facets(row))
        for facet in had - has:
            self._facets[facet].discard(slot)
            if not self._facets[facet]:
                del self._facets[facet]
        for facet in has - had:
            self._facets.setdefault(facet, SlotSet()).add(slot)
        self._texts.replace(slot, _searched(row))

    def _key_of(self, sort_by: SortBy) -> Callable[[int], Any]:
        key, rows = _KEYS[sort_by], self._rows
        return lambda slot: key(rows[slot])

    def _row(self, strategy: Strategy) -> ListedStrategy:
        latest = self._latest.get(strategy.id)
        if latest is None:
            return ListedStrategy(strategy=strategy)
        return ListedStrategy(strategy=strategy, last_health=latest.health, last_checked_at=latest.checked_at)


def _by_time(row: ListedStrategy) -> tuple[float, str]:
    return (float("-inf") if row.last_checked_at is None else row.last_checked_at, row.strategy.id)


_KEYS: Mapping[SortBy, Callable[[ListedStrategy], Any]] = {
    SortBy.LAST_CHECKED_AT: _by_time,
    SortBy.ID: lambda row: row.strategy.id,
    SortBy.INSTRUMENT: lambda row: (row.strategy.instrument, row.strategy.id),
    SortBy.HEALTH: lambda row: (row.last_health.value, row.strategy.id),
}


def _facets(row: ListedStrategy) -> Iterable[Facet]:
    """The values of the row by which it is found."""
    if row is _GONE:
        return ()
    strategy = row.strategy
    plain = (("enabled", strategy.enabled), ("health", row.last_health), ("instrument", strategy.instrument))
    return (*plain, *(("tag", tag) for tag in strategy.tags))


def _searched(row: ListedStrategy) -> str:
    """What is searched for a text; never empty for a row."""
    return "" if row is _GONE else f"{row.strategy.id}{_BETWEEN}{row.strategy.title.casefold()}"
