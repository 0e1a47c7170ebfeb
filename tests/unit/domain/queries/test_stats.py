"""Time series: where a run counts, which intervals cover a window, and how exact a quantile is."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.queries.stats import (
    BUCKETS,
    COUNTERS,
    DAY,
    HOUR,
    MAX_POINTS,
    MAX_WINDOW_SEC,
    MINUTE,
    NO_RUNS,
    OUTCOMES,
    STEPS_SEC,
    SUBMITTED,
    RunTimes,
    bucket_of,
    counted,
    figures,
    steps_of,
)

NOON = 1_771_416_000


def counters_of(*runs: RunTimes) -> list[int]:
    counts = Counter(counter for run in runs for _, counter in counted(run))
    return [counts[counter] for counter in range(COUNTERS)]


def ran(seconds: float, *, waited: float = 0.0, status: str = "COMPLETED") -> RunTimes:
    started = NOON + waited
    return RunTimes(status, NOON, started, started + seconds, started + seconds)


def test_a_run_counts_in_the_minutes_of_its_submission_start_and_end() -> None:
    run = RunTimes("FAILED", NOON + 59.9, NOON + 60.0, NOON + 200.0, NOON + 200.0)

    minutes = [minute for minute, _ in counted(run)]

    assert minutes == [NOON, NOON + 60, NOON + 180, NOON + 180]
    assert (NOON, SUBMITTED) in counted(run)
    assert (NOON + 180, OUTCOMES["FAILED"]) in counted(run)


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "CANCELLING"])
def test_an_unfinished_run_has_no_outcome(status: str) -> None:
    shown = figures(counters_of(RunTimes(status, NOON, NOON + 1.0, None, None)))

    assert shown[:4] == (1, 0, 0, 0)
    assert shown.queue_p50_sec == pytest.approx(1.0, rel=0.1)
    assert shown.run_p50_sec is None


def test_a_run_that_never_started_has_an_outcome_and_no_durations() -> None:
    shown = figures(counters_of(RunTimes("CANCELLED", NOON, None, NOON + 5.0, NOON + 5.0)))

    assert shown == NO_RUNS._replace(submitted=1, cancelled=1)


@pytest.mark.parametrize("at", [-1.0, 1e300, float("inf"), float("nan")])
def test_an_impossible_time_does_not_count(at: float) -> None:
    assert counted(RunTimes("COMPLETED", at, at, at, at)) == []


@given(st.lists(st.floats(0.001, 9e5), min_size=1, max_size=60))
def test_a_quantile_is_less_than_ten_percent_beside_the_duration_of_its_rank(durations: list[float]) -> None:
    shown = figures(counters_of(*(ran(seconds, waited=seconds) for seconds in durations)))

    ordered = sorted(durations)
    for percent, found in (
        (50, (shown.queue_p50_sec, shown.run_p50_sec)),
        (95, (shown.queue_p95_sec, shown.run_p95_sec)),
    ):
        exact = ordered[-(-len(ordered) * percent // 100) - 1]
        assert list(found) == [pytest.approx(exact, rel=0.1)] * 2


def test_very_short_and_very_long_durations_are_in_the_outer_buckets() -> None:
    assert (bucket_of(-5.0), bucket_of(0.0), bucket_of(0.001)) == (0, 0, 0)
    assert (bucket_of(1e7), bucket_of(float("inf"))) == (BUCKETS - 1, BUCKETS - 1)


@given(window=st.floats(1, MAX_WINDOW_SEC), until=st.floats(MAX_WINDOW_SEC, 2e9), points=st.integers(32, MAX_POINTS))
def test_whole_intervals_cover_a_window_with_as_many_points_as_requested(
    window: float, until: float, points: int
) -> None:
    since = until - window

    first, last, step = steps_of(since, until, points)

    assert first <= since < first + step
    assert last - step < until <= last
    assert first % step == last % step == 0
    assert (last - first) // step <= points + 1
    assert step in STEPS_SEC


def test_a_window_of_minutes_is_never_longer_than_a_day() -> None:
    assert steps_of(0, DAY, 500)[2] == 5 * MINUTE
    assert steps_of(0, DAY + 1, 500)[2] == HOUR
    assert steps_of(0, HOUR, 60)[2] == MINUTE
    assert steps_of(0, MAX_WINDOW_SEC, 1)[2] == DAY
