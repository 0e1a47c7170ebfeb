"""The time series of every RunIndex: those of the rows that are stored, however they came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.test_run_index_counters import Life, worlds
from pyoco_server.adapters.sqlite import stats as sqlite_stats
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.rows import Change
from pyoco_server.domain.queries.stats import HOUR, MINUTE, Figures, StatsQuery, figures
from pyoco_server.ports import RunIndex
from support.indexes import A, B, C, D, at, opened, removed, seen, take_in

NOON = 1_771_416_000


@pytest.fixture(params=["memory", "sqlite", "sqlite, counted at once"])
def index(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunIndex]:
    kind, _, counted_at_once = request.param.partition(",")
    if counted_at_once:
        monkeypatch.setattr(sqlite_stats, "MAX_UNCOUNTED", 1)
    with opened(kind) as index:
        yield index


def plain(index: RunIndex, query: StatsQuery) -> tuple[dict[int, list[int]], list[int]]:
    found = index.stats(query)
    return {start: list(counters) for start, counters in found.points.items()}, list(found.total)


def shown(index: RunIndex, step_sec: int = MINUTE, **filters: Any) -> dict[int, Figures]:
    """What is counted within two hours, by seconds from noon."""
    query = StatsQuery(since=NOON, until=NOON + 2 * HOUR, step_sec=step_sec, **filters)
    return {start - NOON: figures(counters) for start, counters in index.stats(query).points.items()}


def submitted(index: RunIndex, **filters: Any) -> int:
    query = StatsQuery(since=NOON, until=NOON + HOUR, step_sec=HOUR, **filters)
    return figures(index.stats(query).total).submitted


def ran(sequence: int, run_id: RunId, *, at_sec: float = 0.0, **fields: Any) -> Change:
    began = NOON + at_sec
    times = {"submitted_at": began, "start_time": began + 0.5, "end_time": began + 60.5}
    return seen(sequence, run_id, **{"status": "COMPLETED"} | times | fields)


def test_a_run_counts_by_minute_and_by_hour(index: RunIndex) -> None:
    take_in(index, ran(1, A, at_sec=3570.0), ran(2, B, status="FAILED", at_sec=10.0))

    by_minute, by_hour = shown(index), shown(index, HOUR)

    assert {start: found[:4] for start, found in by_minute.items()} == {
        0: (1, 0, 0, 0),
        60: (0, 0, 1, 0),
        3540: (1, 0, 0, 0),
        3600: (0, 1, 0, 0),
    }
    assert by_minute[60].run_p95_sec == pytest.approx(60.0, rel=0.1)
    assert {start: found[:4] for start, found in by_hour.items()} == {0: (2, 0, 1, 0), 3600: (0, 1, 0, 0)}
    assert by_hour[0].queue_p50_sec == pytest.approx(0.5, rel=0.1)


def test_filters_are_exact_for_any_tenant(index: RunIndex) -> None:
    take_in(
        index,
        ran(1, A, flow_name="f", tag="gpu", tenant_id="s"),
        ran(2, B, flow_name="f", tag="cpu", tenant_id="s"),
        ran(3, C, flow_name="f", tag="gpu", tenant_id="t"),
        ran(4, D, flow_name="g", tag="gpu"),
    )

    assert submitted(index) == 4
    assert [submitted(index, tenant_id=tenant) for tenant in ("s", "t", "u")] == [2, 1, 0]
    assert [submitted(index, flow=flow) for flow in ("f", "g", "")] == [3, 1, 0]
    assert [submitted(index, tag=tag) for tag in ("gpu", "cpu", "")] == [3, 1, 0]
    assert submitted(index, flow="f", tag="gpu") == 2
    assert submitted(index, flow="f", tag="gpu", tenant_id="s") == 1
    assert submitted(index, tag="gpu", tenant_id="s") == 1


def test_a_window_has_its_own_intervals_only(index: RunIndex) -> None:
    take_in(index, *(ran(nth + 1, RunId(f"run-{nth}"), at_sec=600.0 * nth) for nth in range(12)))

    window = StatsQuery(since=NOON + 600, until=NOON + 1800, step_sec=5 * MINUTE)

    assert sorted(plain(index, window)[0]) == [NOON + 600, NOON + 1200]
    assert figures(index.stats(window).total).submitted == 2


def test_a_removed_run_counts_no_longer(index: RunIndex) -> None:
    take_in(index, ran(1, A), ran(2, B))

    take_in(index, removed(3, A))
    assert shown(index, HOUR)[0][:4] == (1, 1, 0, 0)

    take_in(index, removed(4, B))
    assert shown(index, HOUR) == shown(index) == {}


def test_an_interval_counts_more_runs_than_a_byte(index: RunIndex) -> None:
    take_in(index, *(ran(nth, RunId(f"run-{nth}")) for nth in range(1, 301)))

    take_in(index, *(removed(300 + nth, RunId(f"run-{nth}")) for nth in range(1, 41)))

    assert shown(index)[0].submitted == shown(index)[60].completed == shown(index, HOUR)[0].completed == 260


def test_a_heartbeat_counts_nothing(index: RunIndex) -> None:
    times = {"submitted_at": float(NOON), "start_time": NOON + 1.0, "status": "RUNNING", "version": 1}
    take_in(index, seen(1, A, **times))
    before = shown(index)

    take_in(index, seen(2, A, **times, heartbeat_at=NOON + 500.0))

    assert shown(index) == before


@given(world=worlds(), limit=st.sampled_from([1, 6, 2000]))
def test_a_grown_index_has_the_time_series_of_a_rebuilt_one(
    world: tuple[list[Life], list[list[Change]]], limit: int
) -> None:
    courses, batches = world
    present = [life for life in courses if not life.ends_removed]
    with pytest.MonkeyPatch.context() as patched, opened("sqlite") as grown, opened("memory") as rebuilt:
        patched.setattr(sqlite_stats, "MAX_UNCOUNTED", limit)
        for batch in batches:
            grown.apply(batch, at(max(change.revision for change in batch)))
        for nth, life in enumerate(present, start=1):
            take_in(rebuilt, seen(nth, life.run_id, **life.last))

        for tenant_id in (None, "s", "t"):
            for tag in (None, "gpu"):
                for step_sec in (MINUTE, HOUR):
                    query = StatsQuery(since=0, until=HOUR, step_sec=step_sec, tenant_id=tenant_id, tag=tag)
                    assert plain(grown, query) == plain(rebuilt, query)
