"""Benchmark reports: direction of ratios, missing figures, failed steps."""

import json
from pathlib import Path

import pytest
from bench.connection import StepFailed
from bench.journal import Journal
from bench.measures import p99
from bench.report import BEGIN, END, Circumstances, Report, write_into
from bench.rows import product_rows

ROWS = {row.key: row for row in product_rows()}
NOWHERE = Circumstances(lines=("a machine",))


def journal_of(**figures: dict[str, list[float]]) -> Journal:
    journal = Journal()
    for side, rows in figures.items():
        for key, samples in rows.items():
            for sample in samples:
                journal.add(side, key, sample)  # type: ignore[arg-type]
    return journal


def row_of(journal: Journal, key: str) -> dict[str, object]:
    report = json.loads(Report(circumstances=NOWHERE, journal=journal).json())
    return next(row for row in report["rows"] if row["key"] == key)


def test_a_higher_rate_and_a_lower_latency_are_both_a_ratio_above_one() -> None:
    journal = journal_of(
        ours={"submit.1.interval": [200.0], "fibo40": [10.0]}, peer={"submit.1.interval": [100.0], "fibo40": [40.0]}
    )

    assert row_of(journal, "submit.1.interval")["ratio"] == 2.0
    assert row_of(journal, "fibo40")["ratio"] == 4.0


def test_a_figure_is_the_median_of_its_rounds_and_shows_their_spread() -> None:
    journal = journal_of(ours={"fibo40": [30.0, 10.0, 20.0]})

    assert row_of(journal, "fibo40")["ours"] == {
        "median": 20.0,
        "min": 10.0,
        "max": 30.0,
        "samples": [30.0, 10.0, 20.0],
    }


@pytest.mark.parametrize(("ours", "holds"), [(399.0, False), (400.0, True)])
def test_a_budget_relative_to_the_peer_compares_medians(ours: float, holds: bool) -> None:
    journal = journal_of(ours={"drain.one.interval": [ours]}, peer={"drain.one.interval": [100.0]})

    assert row_of(journal, "drain.one.interval")["holds"] is holds


def test_a_budget_without_figures_has_no_verdict() -> None:
    journal = journal_of(ours={"drain.one.interval": [400.0]})

    assert row_of(journal, "drain.one.interval")["holds"] is None


def test_the_share_of_the_bare_framework_uses_the_faster_client() -> None:
    budget = ROWS["submit.64.interval"].budget
    slow_wrk = journal_of(
        ours={"submit.64.interval": [3500.0]}, limit={"bare.wrk.64": [6000.0], "bare.built-in.64": [8000.0]}
    )

    assert budget is not None
    assert budget.holds(slow_wrk) is False


def test_the_99th_percentile_of_few_values_is_the_slowest() -> None:
    assert p99([1.0, 3.0, 2.0]) == 3.0
    assert p99([float(value) for value in range(1, 201)]) == 198.0


def test_a_failed_step_becomes_a_note_and_the_next_one_is_measured() -> None:
    journal = Journal()

    with journal.step("peer", "drain"):
        raise StepFailed("3 runs still queued")
    with journal.step("peer", "lists"):
        journal.add("peer", "list.100.all", 5.0)

    assert journal.notes == ["peer: drain failed: StepFailed: 3 runs still queued"]
    assert journal.median("peer", "list.100.all") == 5.0


def test_results_replace_only_the_text_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    write_into(page, "new")

    assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
