"""The table of strategies at 100,000 rows: time per page, and the cost of results that stream in.

Without HTTP and broker, which cost the same for every query. The data is made up and always the same.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from random import Random

from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.listing import SortBy, StrategyQuery
from pyoco_server.domain.pdca.strategies import Health, Strategy
from pyoco_server.domain.pdca.strategy_table import Latest, StrategyTable

FAMILIES = ("meanrev", "momentum", "carry", "breakout", "pairs")
INSTRUMENTS = [f"PAIR{number}" for number in range(200)]
TAGS = [f"tag-{number}" for number in range(30)]
DENSE, MIDDLE = StrategyQuery(enabled=True), 45_000

QUERIES = {
    "tags": StrategyQuery(tags_any=("tag-1", "tag-2")),
    "health": StrategyQuery(health=(Health.HEALTHY,)),
    "instrument": StrategyQuery(instruments=("PAIR1", "PAIR2"), sort_by=SortBy.HEALTH),
    "middle": StrategyQuery(enabled=True, offset=MIDDLE),
    "last": StrategyQuery(enabled=True, offset=2 * MIDDLE - 100, sort_by=SortBy.INSTRUMENT),
    "text": StrategyQuery(text="carry number 9", sort_by=SortBy.ID),
    "all": StrategyQuery(text="strategy", enabled=True, tags_any=tuple(TAGS[:20]), offset=MIDDLE),
}


def filled(count: int) -> StrategyTable:
    random = Random(1)
    strategies = [
        Strategy(
            id=StrategyId(f"strat.{random.choice(FAMILIES)}.{number:06}"),
            title=f"Strategy {random.choice(FAMILIES)} number {number}",
            instrument=random.choice(INSTRUMENTS),
            enabled=random.random() < 0.9,
            tags=tuple(random.sample(TAGS, 3)),
        )
        for number in range(count)
    ]
    news = [
        Latest(None, strategy.id, 1e9 + random.random() * 1e6, random.choice(list(Health)))
        for strategy in strategies[: count * 4 // 5]
    ]
    return StrategyTable(strategies, news)


def first_page_ms(table: StrategyTable, *, count: int) -> float:
    """The median of the first page without a filter."""
    return statistics.median(_timed_ms(lambda: table.page(StrategyQuery())) for _ in range(count))


def page_ms(table: StrategyTable, query: StrategyQuery, *, count: int) -> float:
    """The median of a page while a result comes in before each."""
    return statistics.median(_after_a_result(table, number, query) for number in range(count))


def new_texts(count: int) -> dict[str, list[str]]:
    """Texts to search for the first time, by kind. None contains an earlier one, whose matches would be used."""
    return {
        "new_text": [f"ber {nth}" for nth in reversed(range(count))],
        "new_word": [*FAMILIES, "strategy", "number"],
        "new_phrase": [f"{family} number" for family in FAMILIES],
    }


def new_text_ms(table: StrategyTable, texts: Iterable[str]) -> float:
    """The median of a page by a text that was not searched before."""
    return statistics.median(
        _timed_ms(lambda: table.page(StrategyQuery(text=text, sort_by=SortBy.ID)))  # noqa: B023 — called at once
        for text in texts
    )


def results_per_sec(table: StrategyTable, count: int) -> float:
    """New results per second of processor time."""
    ids = table.ids(StrategyQuery())[:: max(1, len(table) // count)]
    began = time.process_time()
    for number, strategy_id in enumerate(ids):
        table.note(Latest(None, strategy_id, 2e9 + number, list(Health)[number % 3]))
    return len(ids) / (time.process_time() - began)


def _after_a_result(table: StrategyTable, number: int, query: StrategyQuery) -> float:
    strategy_id = table.page(StrategyQuery(descending=False)).items[0].strategy.id
    table.note(Latest(None, strategy_id, 3e9 + number, Health.HEALTHY))
    return _timed_ms(lambda: table.page(query))


def _timed_ms(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return (time.process_time() - began) * 1000
