"""Figures about the last runs of a flow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.queries.recent import NAMED, recent

finite = st.floats(0, 1e9)
summaries = st.lists(
    st.fixed_dictionaries(
        {"status": st.sampled_from(["COMPLETED", "FAILED", "RUNNING"])},
        optional={name: st.none() | finite for name in ("start_time", "end_time", "submitted_at")},
    ),
    max_size=30,
)


def _took(*seconds: float, status: str = "COMPLETED") -> list[dict[str, Any]]:
    return [{"status": status, "start_time": 10.0, "end_time": 10.0 + one} for one in seconds]


def test_no_runs_have_no_figures() -> None:
    found = recent([])

    assert (found.runs, found.statuses, found.median_sec, found.p95_sec, found.last_submitted_at) == (
        0,
        {},
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("seconds", "median", "p95"), [([7], 7, 7), ([4, 2], 2, 4), ([1, 2, 3], 2, 3), (list(range(1, 101)), 50, 95)]
)
def test_times_are_measured_ones_of_completed_runs(seconds: list[float], median: float, p95: float) -> None:
    found = recent([*_took(*seconds), *_took(1_000, status="FAILED")])

    assert (found.median_sec, found.p95_sec) == (median, p95)
    assert found.statuses["FAILED"] == 1


@given(summaries)
def test_every_run_counts_once_and_the_median_is_at_most_the_95th_percentile(runs: list[dict[str, Any]]) -> None:
    found = recent(runs)

    assert sum(found.statuses.values()) == found.runs == len(runs)
    assert (found.median_sec is None) == (found.p95_sec is None)
    assert found.median_sec is None or found.p95_sec is None or found.median_sec <= found.p95_sec


def test_the_first_runs_are_named_in_their_order() -> None:
    found = recent({"run_id": f"run-{nth}", "status": "FAILED" if nth else "COMPLETED"} for nth in range(NAMED + 3))

    assert [run.run_id for run in found.last] == [f"run-{nth}" for nth in range(NAMED)]
    assert [run.status for run in found.last[:2]] == ["COMPLETED", "FAILED"]
