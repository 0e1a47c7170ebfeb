"""Durations of runs: each step counts once, whatever part of the run was observed."""

from __future__ import annotations

import pytest

from pyoco_server.domain.queries.histograms import BOUNDS, LONGEST_SEC, HistogramDelta, Times, bucket_of, gathered, news

WHOLE = Times(submitted_at=10.0, started_at=12.0, ended_at=15.0)
CANCELLED = WHOLE._replace(cancel_requested_at=14.5, stopped_at=15.0, how="killed")
SUBMITTED = (HistogramDelta.SUBMITTED, "", 0.0)
WAITED = (HistogramDelta.WAITED, "", 2.0)


@pytest.mark.parametrize(
    ("before", "status", "times", "expected"),
    [
        (None, "PENDING", Times(submitted_at=10.0), [SUBMITTED]),
        (None, "RUNNING", WHOLE, [SUBMITTED, WAITED]),
        ("PENDING", "RUNNING", WHOLE, [WAITED]),
        ("RUNNING", "RUNNING", WHOLE, []),
        ("PENDING", "CANCELLING", Times(submitted_at=10.0), []),
        ("RUNNING", "CANCELLING", WHOLE, []),
        (
            "RUNNING",
            "COMPLETED",
            WHOLE,
            [(HistogramDelta.FINISHED, "COMPLETED", 0.0), (HistogramDelta.RAN, "COMPLETED", 3.0)],
        ),
        (
            "PENDING",
            "FAILED",
            WHOLE,
            [WAITED, (HistogramDelta.FINISHED, "FAILED", 0.0), (HistogramDelta.RAN, "FAILED", 3.0)],
        ),
        (
            "CANCELLING",
            "CANCELLED",
            CANCELLED,
            [
                (HistogramDelta.FINISHED, "CANCELLED", 0.0),
                (HistogramDelta.RAN, "CANCELLED", 3.0),
                (HistogramDelta.STOPPED, "killed", 0.5),
            ],
        ),
        ("COMPLETED", "COMPLETED", WHOLE, []),
    ],
)
def test_a_run_counts_its_steps_since_its_last_observation(
    before: str | None, status: str, times: Times, expected: list[object]
) -> None:
    assert list(news(status, times, before=before)) == expected


def test_a_run_that_never_started_ends_without_a_duration() -> None:
    times = Times(submitted_at=1.0, ended_at=5.0, cancel_requested_at=4.0, stopped_at=5.0, how="before_start")

    deltas = list(news("CANCELLED", times, before="CANCELLING"))

    assert deltas == [(HistogramDelta.FINISHED, "CANCELLED", 0.0), (HistogramDelta.STOPPED, "before_start", 1.0)]


@pytest.mark.parametrize(("ended_at", "expected"), [(11.0, 0.0), (1e308, LONGEST_SEC), (float("nan"), 0.0)])
def test_an_impossible_time_does_not_corrupt_a_sum(ended_at: float, expected: float) -> None:
    times = WHOLE._replace(ended_at=ended_at)

    assert (HistogramDelta.RAN, "COMPLETED", expected) in news("COMPLETED", times, before="RUNNING")


def test_a_bound_belongs_to_its_own_bucket() -> None:
    assert [bucket_of(bound) for bound in BOUNDS] == list(range(len(BOUNDS)))
    assert bucket_of(0.0) == 0
    assert bucket_of(BOUNDS[-1] + 1) == len(BOUNDS)


def test_counts_of_many_tenants_become_one_histogram() -> None:
    found = gathered([("ran", "FAILED", 2, 3, 1.5), ("ran", "FAILED", 2, 1, 0.5), ("ran", "FAILED", 0, 1, 0.0)])

    histogram = found[HistogramDelta.RAN, "FAILED"]
    assert (histogram.counts[:3], histogram.total, histogram.seconds) == ((1, 0, 4), 5, 2.0)
