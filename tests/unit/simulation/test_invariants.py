"""Each promise is seen to be kept by a lawful history, and seen to be broken by one that was spoilt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from simulation.evidence import Evidence, IndexSeen
from simulation.invariants import INVARIANTS, violations
from simulation.requests import Request, Told

from pyoco_server.domain.execution.events import (
    Actor,
    Commit,
    Event,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionStarted,
    NodeReady,
    NodeStarted,
    NodeSucceeded,
    StoredCommit,
)
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Request as ExecutionRequest
from pyoco_server.domain.execution.state import StopHow, Work, empty_execution
from pyoco_server.domain.ids import CommitId, NodeId, RunId, WorkerId
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


READY_B, COMPLETED = NodeReady(at=3.5, node_id=B), ExecutionCompleted(at=4.0)
LAWFUL = [CREATE, START, take("k3", A), done("k4", A, READY_B), take("k5", B), done("k6", B, COMPLETED)]


def answer(key: str, name: str, *, status: int = 202, commit: str | None = None, **more: Any) -> Told:
    claim = CLAIM if name == "Claim" else None
    asked = {"run_id": RUN, "node_id": more.pop("node_id", None), "attempt": more.pop("attempt", None)}
    if claim is not None:
        more |= {"executionId": RUN, "nodeId": asked["node_id"], "attempt": asked["attempt"]}
    request = Request(key=key, name=name, claim=claim, worker_id=more.pop("worker_id", "w1"), **asked)
    commits = frozenset() if commit is None else frozenset({CommitId(commit)})
    return Told(request=request, status=status, body=orjson.dumps(more), commit_ids=commits)


ANSWERS = (
    answer("k1", "CreateExecution", commit="c1"),
    answer("k3", "Claim", node_id=A, attempt=1, commit="c3"),
    answer("k4", "SucceedNode", node_id=A, attempt=1, commit="c4"),
    answer("k7", "SucceedNode", node_id=A, attempt=1),
    answer("k8", "FailNode", node_id=A, attempt=1, status=409),
)


def evidence(steps: Iterable[Step] = LAWFUL, told: tuple[Told, ...] = ANSWERS) -> Evidence:
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
        logs={RUN: log}, ends={RUN: end}, snapshots={RUN: end}, indexes=(index,), told=told, quiet=True, troubles=()
    )


def broken(spoilt: Evidence) -> set[str]:
    return {violation.broken for violation in violations(spoilt)}


def test_lawful_histories_break_nothing() -> None:
    canceled = [*LAWFUL[:3], CANCEL, CANCELED]

    assert broken(evidence()) == set()
    assert broken(evidence(canceled, (answer("k9", "CancelExecution", commit="c4"),))) == set()


def test_what_was_so_already_may_be_so_as_of_a_later_version() -> None:
    told = [answer("k", "SucceedNode", node_id=A, attempt=1, version=version) for version in (6, 7)]

    assert broken(evidence(told=(*ANSWERS, *told))) == set()


def spoilt_index(**changes: Any) -> Evidence:
    found = evidence()
    return replace(found, indexes=(replace(found.indexes[0], **changes),))


def spoilt_answers(*told: Told) -> Evidence:
    return evidence(told=(*ANSWERS, *told))


SPOILT: list[tuple[str, Callable[[], Evidence]]] = [
    ("executions stuck", lambda: evidence([*LAWFUL[:4]], ANSWERS[:3])),
    ("executions stuck", lambda: evidence([*LAWFUL[:3], CANCEL], ())),
    ("worlds that never rest", lambda: replace(evidence(), quiet=False)),
    ("events after a cancel or an end", lambda: evidence([*LAWFUL, take("k7", B, attempt=2)])),
    ("events after a cancel or an end", lambda: evidence([*LAWFUL, CANCELED])),
    ("accepted cancels that came to nothing", lambda: spoilt_answers(answer("k9", "CancelExecution"))),
    ("logs in which a cancel lost", lambda: evidence([*LAWFUL[:3], CANCEL, done("k4", A, READY_B)])),
    ("logs in which a cancel lost", lambda: evidence([*LAWFUL[:5], CANCEL, done("k6", B, COMPLETED)])),
    ("nodes out of the graph's order", lambda: evidence([*LAWFUL[:3], take("k5", B), done("k6", B)])),
    ("nodes out of the graph's order", lambda: evidence([CREATE, START, ("k", None, "MarkNodeReady", (READY_B,))])),
    ("nodes out of the graph's order", lambda: evidence([*LAWFUL[:4], ("k", None, "MarkNodeReady", (READY_B,))])),
    ("nodes out of the graph's order", lambda: evidence([*LAWFUL[:3], done("k4", A, COMPLETED)])),
    ("nodes out of the graph's order", lambda: evidence([*LAWFUL[:4], done("k7", A)])),
    ("reports of those who were overtaken", lambda: evidence([*LAWFUL[:3], take("k", A, "w2", 2), done("k4", A)])),
    ("reports of those who were overtaken", lambda: evidence([*LAWFUL[:3], take("k", A, "w2", 1)])),
    ("nodes not held by whom they were given to", lambda: evidence([*LAWFUL[:3], done("k4", A, worker="w2")])),
    (
        "nodes not held by whom they were given to",
        lambda: spoilt_answers(answer("k", "Claim", node_id=A, attempt=1, commit="c3")),
    ),
    (
        "nodes not held by whom they were given to",
        lambda: evidence(told=(answer("k3", "Claim", node_id=A, attempt=1, worker_id="w2", commit="c3"),)),
    ),
    ("requests done twice", lambda: evidence([*LAWFUL[:3], take("k3", A, attempt=2)])),
    ("requests answered in two ways", lambda: spoilt_answers(answer("k8", "FailNode", node_id=A, status=202))),
    ("requests answered in two ways", lambda: spoilt_answers(answer("k1", "CreateExecution", commit="c1", version=2))),
    ("accepted requests that were not done", lambda: spoilt_answers(answer("k", "SucceedNode", commit="c99"))),
    ("accepted requests that were not done", lambda: spoilt_answers(answer("k", "CreateExecution"))),
    ("accepted requests that were not done", lambda: spoilt_answers(answer("k", "SucceedNode", node_id=A, attempt=2))),
    ("snapshots unlike their log", lambda: replace(evidence(), snapshots={})),
    ("snapshots unlike their log", lambda: replace(evidence(), snapshots=evidence([*LAWFUL[:4]]).ends)),
    ("indexes unlike the snapshots", lambda: spoilt_index(claimable=frozenset({(RUN, A, 0)}))),
    ("indexes unlike the snapshots", lambda: spoilt_index(waits=frozenset({(RUN, A, 1)}))),
    ("indexes unlike the snapshots", lambda: spoilt_index(known={})),
    ("errors that nobody expected", lambda: replace(evidence(), troubles=("ValueError()",))),
]


@pytest.mark.parametrize(("name", "spoil"), SPOILT)
def test_a_promise_that_was_broken_is_found(name: str, spoil: Callable[[], Evidence]) -> None:
    assert name in broken(spoil())


def test_every_promise_is_shown_to_be_breakable() -> None:
    assert {name for name, _ in SPOILT} == set(INVARIANTS)
