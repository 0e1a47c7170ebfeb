"""Each check of PDCA requests finds its violation, and nothing in valid evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from chaos.audit_invariants import AUDIT_CHECKS
from chaos.evidence import Evidence, ShownStrategy
from chaos.journal import AskedRecheck, Journal
from chaos.recheck_invariants import RECHECK_CHECKS
from msgspec.structs import replace as replace_struct

from pyoco_server.domain.audit import RUN as RUN_KIND
from pyoco_server.domain.execution.commands import (
    Command,
    CompleteExecution,
    CreateExecution,
    FailExecution,
    FailNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.execution.state import Failure, Request
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.domain.pdca.ids import StrategyId, node_of, ulid_of
from pyoco_server.domain.pdca.recheck import BATCH_FLOW, ENGINE_WORKER, child_run_id
from pyoco_server.domain.pdca.strategies import BatchOutput, Health, StrategyResult, output_to_plain
from support.histories import RUN, Log, finish, play, start
from support.pdca import creation

LOST, NUMBERS, BATCHES, FOREIGN, RESULTS = RECHECK_CHECKS
(AUDIT,) = AUDIT_CHECKS
A, B = StrategyId("a"), StrategyId("b")
REQUEST = RunId(RUN)
CHILD = child_run_id(REQUEST, 1)
ENGINE = WorkerId(ENGINE_WORKER)
OUTPUT = output_to_plain(
    BatchOutput(results=(StrategyResult(strategy=A, health=Health.HEALTHY), StrategyResult(strategy=B)))
)
START_NODE = StartNode(at=3.0, node_id=node_of(1), attempt=1, worker_id=ENGINE)
SUCCEED = SucceedNode(at=6.0, node_id=node_of(1), attempt=1, output=OUTPUT)
BEGUN = (creation(1.0, [[A, B]]), StartExecution(at=2.0, from_outside=True), START_NODE)
CREATE_CHILD = CreateExecution(at=3.0, request=Request(flow_name=BATCH_FLOW, tag="default"))
CHECKED_AT = "1970-01-01T00:00:06.000Z"
BODY = {
    "request_id": ulid_of(REQUEST),
    "status": "success",
    "progress": {"total_batches": 1, "completed_batches": 1, "total_strategies": 2, "completed_strategies": 2},
    "summary": {"success": 2, "failed": 0, "health": {"healthy": 1, "degraded": 0, "unknown": 1}},
}


def moved(log: Log, by: int) -> Log:
    """The log at later sequences."""
    return [replace_struct(one, sequence=one.sequence + by) for one in log]


def of_user(log: Log) -> Log:
    """The log with its first two commits by the call of a user."""
    by_user = [
        replace_struct(one, commit=replace_struct(one.commit, actor=Actor(kind="user"), request_id="R"))
        for one in log[:2]
    ]
    return [*by_user, *log[2:]]


def request_log(*commands: Command) -> Log:
    """The request's commits; the run of its batch has the sequences 11 to 13, its results come behind."""
    log = of_user(play(*BEGUN, *commands))
    return [*log[:3], *moved(log[3:], 20)]


COMPLETED = request_log(SUCCEED, CompleteExecution(at=7.0))
CHILD_LOG = moved(play(CREATE_CHILD, start(), finish()), 10)


def record(action: str, resource: str, kind: str = RUN_KIND, **more: Any) -> dict[str, Any]:
    facts = {"at": 1.0, "request_id": "R", "outcome": "made"}
    return {"action": action, "resource": {"kind": kind, "id": resource}, **facts, **more}


RECORDS = (record("run.create", RUN), record("strategy.put", "a", "strategy"), record("strategy.put", "b", "strategy"))


def shown(strategy: str, health: str, **listed: Any) -> ShownStrategy:
    found = {"request_id": ulid_of(REQUEST), "checked_at": CHECKED_AT, "health": health}
    row = {"last_health": health, "last_checked_at": CHECKED_AT} | listed
    return ShownStrategy(gateway="gateway-1", strategy=strategy, listed=row, results=[found])


VALID = Evidence(
    logs={RUN: COMPLETED, CHILD: CHILD_LOG},
    rechecks={RUN: {"gateway-1": BODY}},
    strategies=[shown("a", "healthy"), shown("b", "unknown")],
    audit={"gateway-1": RECORDS},
)
ASKED = AskedRecheck(key="key-1", request_id=ulid_of(REQUEST), strategies=2, batches=1, dry_run=False)


def journal(*asked: AskedRecheck) -> Journal:
    found = Journal(rechecks=list(asked or (ASKED, ASKED)), progress=[BODY])
    found.puts.update("ab")
    return found


def broken(evidence: Evidence, journal: Journal) -> set[str]:
    checks = {**RECHECK_CHECKS, **AUDIT_CHECKS}
    return {name for name, check in checks.items() if list(check(evidence, journal))}


def with_logs(request: Log = COMPLETED, **others: Log) -> Evidence:
    """The valid evidence with other logs; `child` and `stranger` are runs of batches."""
    known = {"child": CHILD, "stranger": child_run_id(REQUEST, 2)}
    logs = {RUN: request, CHILD: CHILD_LOG} | {known[name]: log for name, log in others.items()}
    return replace(VALID, logs={run_id: log for run_id, log in logs.items() if log})


def with_body(**changed: Any) -> Evidence:
    return replace(VALID, rechecks={RUN: {"gateway-1": BODY | changed}})


def test_a_request_that_was_carried_out_has_no_violations() -> None:
    assert broken(VALID, journal()) == set()


@pytest.mark.parametrize(
    "asked",
    [
        replace(ASKED, request_id=ulid_of(RunId(CHILD[:-1] + "0"))),
        replace(ASKED, strategies=3),
        replace(ASKED, dry_run=True),
    ],
    ids=["lost", "other", "dry"],
)
def test_a_request_that_is_not_stored_as_it_was_accepted_is_found(asked: AskedRecheck) -> None:
    assert broken(VALID, journal(asked)) == {LOST}


def test_a_key_that_made_two_requests_is_found() -> None:
    other = RunId(RUN[:-1] + "0")
    evidence = replace(VALID, logs={**VALID.logs, other: COMPLETED})

    found = list(RECHECK_CHECKS[LOST](evidence, journal(ASKED, replace(ASKED, request_id=ulid_of(other)))))

    assert [subject for subject, _ in found] == [other]


@pytest.mark.parametrize(
    "evidence",
    [
        with_body(status="failed"),
        with_body(progress=BODY["progress"] | {"completed_batches": 0}),  # type: ignore[operator]
        with_body(summary=BODY["summary"] | {"success": 1}),  # type: ignore[operator]
    ],
    ids=["status", "batches", "sum"],
)
def test_numbers_other_than_those_of_the_log_are_found(evidence: Evidence) -> None:
    assert broken(evidence, journal()) == {NUMBERS}


def test_numbers_that_did_not_add_up_when_they_were_read_are_found() -> None:
    seen = journal()
    seen.progress = [BODY | {"summary": {"success": 1, "failed": 2, "health": {"unknown": 3}}}]

    assert broken(VALID, seen) == {NUMBERS}


@pytest.mark.parametrize(
    "evidence",
    [
        with_logs(child=[]),
        with_logs(child=moved(CHILD_LOG, 100)),
        with_logs(child=CHILD_LOG[:2]),
        with_logs([*COMPLETED[:4], replace_struct(COMPLETED[3], sequence=90), COMPLETED[4]]),
        with_logs(
            [*COMPLETED[:4], *request_log(SUCCEED, FailExecution(at=7.0, error=Failure(code="X", message="")))[4:]]
        ),
    ],
    ids=["no run", "before its run", "run goes on", "twice", "failed with its batches"],
)
def test_a_batch_that_ended_other_than_its_run_is_found(evidence: Evidence) -> None:
    assert BATCHES in broken(evidence, journal())


def test_a_request_that_ended_before_the_run_of_a_batch_is_found() -> None:
    failure = Failure(code="X", message="x")
    failed = request_log(
        FailNode(at=6.0, node_id=node_of(1), attempt=1, error=failure), FailExecution(at=7.0, error=failure)
    )

    assert BATCHES not in broken(with_logs(failed), journal())
    assert BATCHES in broken(with_logs(failed, child=moved(CHILD_LOG, 100)), journal())


def test_a_run_of_no_batch_of_its_request_is_found() -> None:
    assert broken(with_logs(stranger=moved(CHILD_LOG, 100)), journal()) == {FOREIGN}


@pytest.mark.parametrize(
    "strategy",
    [
        replace(shown("a", "healthy"), results=[]),
        shown("a", "degraded"),
        shown("a", "healthy", last_checked_at=None),
        shown("a", "healthy", last_health="unknown"),
        shown("c", "healthy"),
    ],
    ids=["lost", "other", "not listed", "other in the list", "invented"],
)
def test_results_other_than_those_of_the_log_are_found(strategy: ShownStrategy) -> None:
    assert broken(replace(VALID, strategies=[strategy, VALID.strategies[1]]), journal()) == {RESULTS}


@pytest.mark.parametrize(
    "records",
    [
        RECORDS[1:],
        (*RECORDS, RECORDS[0]),
        (*RECORDS, record("run.start", RUN)),
        RECORDS[:2],
        (*RECORDS, RECORDS[1]),
        (*RECORDS[:2], RECORDS[2] | {"outcome": "attempted"}),
    ],
    ids=["lost", "twice", "start too", "strategy lost", "strategy twice", "not said to be made"],
)
def test_a_change_without_exactly_one_audit_record_is_found(records: tuple[dict[str, Any], ...]) -> None:
    assert broken(replace(VALID, audit={"gateway-1": records}), journal()) == {AUDIT}


def test_a_second_record_of_one_request_is_found_although_the_log_has_it() -> None:
    start = replace_struct(COMPLETED[1], commit=replace_struct(COMPLETED[1].commit, request_id="other"))
    records = (*RECORDS, record("run.start", RUN, at=2.0, request_id="other"))
    evidence = replace(with_logs([COMPLETED[0], start, *COMPLETED[2:]]), audit={"gateway-1": records})

    assert broken(evidence, journal()) == {AUDIT}
