"""Each promise about executions, broken on purpose: the checker finds it, and nothing where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from chaos.evidence import Evidence, ToldExecution
from chaos.invariants import violations
from chaos.journal import Journal, Told
from chaos.replay import complaints

from pyoco_server.domain.execution.codec import event_id, type_name
from pyoco_server.domain.execution.commands import (
    CancelExecution,
    Command,
    CreateExecution,
    ExpireNode,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.events import NodeSucceeded, NodeWaiting
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import Failure, Request, Work
from pyoco_server.domain.ids import NodeId, WorkerId
from support.histories import RUN, Log, evidence_of, play, snapshot_of, stored

A, ASK = NodeId("a"), NodeId("ask")
GRAPH = Graph(nodes=(GraphNode(node_id=A, max_attempts=2), GraphNode(node_id=ASK, wait_key="yes")), edges=((A, ASK),))
CREATE = CreateExecution(at=1.0, request=Request(flow_name="g", tag="", work=Work.NODES), graph=GRAPH)
START = StartExecution(at=2.0, from_outside=True)
SUCCEED = SucceedNode(at=9.0, node_id=A, attempt=2, output={"by": "me"}, from_outside=True)
RESUME = ResumeNode(at=9.5, node_id=ASK, resume_key="yes", answer=1, from_outside=True)


def take(attempt: int, at: float) -> StartNode:
    return StartNode(
        at=at, node_id=A, attempt=attempt, worker_id=WorkerId(f"hand-{attempt}"), lease_until=at + 2, from_outside=True
    )


def keyed(*commands: Command) -> Log:
    """The log of these commands, each under the key of its place."""
    return [replace(one, commit=replace(one.commit, idempotency_key=f"k{one.sequence}")) for one in play(*commands)]


def judged(log: Log, journal: Journal, spoil: Callable[[Evidence], Evidence] = lambda evidence: evidence) -> set[str]:
    """What is broken, told by a gateway that tells what is stored."""
    events = [
        {"eventId": event_id(one.commit.commit_id, place), "type": type_name(event)}
        for one in log
        for place, event in enumerate(one.commit.events)
    ]
    snapshot = snapshot_of(log)
    status = {"COMPLETED": "COMPLETED", "CANCELLED": "CANCELED"}.get(snapshot["status"], "FAILED")
    told = ToldExecution(gateway="gateway-1", body={"status": status, "version": len(log)}, events=events)
    evidence = replace(evidence_of(log, witness=()), executions={RUN: [told]})
    return {violation.broken for violation in violations(spoil(evidence), journal)}


def journal_of(log: Log) -> Journal:
    """Everything in the log was accepted, and said so."""
    journal = Journal()
    for one in log:
        body: dict[str, Any] = {"executionId": RUN, "version": one.sequence}
        first = one.commit.events[0]
        if one.commit.command == "StartNode":
            body |= {"nodeId": A, "attempt": getattr(first, "attempt", 0)}
        journal.told.append(
            Told(key=f"k{one.sequence}", command=one.commit.command, execution_id=RUN, status=202, body=body)
        )
    return journal


LOG = keyed(CREATE, START, take(1, at=3.0), take(2, at=6.0), SUCCEED, RESUME)
CANCELED = keyed(
    CREATE,
    START,
    take(1, at=3.0),
    CancelExecution(at=3.5),
    StopNode(at=3.6, node_id=A, attempt=1, from_outside=True),
)


def test_an_execution_whose_node_was_taken_over_breaks_no_promise() -> None:
    assert judged(LOG, journal_of(LOG)) == set()


def test_a_holder_that_was_refused_after_a_cancel_and_has_stopped_breaks_no_promise() -> None:
    journal = journal_of(CANCELED)
    journal.told[-1] = replace(journal.told[-1], command="SucceedNode", status=409, body={"error": "no"})

    assert judged(CANCELED, journal) == set()


def test_an_accepted_command_that_is_not_in_the_log_is_found() -> None:
    journal = journal_of(LOG)
    journal.told.append(replace(journal.told[-1], key="lost"))

    assert judged(LOG, journal) == {"commands that were not done once"}


def test_a_refused_command_that_is_in_the_log_is_found() -> None:
    journal = journal_of(LOG)
    journal.told[-1] = replace(journal.told[-1], status=409)

    assert judged(LOG, journal) == {"commands that were not done once"}


def test_one_key_that_was_done_twice_is_found() -> None:
    log = [*LOG]
    log[3] = replace(log[3], commit=replace(log[3].commit, idempotency_key="k3"))

    assert "commands that were not done once" in judged(log, journal_of(LOG))


def test_an_answer_with_another_version_than_its_commit_is_found() -> None:
    journal = journal_of(LOG)
    journal.told[1] = replace(journal.told[1], body={"executionId": RUN, "version": 5})

    assert judged(LOG, journal) == {"commands that were not done once"}


def test_two_answers_to_one_key_are_found() -> None:
    journal = journal_of(LOG)
    journal.told.append(replace(journal.told[1], status=200, again=True))
    assert judged(LOG, journal) == set()

    journal.told.append(replace(journal.told[1], status=409))

    assert judged(LOG, journal) == {"answers that differ for one key"}


def test_an_accepted_cancel_that_ended_otherwise_is_found() -> None:
    journal = journal_of(LOG)
    journal.told.append(Told(key="c", command="CancelExecution", execution_id=RUN, status=202, body={}))

    assert judged(LOG, journal) == {"cancels that ended other than CANCELED"}


def test_a_node_that_succeeded_twice_is_found() -> None:
    again = stored(7, "SucceedNode", NodeSucceeded(at=10.0, node_id=A, attempt=2))

    assert "nodes out of their order" in judged([*LOG, again], journal_of(LOG))


def test_a_node_that_began_before_its_turn_is_found() -> None:
    early = stored(3, "PutNodeWaiting", NodeWaiting(at=2.5, node_id=ASK, attempt=1, wait_key="yes"))

    assert "nodes out of their order" in judged([*LOG[:2], early], journal_of(LOG))


def test_an_attempt_that_was_given_to_two_is_found() -> None:
    journal = journal_of(LOG)
    journal.told.append(replace(journal.told[2], key="k9"))

    assert "nodes given to two" in judged(LOG, journal)


def test_a_claim_that_took_a_node_and_was_told_that_there_is_none_is_found() -> None:
    journal = journal_of(LOG)
    journal.empty.append(("k3", 2.9))
    assert judged(LOG, journal) == set()

    journal.empty.append(("k3", 3.1))

    assert judged(LOG, journal) == {"nodes taken for nobody"}


@pytest.mark.parametrize("wrong", [{"status": "FAILED"}, {"version": 5}])
def test_a_gateway_that_shows_an_older_execution_is_found(wrong: dict[str, object]) -> None:
    def spoil(evidence: Evidence) -> Evidence:
        told = evidence.executions[RUN][0]
        return replace(evidence, executions={RUN: [replace(told, body={**told.body, **wrong})]})

    assert judged(LOG, journal_of(LOG), spoil) == {"events told otherwise than stored"}


def test_an_event_that_a_gateway_leaves_out_is_found() -> None:
    def spoil(evidence: Evidence) -> Evidence:
        told = evidence.executions[RUN][0]
        return replace(evidence, executions={RUN: [replace(told, events=told.events[1:])]})

    assert judged(LOG, journal_of(LOG), spoil) == {"events told otherwise than stored"}


def test_every_command_to_a_node_is_recognised_as_written_by_the_rules() -> None:
    asks = PutNodeWaiting(at=4.5, node_id=A, attempt=1, wait_key="k", deadline_at=8.0, from_outside=True)
    goes_on = ResumeNode(at=4.7, node_id=A, resume_key="k", attempt=1, from_outside=True)
    reports = ReportNodeProgress(at=4.0, node_id=A, attempt=1, progress=5, from_outside=True)
    fails = FailNode(at=5.0, node_id=A, attempt=1, error=Failure(code="X", message="x"), from_outside=True)
    begun = (CREATE, START, take(1, at=3.0))
    histories = (
        play(*begun, reports, asks, goes_on, fails),
        play(*begun, take(2, at=6.0), ExpireNode(at=9.0, node_id=A, attempt=2)),
        CANCELED,
        LOG,
    )

    assert [complaint for log in histories for complaint in complaints(RUN, log)] == []


def test_a_node_that_was_taken_before_its_lease_was_over_is_found() -> None:
    early = play(CREATE, START, take(1, at=3.0))
    taken = take(2, at=6.0)
    late = play(CREATE, START, take(1, at=3.0), taken)[-1]
    event = replace(late.commit.events[0], at=4.0)

    found = list(complaints(RUN, [*early, stored(4, "StartNode", event)]))

    assert len(found) == 1
    assert "rules say" in found[0]
