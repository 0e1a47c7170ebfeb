"""The statistics of the report: repetitions and recovery times."""

from __future__ import annotations

from chaos.invariants import violations
from chaos.journal import Kill
from chaos.metrics import Spread, statistics
from chaos.plan import Plan
from chaos.report import Outcome, to_plain, to_text

from support.histories import CREATE, RUN, evidence_of, finish, journal_of, play, start

PLAN = Plan(
    seconds=1,
    seed=7,
    kill_every_sec=1,
    settle_sec=1,
    runs_per_sec=1,
    gateways=1,
    workers=2,
    kinds=("worker",),
    sync="always",
)
TAKEN_OVER = play(
    CREATE, start(), start(attempt=2, worker="worker-2", at=4.0), finish(attempt=2, worker="worker-2", at=6.0)
)
TWICE = ((2.5, "begin"), (4.5, "begin"), (5.9, "end"))


def test_a_run_that_was_taken_over_is_counted_in_the_log_and_in_its_side_effects() -> None:
    found = statistics(evidence_of(TAKEN_OVER, side_effects=TWICE), journal_of())

    assert (found.started_again, found.most_attempts, found.executed_again) == (1, 2, 1)


def test_the_time_until_a_killed_workers_run_is_taken_over_is_measured() -> None:
    journal = journal_of()
    journal.kills.append(Kill(kind="worker", target="worker-1", pid=1, at=3.0))

    found = statistics(evidence_of(TAKEN_OVER, side_effects=TWICE), journal)

    assert found.until_taken_over == Spread(count=1, median_sec=1.0, max_sec=1.0)
    assert found.until_end["worker"] == Spread(count=1, median_sec=3.0, max_sec=3.0)


def test_a_violation_is_reported_with_the_history_and_the_seed() -> None:
    evidence, journal = evidence_of(TAKEN_OVER, side_effects=TWICE), journal_of(("FAILED", 3, False))

    outcome = Outcome(
        plan=PLAN,
        evidence=evidence,
        journal=journal,
        figures=statistics(evidence, journal),
        violations=violations(evidence, journal),
        settled_after_sec=1.0,
    )

    text = to_text(outcome)
    assert not outcome.is_clean
    assert RUN in text
    assert "EXECUTION" in text.upper()
    assert "--seed 7" in text
    assert to_plain(outcome)["invariants"]["terminal states that changed"] == 1
