"""The table of strategies in memory, compared with a plain list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.domain.pdca import slots, strategy_table, text_index
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.listing import ListedStrategy, SortBy, StrategyQuery
from pyoco_server.domain.pdca.slots import SlotOrder, SlotSet, bits_of, bits_where, slots_of, union
from pyoco_server.domain.pdca.strategies import Health, Strategy
from pyoco_server.domain.pdca.strategy_table import Latest, StrategyTable

IDS = st.sampled_from([StrategyId(f"s{number}") for number in range(12)])
TAGS, INSTRUMENTS = ("x", "y", "z"), ("EURUSD", "USDJPY")
STRATEGIES = st.builds(
    Strategy,
    id=IDS,
    title=st.sampled_from(["Alpha", "alphabet", "Beta %", "be_a", "STRASSE", "straße"]),
    instrument=st.sampled_from(INSTRUMENTS),
    enabled=st.booleans(),
    tags=st.lists(st.sampled_from(TAGS), unique=True).map(tuple),
)
LATEST = st.builds(
    Latest,
    tenant_id=st.none(),
    strategy_id=IDS,
    checked_at=st.one_of(st.none(), st.sampled_from([1.0, 2.0, 3.0])),
    health=st.sampled_from(Health),
).map(lambda latest: latest if latest.checked_at is not None else latest._replace(health=Health.UNKNOWN))
QUERIES = st.builds(
    StrategyQuery,
    text=st.sampled_from(["", "a", "alpha", "s1", "%", "_", "BETA", "ss", "nothing", "1\na"]),
    tags_any=st.lists(st.sampled_from([*TAGS, "w"]), max_size=2).map(tuple),
    health=st.lists(st.sampled_from(Health), max_size=2).map(tuple),
    instruments=st.lists(st.sampled_from(INSTRUMENTS), max_size=1).map(tuple),
    enabled=st.sampled_from([None, True, False]),
    sort_by=st.sampled_from(SortBy),
    descending=st.booleans(),
    offset=st.integers(0, 14),
    limit=st.integers(1, 5),
)
STEPS = st.lists(st.one_of(STRATEGIES, IDS.map(lambda strategy_id: ("remove", strategy_id)), LATEST, QUERIES))


def is_in(row: ListedStrategy, query: StrategyQuery) -> bool:
    strategy, text = row.strategy, query.text.casefold()
    return (
        (text in strategy.id or text in strategy.title.casefold())
        and (not query.tags_any or bool({*query.tags_any} & {*strategy.tags}))
        and (not query.health or row.last_health in query.health)
        and (not query.instruments or strategy.instrument in query.instruments)
        and query.enabled in (None, strategy.enabled)
    )


def naive_page(rows: Iterable[ListedStrategy], query: StrategyQuery) -> tuple[list[ListedStrategy], int]:
    found = [row for row in rows if is_in(row, query)]
    keys: dict[SortBy, Callable[[ListedStrategy], Any]] = {
        SortBy.LAST_CHECKED_AT: lambda row: row.last_checked_at or 0.0,
        SortBy.ID: lambda row: row.strategy.id,
        SortBy.INSTRUMENT: lambda row: row.strategy.instrument,
        SortBy.HEALTH: lambda row: row.last_health.value,
    }
    key = keys[query.sort_by]
    found.sort(key=lambda row: (key(row), row.strategy.id), reverse=query.descending)
    return found[query.offset : query.offset + query.limit], len(found)


def rows_of(registered: Mapping[StrategyId, Strategy], latest: Mapping[StrategyId, Latest]) -> list[ListedStrategy]:
    rows = []
    for strategy_id, strategy in registered.items():
        known = latest.get(strategy_id)
        checked_at, health = (known.checked_at, known.health) if known is not None else (None, Health.UNKNOWN)
        rows.append(ListedStrategy(strategy=strategy, last_checked_at=checked_at, last_health=health))
    return rows


@given(
    STEPS, st.lists(STRATEGIES, unique_by=lambda one: one.id), st.lists(LATEST, unique_by=lambda one: one.strategy_id)
)
def test_every_page_is_that_of_a_plain_list(
    steps: list[object], strategies: list[Strategy], news: list[Latest]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "FEW", 2)
        patch.setattr(slots, "CHUNK", 2)
        patch.setattr(strategy_table, "FEW_MATCHES", 2)
        patch.setattr(text_index, "MAX_SEARCHED", 3)
        registered = {strategy.id: strategy for strategy in strategies}
        latest = {each.strategy_id: each for each in news if each.checked_at is not None}
        table = StrategyTable(strategies, latest.values())
        for step in steps:
            match step:
                case Strategy():
                    registered[step.id] = step
                    table.put(step)
                case Latest():
                    latest[step.strategy_id] = step
                    table.note(step)
                case StrategyQuery():
                    page = table.page(step)
                    assert (list(page.items), page.total) == naive_page(rows_of(registered, latest), step)
                    every = replace(step, sort_by=SortBy.ID, descending=False, offset=0, limit=99)
                    found, _ = naive_page(rows_of(registered, latest), every)
                    assert table.ids(step) == [row.strategy.id for row in found]
                case (_, strategy_id):
                    registered.pop(strategy_id, None)  # type: ignore[call-overload]
                    table.remove(strategy_id)  # type: ignore[arg-type]
        assert len(table) == len(registered)


def test_forgotten_results_leave_strategies_unchecked() -> None:
    strategy = Strategy(id=StrategyId("a"), title="A", instrument="X")
    table = StrategyTable([strategy], [Latest(None, strategy.id, 5.0, Health.HEALTHY)])

    table.forget_results()

    assert table.get(strategy.id) == ListedStrategy(strategy=strategy)
    assert table.page(StrategyQuery(health=(Health.HEALTHY,))).total == 0


@given(st.lists(st.sets(st.integers(0, 3000), max_size=400), max_size=3))
def test_a_union_has_the_slots_of_all_sets(some: list[set[int]]) -> None:
    sets = [SlotSet(slots) for slots in some]
    for one in sets:
        one.add(7)
        one.discard(5)

    bits = union(sets)

    wanted = set().union(*some, {7} if some else ()) - {5}
    assert slots_of(bits) == sorted(wanted)
    assert bits == bits_of(wanted) == bits_where(slot in wanted for slot in range(3001))


@given(st.lists(st.integers(0, 50), unique=True), st.lists(st.integers(0, 50), unique=True))
def test_an_order_stays_sorted(first: list[int], then: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "CHUNK", 2)
        order, present = SlotOrder(lambda slot: -slot, first), set(first)
        for slot in then:
            (order.remove if slot in present else order.add)(slot)
            present ^= {slot}

        assert order.slice(0, 99) == sorted(present, reverse=True)
