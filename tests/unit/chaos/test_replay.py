"""A log that was written by the rules is recognised as such; one that was not is told apart, and the place named."""

from __future__ import annotations

from dataclasses import replace

from chaos.replay import complaints

from pyoco_server.domain.execution.commands import AddTag, ConfirmCanceled, FailExecution
from pyoco_server.domain.execution.events import ExecutionCanceled, ExecutionCompleted, ExecutionStarted
from pyoco_server.domain.execution.state import Failure, StopHow
from support.histories import CANCEL, CREATE, RUN, finish, play, start, stopped, stored


def test_a_completed_run_was_written_by_the_rules() -> None:
    log = play(CREATE, start(), finish())

    assert list(complaints(RUN, log)) == []


def test_a_run_that_was_taken_over_was_written_by_the_rules() -> None:
    log = play(CREATE, start(), start(attempt=2, worker="worker-2"), finish(attempt=2, worker="worker-2"))

    assert list(complaints(RUN, log)) == []


def test_cancelled_runs_were_written_by_the_rules_whoever_confirmed_it() -> None:
    by_worker = play(CREATE, start(), CANCEL, stopped())
    by_verdict = play(CREATE, start(), CANCEL, finish())
    by_gateway = play(CREATE, CANCEL, ConfirmCanceled(at=4.1, how=StopHow.BEFORE_START))

    assert [*complaints(RUN, by_worker), *complaints(RUN, by_verdict), *complaints(RUN, by_gateway)] == []


def test_a_run_that_was_given_up_and_labelled_afterwards_was_written_by_the_rules() -> None:
    given_up = FailExecution(at=5.0, error=Failure(code="ERR", message="given up"))

    log = play(CREATE, start(), given_up, AddTag(at=6.0, tag="seen"))

    assert list(complaints(RUN, log)) == []


def test_an_end_after_the_end_is_found() -> None:
    log = play(CREATE, start(), finish())
    log.append(stored(4, "ConfirmCanceled", ExecutionCanceled(at=6.0, how=StopHow.UNCONFIRMED)))

    assert any("COMPLETED already" in complaint for complaint in complaints(RUN, log))


def test_an_attempt_that_does_not_rise_is_found() -> None:
    log = play(CREATE, start())
    log.append(stored(3, "StartExecution", ExecutionStarted(at=3.0, attempt=1), worker="worker-2"))

    assert any("rules say" in complaint for complaint in complaints(RUN, log))


def test_a_report_of_somebody_who_was_overtaken_is_found() -> None:
    log = play(CREATE, start(), start(attempt=2, worker="worker-2"), finish(attempt=2, worker="worker-2"))
    last = log[-1]
    zombie = replace(last.commit.actor, id="worker-1")

    log[-1] = replace(last, commit=replace(last.commit, actor=zombie))

    assert [complaint for complaint in complaints(RUN, log) if "did not hold" in complaint]


def test_a_completion_behind_a_cancel_request_is_found() -> None:
    log = play(CREATE, start(), CANCEL)
    log.append(stored(4, "RecordAttempt", ExecutionCompleted(at=6.0), worker="worker-1"))

    assert any("rules say" in complaint for complaint in complaints(RUN, log))


def test_a_log_without_its_beginning_is_found() -> None:
    log = play(CREATE, start(), finish())[1:]

    assert any("rules say" in complaint for complaint in complaints(RUN, log))
