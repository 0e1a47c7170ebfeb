"""Each check of executions finds its violation, and nothing in valid evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from chaos.evidence import Evidence, ExecutionResponse
from chaos.invariants import violations
from chaos.journal import CommandResponse, Journal
from chaos.replay import rule_violations
from msgspec import structs

from pyoco_server.domain.execution.codec import event_id
from pyoco_server.domain.execution.commands import (
    ArchiveExecution,
    CancelExecution,
    Command,
    CompleteExecution,
    CreateExecution,
    ExpireNode,
    FailExecution,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.events import NodeSucceeded, NodeWaiting, type_name
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
        at=at,
        node_id=A,
        attempt=attempt,
        worker_id=WorkerId(f"node-worker-{attempt}"),
        lease_until=at + 2,
        from_outside=True,
    )


def keyed(*commands: Command) -> Log:
    """The log of these commands, each with a key made from its position."""
    return [
        structs.replace(one, commit=structs.replace(one.commit, idempotency_key=f"k{one.sequence}"))
        for one in play(*commands)
    ]


def broken(log: Log, journal: Journal, corrupt: Callable[[Evidence], Evidence] = lambda evidence: evidence) -> set[str]:
    """The violations, with a gateway that returns the stored events."""
    events = [
        {"eventId": event_id(one.commit.commit_id, place), "type": type_name(event)}
        for one in log
        for place, event in enumerate(one.commit.events)
    ]
    snapshot = snapshot_of(log)
    status = {"COMPLETED": "COMPLETED", "CANCELLED": "CANCELED"}.get(snapshot["status"], "FAILED")
    returned = ExecutionResponse(gateway="gateway-1", body={"status": status, "version": len(log)}, events=events)
    evidence = replace(evidence_of(log, side_effects=()), executions={RUN: [returned]})
    return {violation.broken for violation in violations(corrupt(evidence), journal)}


def journal_of(log: Log) -> Journal:
    """A journal in which every command of the log was accepted."""
    journal = Journal()
    for one in log:
        body: dict[str, Any] = {"executionId": RUN, "version": one.sequence}
        first = one.commit.events[0]
        if one.commit.command == "StartNode":
            body |= {"nodeId": A, "attempt": getattr(first, "attempt", 0)}
        journal.responses.append(
            CommandResponse(key=f"k{one.sequence}", command=one.commit.command, execution_id=RUN, status=202, body=body)
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


def test_an_execution_whose_node_was_taken_over_has_no_violations() -> None:
    assert broken(LOG, journal_of(LOG)) == set()


def test_a_holder_that_was_rejected_after_a_cancel_and_stopped_is_no_violation() -> None:
    journal = journal_of(CANCELED)
    journal.responses[-1] = replace(journal.responses[-1], command="SucceedNode", status=409, body={"error": "no"})

    assert broken(CANCELED, journal) == set()


def test_an_accepted_command_that_is_not_in_the_log_is_found() -> None:
    journal = journal_of(LOG)
    journal.responses.append(replace(journal.responses[-1], key="lost"))

    assert broken(LOG, journal) == {"commands not applied exactly once"}


def test_a_rejected_command_that_is_in_the_log_is_found() -> None:
    journal = journal_of(LOG)
    journal.responses[-1] = replace(journal.responses[-1], status=409)

    assert broken(LOG, journal) == {"commands not applied exactly once"}


def test_a_key_that_was_applied_twice_is_found() -> None:
    log = [*LOG]
    log[3] = structs.replace(log[3], commit=structs.replace(log[3].commit, idempotency_key="k3"))

    assert "commands not applied exactly once" in broken(log, journal_of(LOG))


def test_a_response_with_another_version_than_its_commit_is_found() -> None:
    journal = journal_of(LOG)
    journal.responses[1] = replace(journal.responses[1], body={"executionId": RUN, "version": 5})

    assert broken(LOG, journal) == {"commands not applied exactly once"}


def test_different_responses_to_one_key_are_found() -> None:
    journal = journal_of(LOG)
    journal.responses.append(replace(journal.responses[1], status=200, replayed=True))
    assert broken(LOG, journal) == set()

    journal.responses.append(replace(journal.responses[1], status=409))

    assert broken(LOG, journal) == {"different responses to one key"}


def test_an_accepted_cancel_that_ended_otherwise_is_found() -> None:
    journal = journal_of(LOG)
    journal.responses.append(CommandResponse(key="c", command="CancelExecution", execution_id=RUN, status=202, body={}))

    assert broken(LOG, journal) == {"cancels that ended other than CANCELED"}


def test_a_node_that_succeeded_twice_is_found() -> None:
    again = stored(7, "SucceedNode", NodeSucceeded(at=10.0, node_id=A, attempt=2))

    assert "nodes executed out of order" in broken([*LOG, again], journal_of(LOG))


def test_a_node_that_started_before_its_predecessors_is_found() -> None:
    early = stored(3, "PutNodeWaiting", NodeWaiting(at=2.5, node_id=ASK, attempt=1, wait_key="yes"))

    assert "nodes executed out of order" in broken([*LOG[:2], early], journal_of(LOG))


def test_an_attempt_that_was_leased_to_two_workers_is_found() -> None:
    journal = journal_of(LOG)
    journal.responses.append(replace(journal.responses[2], key="k9"))

    assert "nodes leased to two workers" in broken(LOG, journal)


def test_a_claim_that_leased_a_node_and_returned_204_is_found() -> None:
    journal = journal_of(LOG)
    journal.empty_claims.append(("k3", 2.9))
    assert broken(LOG, journal) == set()

    journal.empty_claims.append(("k3", 3.1))

    assert broken(LOG, journal) == {"nodes leased to disconnected clients"}


@pytest.mark.parametrize("wrong", [{"status": "FAILED"}, {"version": 5}])
def test_a_gateway_that_shows_an_older_execution_is_found(wrong: dict[str, object]) -> None:
    def corrupt(evidence: Evidence) -> Evidence:
        read = evidence.executions[RUN][0]
        return replace(evidence, executions={RUN: [replace(read, body={**read.body, **wrong})]})

    assert broken(LOG, journal_of(LOG), corrupt) == {"events delivered differently than stored"}


def test_an_event_missing_at_a_gateway_is_found() -> None:
    def corrupt(evidence: Evidence) -> Evidence:
        read = evidence.executions[RUN][0]
        return replace(evidence, executions={RUN: [replace(read, events=read.events[1:])]})

    assert broken(LOG, journal_of(LOG), corrupt) == {"events delivered differently than stored"}


def test_every_command_to_a_node_follows_the_rules() -> None:
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

    assert [violation for log in histories for violation in rule_violations(RUN, log)] == []


def test_every_end_of_an_open_graph_follows_the_rules() -> None:
    create = CreateExecution(at=1.0, request=Request(flow_name="open", tag="", work=Work.NODES))
    begun = (create, START, StartNode(at=3.0, node_id=A, worker_id=WorkerId("w"), from_outside=True))
    fail = FailExecution(at=5.0, error=Failure(code="X", message="x"), from_outside=True)
    histories = (
        play(*begun, CompleteExecution(at=5.0, from_outside=True), ArchiveExecution(at=6.0, from_outside=True)),
        play(*begun, fail),
        play(*begun, CancelExecution(at=4.0), StopNode(at=4.5, node_id=A, attempt=1, from_outside=True)),
    )

    assert [violation for log in histories for violation in rule_violations(RUN, log)] == []


def test_an_accepted_command_without_effect_is_a_repetition_only_at_an_open_graph() -> None:
    create = CreateExecution(at=1.0, request=Request(flow_name="open", tag="", work=Work.NODES))
    opened = keyed(create, START)
    journal = journal_of(opened)
    journal.responses.append(replace(journal.responses[-1], key="again"))
    assert "commands not applied exactly once" not in broken(opened, journal)

    journal.responses.append(replace(journal.responses[0], key="created again"))

    assert "commands not applied exactly once" in broken(opened, journal)


def test_a_node_that_was_claimed_before_its_lease_expired_is_found() -> None:
    early = play(CREATE, START, take(1, at=3.0))
    taken = take(2, at=6.0)
    late = play(CREATE, START, take(1, at=3.0), taken)[-1]
    event = structs.replace(late.commit.events[0], at=4.0)

    found = list(rule_violations(RUN, [*early, stored(4, "StartNode", event)]))

    assert len(found) == 1
    assert "rules say" in found[0]
