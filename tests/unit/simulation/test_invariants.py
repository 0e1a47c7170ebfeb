"""Each check finds its violation, and nothing in a valid history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from simulation.evidence import Evidence, IndexSeen
from simulation.invariants import INVARIANTS, violations
from simulation.requests import Request, Response

from pyoco_server.domain.execution.events import (
    Actor,
    Commit,
    Event,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    ExecutionStarted,
    NodeCanceled,
    NodeCreated,
    NodeReady,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
    StoredCommit,
)
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Failure, StopHow, Work, empty_execution
from pyoco_server.domain.execution.state import Request as ExecutionRequest
from pyoco_server.domain.ids import CommitId, NodeId, RunId, WorkerId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from pyoco_server.services.claims.claim_node import Claim
from pyoco_server.services.claims.claim_queue import ClaimFilter

RUN = RunId("00000000-0000-7000-8000-000000000001")
A, B = NodeId("a"), NodeId("b")
CLAIM = Claim(wanted=ClaimFilter(graph_ids=("g",), tenant_id=None), worker_id=WorkerId("w1"), lease_sec=1.0)

Step = tuple[str | None, str | None, str, tuple[Event, ...]]

CREATED = ExecutionCreated(
    at=1.0,
    request=ExecutionRequest(flow_name="g", work=Work.NODES),
    graph=Graph(nodes=(GraphNode(node_id=A), GraphNode(node_id=B)), edges=((A, B),)),
)
CREATE: Step = ("k1", None, "CreateExecution", (CREATED,))
START: Step = (
    "k2",
    None,
    "StartExecution",
    (ExecutionStarted(at=2.0, attempt=1), NodeReady(at=2.0, node_id=A)),
)
CANCEL: Step = ("k9", None, "CancelExecution", (ExecutionCancelRequested(at=8.0),))
CANCELED: Step = (None, None, "ConfirmCanceled", (ExecutionCanceled(at=9.0, how=StopHow.IDLE),))


def take(key: str, node_id: NodeId, worker: str = "w1", attempt: int = 1) -> Step:
    started = NodeStarted(at=3.0, node_id=node_id, attempt=attempt, worker_id=WorkerId(worker), lease_until=4.0)
    return (key, worker, "StartNode", (started,))


def done(key: str, node_id: NodeId, *more: Event, worker: str = "w1", attempt: int = 1) -> Step:
    return (key, worker, "SucceedNode", (NodeSucceeded(at=3.5, node_id=node_id, attempt=attempt), *more))


START_BATCH: Step = (None, None, "StartNode", (NodeStarted(at=3.0, node_id=A, attempt=1),))
END_BATCH: Step = (None, None, "SucceedNode", (NodeSucceeded(at=3.5, node_id=A, attempt=1),))
COMPLETE: Step = (None, None, "CompleteExecution", (ExecutionCompleted(at=4.0),))
FAIL: Step = (None, None, "FailExecution", (ExecutionFailed(at=4.0, error=Failure(code="x", message="x")),))


def request_of(*steps: Step) -> list[Step]:
    """A request of one batch."""
    created = ExecutionCreated(at=1.0, request=ExecutionRequest(flow_name=REQUEST_FLOW, work=Work.NODES))
    begun = (created, NodeCreated(at=1.0, node_id=A), ExecutionStarted(at=2.0, attempt=1))
    return [(None, None, "CreateExecution", begun), *steps]


READY_B, COMPLETED = NodeReady(at=3.5, node_id=B), ExecutionCompleted(at=4.0)
LEGAL = [CREATE, START, take("k3", A), done("k4", A, READY_B), take("k5", B), done("k6", B, COMPLETED)]


def reply(key: str, name: str, *, status: int = 202, commit: str | None = None, **more: Any) -> Response:
    claim = CLAIM if name == "Claim" else None
    known = {"run_id": RUN, "node_id": more.pop("node_id", None), "attempt": more.pop("attempt", None)}
    if claim is not None:
        more |= {"executionId": RUN, "nodeId": known["node_id"], "attempt": known["attempt"]}
    request = Request(key=key, name=name, claim=claim, worker_id=more.pop("worker_id", "w1"), **known)
    commits = frozenset() if commit is None else frozenset({CommitId(commit)})
    return Response(request=request, status=status, body=orjson.dumps(more), commit_ids=commits)


RESPONSES = (
    reply("k1", "CreateExecution", commit="c1"),
    reply("k3", "Claim", node_id=A, attempt=1, commit="c3"),
    reply("k4", "SucceedNode", node_id=A, attempt=1, commit="c4"),
    reply("k7", "SucceedNode", node_id=A, attempt=1),
    reply("k8", "FailNode", node_id=A, attempt=1, status=409),
)


def evidence(steps: Iterable[Step] = LEGAL, responses: tuple[Response, ...] = RESPONSES) -> Evidence:
    log = tuple(
        StoredCommit(
            sequence=place,
            commit=Commit(
                commit_id=CommitId(f"c{place}"),
                occurred_at=events[0].at,
                command=command,
                actor=Actor(kind="user", id=actor),
                events=events,
                idempotency_key=key,
            ),
        )
        for place, (key, actor, command, events) in enumerate(steps, start=1)
    )
    end = fold_commits(log, empty_execution(RUN))
    index = IndexSeen(
        gateway="gateway-1",
        claimable=frozenset(),
        waits=frozenset(),
        known={RUN: (end.version, run_status(end))},
    )
    return Evidence(
        logs={RUN: log},
        ends={RUN: end},
        snapshots={RUN: end},
        indexes=(index,),
        responses=responses,
        quiet=True,
        troubles=(),
    )


def broken(evidence: Evidence) -> set[str]:
    return {violation.broken for violation in violations(evidence)}


def test_valid_histories_have_no_violations() -> None:
    canceled = [*LEGAL[:3], CANCEL, CANCELED]

    assert broken(evidence()) == set()
    assert broken(evidence(canceled, (reply("k9", "CancelExecution", commit="c4"),))) == set()


def test_a_no_op_may_have_a_later_version() -> None:
    responses = [reply("k", "SucceedNode", node_id=A, attempt=1, version=version) for version in (6, 7)]

    assert broken(evidence(responses=(*RESPONSES, *responses))) == set()


def with_index(**changes: Any) -> Evidence:
    found = evidence()
    return replace(found, indexes=(replace(found.indexes[0], **changes),))


def with_responses(*responses: Response) -> Evidence:
    return evidence(responses=(*RESPONSES, *responses))


ASK = {"choices": ["yes", "no"]}
FORK = ExecutionCreated(
    at=1.0,
    request=ExecutionRequest(flow_name="g", work=Work.NODES),
    graph=Graph(
        nodes=(GraphNode(node_id=A, wait_key="k", prompt=ASK), GraphNode(node_id=B)),
        edges=((A, B),),
        when={(A, B): ("yes",)},
    ),
)
WAITS = NodeWaiting(at=2.0, node_id=A, attempt=1, wait_key="k", prompt=ASK)
SKIPPED_B = NodeCanceled(at=5.0, node_id=B, by_execution=False, reason="skipped")
ASKED: list[Step] = [
    ("k1", None, "CreateExecution", (FORK,)),
    ("k2", None, "StartExecution", (ExecutionStarted(at=2.0, attempt=1), NodeReady(at=2.0, node_id=A), WAITS)),
]


def answered(choice: str | None, *more: Event) -> Step:
    resumed = NodeResumed(at=5.0, node_id=A, attempt=1, answer=choice, choice=choice)
    return ("k3", None, "ResumeNode", (resumed, NodeSucceeded(at=5.0, node_id=A, attempt=1), *more))


BROKEN: list[tuple[str, Callable[[], Evidence]]] = [
    ("executions stuck", lambda: evidence([*LEGAL[:4]], RESPONSES[:3])),
    ("executions stuck", lambda: evidence([*LEGAL[:3], CANCEL], ())),
    ("systems that do not become idle", lambda: replace(evidence(), quiet=False)),
    ("events after an end", lambda: evidence([*LEGAL, take("k7", B, attempt=2)])),
    ("events after an end", lambda: evidence([*LEGAL, CANCELED])),
    ("accepted cancels without effect", lambda: with_responses(reply("k9", "CancelExecution"))),
    ("events after a cancel request", lambda: evidence([*LEGAL[:3], CANCEL, done("k4", A, READY_B)])),
    ("events after a cancel request", lambda: evidence([*LEGAL[:5], CANCEL, done("k6", B, COMPLETED)])),
    ("nodes out of order", lambda: evidence([*LEGAL[:3], take("k5", B), done("k6", B)])),
    ("nodes out of order", lambda: evidence([CREATE, START, ("k", None, "MarkNodeReady", (READY_B,))])),
    ("nodes out of order", lambda: evidence([*LEGAL[:4], ("k", None, "MarkNodeReady", (READY_B,))])),
    ("nodes out of order", lambda: evidence([*LEGAL[:3], done("k4", A, COMPLETED)])),
    ("nodes out of order", lambda: evidence([*LEGAL[:4], done("k7", A)])),
    ("nodes out of order", lambda: evidence([*ASKED, answered("maybe", SKIPPED_B, COMPLETED)], ())),
    ("nodes out of order", lambda: evidence([*ASKED, answered("no", READY_B)], ())),
    ("nodes out of order", lambda: evidence([*ASKED, answered("yes", SKIPPED_B, COMPLETED)], ())),
    ("nodes out of order", lambda: evidence([*ASKED, answered("no", COMPLETED)], ())),
    ("nodes out of order", lambda: evidence([*ASKED, answered("no", SKIPPED_B), take("k4", B)], ())),
    ("nodes out of order", lambda: evidence([*ASKED, ("k", None, "Skip", (SKIPPED_B,))], ())),
    ("executions stuck", lambda: evidence([*ASKED, answered("no")], ())),
    ("reports of superseded attempts", lambda: evidence([*LEGAL[:3], take("k", A, "w2", 2), done("k4", A)])),
    ("reports of superseded attempts", lambda: evidence([*LEGAL[:3], take("k", A, "w2", 1)])),
    ("nodes with a wrong holder", lambda: evidence([*LEGAL[:3], done("k4", A, worker="w2")])),
    ("nodes with a wrong holder", lambda: with_responses(reply("k", "Claim", node_id=A, attempt=1, commit="c3"))),
    (
        "nodes with a wrong holder",
        lambda: evidence(responses=(reply("k3", "Claim", node_id=A, attempt=1, worker_id="w2", commit="c3"),)),
    ),
    ("requests done twice", lambda: evidence([*LEGAL[:3], take("k3", A, attempt=2)])),
    ("requests with different responses", lambda: with_responses(reply("k8", "FailNode", node_id=A, status=202))),
    (
        "requests with different responses",
        lambda: with_responses(reply("k1", "CreateExecution", commit="c1", version=2)),
    ),
    ("accepted requests that were not done", lambda: with_responses(reply("k", "SucceedNode", commit="c99"))),
    ("accepted requests that were not done", lambda: with_responses(reply("k", "CreateExecution"))),
    ("accepted requests that were not done", lambda: with_responses(reply("k", "SucceedNode", node_id=A, attempt=2))),
    ("snapshots unlike their log", lambda: replace(evidence(), snapshots={})),
    ("snapshots unlike their log", lambda: replace(evidence(), snapshots=evidence([*LEGAL[:4]]).ends)),
    ("indexes unlike the snapshots", lambda: with_index(claimable=frozenset({(RUN, A, 0)}))),
    ("indexes unlike the snapshots", lambda: with_index(waits=frozenset({(RUN, A, 1)}))),
    ("indexes unlike the snapshots", lambda: with_index(known={})),
    ("batches that run after the end of their request", lambda: replace(evidence(), batches_running=((RUN, 1),))),
    ("requests whose batches do not add up", lambda: evidence(request_of(START_BATCH, END_BATCH, END_BATCH), ())),
    ("requests whose batches do not add up", lambda: evidence(request_of(START_BATCH, COMPLETE), ())),
    ("requests whose batches do not add up", lambda: evidence(request_of(START_BATCH, END_BATCH, FAIL), ())),
    ("unexpected errors", lambda: replace(evidence(), troubles=("ValueError()",))),
]


@pytest.mark.parametrize("end", [answered("no", SKIPPED_B, COMPLETED), answered("yes", READY_B)], ids=["no", "yes"])
def test_a_choice_that_is_followed_has_no_violations_in_its_log(end: Step) -> None:
    assert "nodes out of order" not in broken(evidence([*ASKED, end], ()))


@pytest.mark.parametrize(("name", "corrupt"), BROKEN)
def test_a_violation_is_found(name: str, corrupt: Callable[[], Evidence]) -> None:
    assert name in broken(corrupt())


def test_every_invariant_has_an_example() -> None:
    assert {name for name, _ in BROKEN} == set(INVARIANTS)
