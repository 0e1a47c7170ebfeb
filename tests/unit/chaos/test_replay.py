"""A log that follows the rules passes; a log that does not is reported with the position."""

from __future__ import annotations

from chaos.replay import rule_violations
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import AddTag, ConfirmCanceled, FailExecution
from pyoco_server.domain.execution.events import ExecutionCanceled, ExecutionCompleted, ExecutionStarted
from pyoco_server.domain.execution.state import Failure, StopHow
from support.histories import CANCEL, CREATE, RUN, finish, play, start, stopped, stored


def test_a_completed_run_follows_the_rules() -> None:
    log = play(CREATE, start(), finish())

    assert list(rule_violations(RUN, log)) == []


def test_a_run_that_was_taken_over_follows_the_rules() -> None:
    log = play(CREATE, start(), start(attempt=2, worker="worker-2"), finish(attempt=2, worker="worker-2"))

    assert list(rule_violations(RUN, log)) == []


def test_cancelled_runs_follow_the_rules_regardless_of_who_confirmed() -> None:
    by_worker = play(CREATE, start(), CANCEL, stopped())
    by_verdict = play(CREATE, start(), CANCEL, finish())
    by_gateway = play(CREATE, CANCEL, ConfirmCanceled(at=4.1, how=StopHow.BEFORE_START))

    assert [
        *rule_violations(RUN, by_worker),
        *rule_violations(RUN, by_verdict),
        *rule_violations(RUN, by_gateway),
    ] == []


def test_a_failed_run_that_was_labelled_afterwards_follows_the_rules() -> None:
    given_up = FailExecution(at=5.0, error=Failure(code="ERR", message="given up"))

    log = play(CREATE, start(), given_up, AddTag(at=6.0, tag="seen"))

    assert list(rule_violations(RUN, log)) == []


def test_an_end_after_the_end_is_found() -> None:
    log = play(CREATE, start(), finish())
    log.append(stored(4, "ConfirmCanceled", ExecutionCanceled(at=6.0, how=StopHow.UNCONFIRMED)))

    assert any("COMPLETED already" in violation for violation in rule_violations(RUN, log))


def test_an_attempt_that_does_not_rise_is_found() -> None:
    log = play(CREATE, start())
    log.append(stored(3, "StartExecution", ExecutionStarted(at=3.0, attempt=1), worker="worker-2"))

    assert any("rules say" in violation for violation in rule_violations(RUN, log))


def test_a_report_from_a_superseded_worker_is_found() -> None:
    log = play(CREATE, start(), start(attempt=2, worker="worker-2"), finish(attempt=2, worker="worker-2"))
    last = log[-1]
    zombie = replace(last.commit.actor, id="worker-1")

    log[-1] = replace(last, commit=replace(last.commit, actor=zombie))

    assert [violation for violation in rule_violations(RUN, log) if "did not hold" in violation]


def test_a_completion_after_a_cancel_request_is_found() -> None:
    log = play(CREATE, start(), CANCEL)
    log.append(stored(4, "RecordAttempt", ExecutionCompleted(at=6.0), worker="worker-1"))

    assert any("rules say" in violation for violation in rule_violations(RUN, log))


def test_a_log_without_its_first_commit_is_found() -> None:
    log = play(CREATE, start(), finish())[1:]

    assert any("rules say" in violation for violation in rule_violations(RUN, log))
