"""Each check finds its violation, and nothing in valid evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.evidence import Evidence, Shown
from chaos.invariants import INVARIANTS, violations
from chaos.journal import Journal, Watched

from pyoco_server.domain.execution.commands import FailExecution
from pyoco_server.domain.execution.events import ExecutionCompleted, StoredCommit
from pyoco_server.domain.execution.state import Failure, StopHow, TimeoutReceipt
from support.histories import (
    CANCEL,
    CREATE,
    RUN,
    evidence_of,
    finish,
    journal_of,
    play,
    snapshot_of,
    start,
    stopped,
    stored,
)

COMPLETED = play(CREATE, start(), finish())
CANCELLED = play(CREATE, start(), CANCEL, stopped())
# A killed flow does not record its end.
KILLED_EFFECTS = ((3.0, "begin"), (4.9, "tick"))


def broken(evidence: Evidence, journal: Journal) -> set[str]:
    return {violation.broken for violation in violations(evidence, journal)}


def test_a_completed_run_has_no_violations() -> None:
    journal = journal_of(("PENDING", 1, False), ("RUNNING", 2, False), ("COMPLETED", 3, False))

    assert broken(evidence_of(COMPLETED), journal) == set()


def test_a_cancelled_run_has_no_violations() -> None:
    journal = journal_of(("CANCELLING", 3, True), ("CANCELLED", 4, False))

    assert broken(evidence_of(CANCELLED, side_effects=KILLED_EFFECTS), journal) == set()


def test_an_accepted_run_without_events_is_lost() -> None:
    assert broken(Evidence(), journal_of()) == {"accepted runs that were lost"}


def test_an_accepted_run_that_is_not_found_is_lost() -> None:
    evidence = replace(evidence_of(COMPLETED), shown={RUN: [Shown(gateway="gateway-2", body=None)]})

    assert broken(evidence, journal_of()) == {"accepted runs that were lost"}


def test_a_run_without_an_end_is_stuck() -> None:
    assert broken(evidence_of(play(CREATE, start())), journal_of()) == {"runs that are stuck"}


def test_a_terminal_status_that_differs_from_an_earlier_read_has_changed() -> None:
    journal = journal_of(("FAILED", 3, False))

    assert broken(evidence_of(COMPLETED), journal) == {"terminal states that changed"}


def test_an_older_version_after_a_newer_one_is_found() -> None:
    journal = journal_of(("COMPLETED", 3, False), ("RUNNING", 2, False))

    assert broken(evidence_of(COMPLETED), journal) == {"reads that went back in time"}


def test_an_accepted_cancel_that_ended_otherwise_is_found() -> None:
    journal = journal_of(("CANCELLING", 2, True))

    assert broken(evidence_of(COMPLETED), journal) == {"cancels that ended other than CANCELLED"}


def test_a_completion_after_a_cancel_request_is_found() -> None:
    log = play(CREATE, start(), CANCEL)
    log.append(stored(4, "RecordAttempt", ExecutionCompleted(at=6.0), worker="worker-1"))

    assert "completions after a cancel request" in broken(evidence_of(log), journal_of())


@pytest.mark.parametrize("spoilt", [{"version": 2}, {"status": "FAILED"}, {"tasks": {}}, {"task_records": {}}])
def test_a_snapshot_that_differs_from_its_log_is_found(spoilt: dict[str, object]) -> None:
    evidence = replace(evidence_of(COMPLETED), snapshots={RUN: snapshot_of(COMPLETED) | spoilt}, lists=[])

    assert "snapshots that differ from their log" in broken(evidence, journal_of())


def test_a_heartbeat_alone_is_no_violation() -> None:
    later = snapshot_of(COMPLETED) | {"heartbeat_at": 99.0}
    evidence = replace(evidence_of(COMPLETED), snapshots={RUN: later}, shown={})

    assert broken(evidence, journal_of()) == set()


def test_a_log_without_a_snapshot_is_found() -> None:
    evidence = replace(evidence_of(COMPLETED), snapshots={}, lists=[])

    assert broken(evidence, journal_of()) == {"snapshots that differ from their log"}


def test_a_history_that_violates_the_rules_is_found() -> None:
    log = play(CREATE, start(), finish())
    log.append(stored(4, "RecordAttempt", ExecutionCompleted(at=6.0), worker="worker-1"))

    assert "histories that violate the rules" in broken(evidence_of(log), journal_of())


def test_a_run_that_a_list_leaves_out_is_found() -> None:
    evidence = evidence_of(COMPLETED)
    empty = replace(evidence, lists=[replace(evidence.lists[0], items=[])])

    assert broken(empty, journal_of()) == {"lists that differ from the snapshots"}


@pytest.mark.parametrize("stale", [{"status": "RUNNING"}, {"version": 2}, {"updated_at": 1.0}])
def test_a_stale_row_in_a_list_is_found(stale: dict[str, object]) -> None:
    evidence = evidence_of(COMPLETED)
    listed = evidence.lists[0]
    behind = replace(evidence, lists=[replace(listed, items=[{**listed.items[0], **stale}])])

    assert broken(behind, journal_of()) == {"lists that differ from the snapshots"}


def test_a_row_that_does_not_match_the_filter_is_found() -> None:
    evidence = evidence_of(COMPLETED)
    wrong = replace(evidence, lists=[replace(evidence.lists[0], status="FAILED")])

    assert broken(wrong, journal_of()) == {"lists that differ from the snapshots"}


def test_a_job_left_in_the_queue_is_found() -> None:
    evidence = replace(evidence_of(COMPLETED), jobs=[{"run_id": RUN}])

    assert broken(evidence, journal_of()) == {"jobs left in the queue"}


def test_more_executions_than_starts_are_found() -> None:
    evidence = evidence_of(COMPLETED, side_effects=((3.0, "begin"), (3.5, "begin"), (4.9, "end")))

    assert broken(evidence, journal_of()) == {"executions missing from the log"}


def test_a_completion_without_an_execution_is_found() -> None:
    evidence = evidence_of(COMPLETED, side_effects=())

    assert broken(evidence, journal_of()) == {"executions missing from the log"}


def test_work_that_continues_after_its_receipt_is_found() -> None:
    evidence = evidence_of(CANCELLED, side_effects=((3.0, "begin"), (6.0, "tick")))

    assert broken(evidence, journal_of()) == {"work that continued after its end"}


def timed_out(reached_at: float, stopped_at: float) -> list[StoredCommit]:
    receipt = TimeoutReceipt(limit_sec=1.0, reached_at=reached_at, stopped_at=stopped_at, how=StopHow.KILLED)
    failure = Failure(code="ERR-PYOCO-0027", message="too long")
    return play(CREATE, start(), FailExecution(at=stopped_at, error=failure, timeout=receipt))


def test_work_that_continues_after_its_time_limit_is_found() -> None:
    evidence = evidence_of(timed_out(3.0, 4.0), side_effects=((2.0, "begin"), (4.1, "tick"), (6.0, "tick")))

    assert broken(evidence, journal_of()) == {"work that continued after its end"}


def test_a_time_limit_that_ends_a_run_too_early_is_found() -> None:
    in_time, early = (
        evidence_of(timed_out(reached_at, 3.5), side_effects=((2.0, "begin"),)) for reached_at in (3.0, 2.5)
    )

    assert broken(in_time, journal_of()) == set()
    assert broken(early, journal_of()) == {"time limits that came too early"}


def test_a_fault_recorded_during_the_run_is_a_violation() -> None:
    journal = journal_of()
    journal.note_fault("orphan processes", "worker-1", "still alive")

    assert broken(evidence_of(COMPLETED), journal) == {"orphan processes"}


def test_every_violation_has_its_row_in_the_report() -> None:
    journal = journal_of(("FAILED", 3, False), ("CANCELLING", 2, True))
    journal.note_fault("error responses", "gateway-1", "500")

    assert broken(evidence_of(COMPLETED), journal) <= set(INVARIANTS)


@pytest.mark.parametrize(
    ("versions", "status", "how", "wrong"),
    [
        ((1, 2, 3), "COMPLETED", "ended", False),
        ((2,), "RUNNING", "gave up", False),
        ((1, 2, 2, 3), "COMPLETED", "ended", True),
        ((2, 1, 3), "COMPLETED", "ended", True),
        ((1, 2, 3, 4), "COMPLETED", "ended", True),
        ((1, 2), "RUNNING", "ended", True),
        ((), "", "ended", True),
        ((1, 2), "RUNNING", "hung", True),
    ],
)
def test_a_stream_delivers_each_version_once_and_then_the_end(
    versions: tuple[int, ...], status: str, how: str, wrong: bool
) -> None:
    journal = journal_of()
    journal.watched.append(Watched(run_id=RUN, gateway="gateway-1", versions=versions, status=status, how=how))

    assert ("streams that delivered other content" in broken(evidence_of(COMPLETED), journal)) is wrong
