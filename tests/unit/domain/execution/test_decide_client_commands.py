"""Commands from the API, for executions that workers run and for nodes that clients claim."""

from __future__ import annotations

import pytest

from pyoco_server.domain.execution.commands import (
    AddTag,
    CancelExecution,
    Command,
    CompleteExecution,
    ConfirmCanceled,
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
from pyoco_server.domain.execution.decide import Rejection, RejectionReason, decide
from pyoco_server.domain.execution.events import (
    ExecutionCanceled,
    ExecutionFailed,
    ExecutionQueued,
    ExecutionStarted,
    NodeCanceled,
    NodeFailed,
    NodeProgressReported,
    NodeReady,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
)
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import Execution, Failure, Request, StopHow, Work
from pyoco_server.domain.ids import InstanceId, NodeId, WorkerId
from unit.domain.execution.strategies import after

A, B, ASK = NodeId("a"), NodeId("b"), NodeId("ask")
ANN, BOB = WorkerId("ann"), WorkerId("bob")
ERROR = Failure(code="E_READ", message="no such file")
GRAPH = Graph(nodes=(GraphNode(node_id=A, max_attempts=2), GraphNode(node_id=B)), edges=((A, B),))
CREATE = CreateExecution(at=1.0, request=Request(flow_name="release", work=Work.NODES), graph=GRAPH)
START = StartExecution(at=2.0, from_outside=True)
QUEUED = CreateExecution(at=1.0, request=Request(flow_name="etl", tag="cpu"))
ON_START = CreateExecution(at=1.0, request=Request(flow_name="etl", tag="cpu", work=Work.ON_START))
TAKEN = StartExecution(at=3.0, attempt=1, worker_id=ANN, instance_id=InstanceId("i-1"))
CANCEL = CancelExecution(at=6.0)


def _take(at: float = 3.0, node_id: NodeId = A, attempt: int | None = None, by: WorkerId = ANN) -> StartNode:
    return StartNode(at=at, node_id=node_id, attempt=attempt, worker_id=by, lease_until=at + 10, from_outside=True)


def _reason_of(execution: Execution, command: Command) -> RejectionReason:
    verdict = decide(execution, command)
    assert isinstance(verdict, Rejection), verdict
    return verdict.why


# --- executions that a worker runs ------------------------------------------------------------------------------------


def test_a_start_queues_a_worker_execution_once() -> None:
    created = after(ON_START)
    queued = after(ON_START, START)

    assert not created.is_queued
    assert decide(created, START) == (ExecutionQueued(at=2.0),)
    assert queued.is_queued
    assert queued.started_at is None
    assert decide(queued, START) == ()


def test_an_execution_queued_at_creation_counts_as_started() -> None:
    assert decide(after(QUEUED), START) == ()


def test_a_worker_cannot_take_an_execution_that_is_not_started() -> None:
    assert _reason_of(after(ON_START), TAKEN) is RejectionReason.NOT_STARTED
    assert isinstance(decide(after(ON_START, START), TAKEN), tuple)


def test_a_worker_cannot_take_an_execution_with_claimable_nodes() -> None:
    assert _reason_of(after(CREATE), TAKEN) is RejectionReason.NOT_FOR_WORKERS


@pytest.mark.parametrize(
    "command",
    [
        CompleteExecution(at=4.0, from_outside=True),
        FailExecution(at=4.0, error=ERROR, from_outside=True),
        StartNode(at=4.0, node_id=A, from_outside=True),
        ReportNodeProgress(at=4.0, node_id=A, progress=5, from_outside=True),
        PutNodeWaiting(at=4.0, node_id=A, wait_key="k", from_outside=True),
        ResumeNode(at=4.0, node_id=A, resume_key="k", from_outside=True),
        SucceedNode(at=4.0, node_id=A, from_outside=True),
        FailNode(at=4.0, node_id=A, error=ERROR, from_outside=True),
    ],
)
def test_clients_cannot_report_nodes_of_a_worker_execution(command: Command) -> None:
    assert _reason_of(after(QUEUED, TAKEN), command) is RejectionReason.A_WORKER_RUNS_IT
    assert _reason_of(after(ON_START), command) is RejectionReason.A_WORKER_RUNS_IT


def test_clients_may_cancel_and_label_a_worker_execution() -> None:
    running = after(QUEUED, TAKEN)

    assert not isinstance(decide(running, CancelExecution(at=4.0, from_outside=True)), Rejection)
    assert not isinstance(decide(running, AddTag(at=4.0, tag="x", from_outside=True)), Rejection)


# --- nodes that are taken one by one ----------------------------------------------------------------------------------


def test_the_start_of_a_graph_makes_its_roots_ready() -> None:
    assert decide(after(CREATE), START) == (ExecutionStarted(at=2.0, attempt=1), NodeReady(at=2.0, node_id=A))


def test_an_attempt_other_than_the_next_is_refused() -> None:
    ready = after(CREATE, START)

    assert _reason_of(ready, _take(attempt=2)) is RejectionReason.INVALID_ATTEMPT
    assert _reason_of(ready, _take(attempt=0)) is RejectionReason.INVALID_VALUE
    assert decide(ready, _take(attempt=1)) == (
        NodeStarted(at=3.0, node_id=A, attempt=1, worker_id=ANN, lease_until=13.0),
    )


def test_a_lease_protects_its_holder_until_it_expires() -> None:
    taken = after(CREATE, START, _take())

    assert _reason_of(taken, _take(at=12.9, attempt=2, by=BOB)) is RejectionReason.NODE_HELD
    assert decide(taken, _take(at=13.0, attempt=2, by=BOB)) == (
        NodeStarted(at=13.0, node_id=A, attempt=2, worker_id=BOB, lease_until=23.0),
    )


def test_progress_renews_the_lease_by_its_original_duration() -> None:
    taken = after(CREATE, START, _take())

    renewed = decide(taken, ReportNodeProgress(at=8.0, node_id=A, attempt=1, progress=50, from_outside=True))

    assert renewed == (NodeProgressReported(at=8.0, node_id=A, attempt=1, progress=50, lease_until=18.0),)


def test_a_resume_gives_the_holder_a_new_lease_and_the_response() -> None:
    waiting = after(CREATE, START, _take(), PutNodeWaiting(at=5.0, node_id=A, wait_key="k", prompt="really?"))

    resumed = decide(waiting, ResumeNode(at=9.0, node_id=A, resume_key="k", answer="yes", from_outside=True))

    assert resumed == (NodeResumed(at=9.0, node_id=A, attempt=1, lease_until=19.0, answer="yes"),)


def test_the_response_to_a_wait_node_is_its_output() -> None:
    graph = Graph(
        nodes=(GraphNode(node_id=ASK, wait_key="k", timeout_sec=60.0), GraphNode(node_id=B)), edges=((ASK, B),)
    )
    waiting = after(CreateExecution(at=1.0, request=Request(work=Work.NODES), graph=graph), START)

    events = decide(waiting, ResumeNode(at=9.0, node_id=ASK, resume_key="k", answer={"ok": True}))

    assert waiting.nodes[ASK].deadline_at == 62.0
    assert events == (
        NodeResumed(at=9.0, node_id=ASK, attempt=1, answer={"ok": True}),
        NodeSucceeded(at=9.0, node_id=ASK, attempt=1, output={"ok": True}),
        NodeReady(at=9.0, node_id=B),
    )


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_wait_past_its_deadline_fails_the_graph() -> None:
    graph = Graph(nodes=(GraphNode(node_id=ASK, wait_key="k", timeout_sec=60.0),), edges=())
    waiting = after(CreateExecution(at=1.0, request=Request(work=Work.NODES), graph=graph), START)

    assert decide(waiting, ExpireNode(at=61.9, node_id=ASK, attempt=1)) == ()
    events = decide(waiting, ExpireNode(at=62.0, node_id=ASK, attempt=1))

    error = Failure(code="WAIT_TIMED_OUT", message="not resumed within 60 s")
    why = Failure(code="WAIT_TIMED_OUT", message="node ask failed: not resumed within 60 s")
    assert events == (
        NodeFailed(at=62.0, node_id=ASK, attempt=1, error=error),
        ExecutionFailed(at=62.0, error=why),
    )


def test_an_expired_lease_fails_the_node_only_at_its_last_attempt() -> None:
    once = after(CREATE, START, _take())
    twice = after(CREATE, START, _take(), _take(at=13.0, attempt=2, by=BOB))

    assert decide(once, ExpireNode(at=20.0, node_id=A, attempt=1)) == ()
    assert decide(twice, ExpireNode(at=22.9, node_id=A, attempt=2)) == ()
    assert _reason_of(twice, _take(at=23.0, attempt=3)) is RejectionReason.NO_MORE_ATTEMPTS
    events = decide(twice, ExpireNode(at=23.0, node_id=A, attempt=2))
    assert isinstance(events, tuple)
    assert [type(event) for event in events] == [NodeFailed, ExecutionFailed]


def test_an_outdated_expiry_changes_nothing() -> None:
    waiting = after(CREATE, START, _take(), PutNodeWaiting(at=5.0, node_id=A, wait_key="k", deadline_at=6.0))
    resumed = after(
        CREATE,
        START,
        _take(),
        PutNodeWaiting(at=5.0, node_id=A, wait_key="k", deadline_at=6.0),
        ResumeNode(at=5.5, node_id=A, resume_key="k"),
    )

    assert decide(waiting, ExpireNode(at=7.0, node_id=A, attempt=2)) == ()
    assert decide(waiting, ExpireNode(at=7.0, node_id=B, attempt=1)) == ()
    assert decide(resumed, ExpireNode(at=7.0, node_id=A, attempt=1)) == ()


# --- cancel -----------------------------------------------------------------------------------------------------------

FORK = Graph(nodes=(GraphNode(node_id=A), GraphNode(node_id=B)), edges=())
FORKED = (CreateExecution(at=1.0, request=Request(work=Work.NODES), graph=FORK), START)


def test_a_cancel_is_confirmed_at_once_if_no_node_is_held() -> None:
    idle = after(*FORKED, CANCEL)
    over = after(*FORKED, _take(), CANCEL)
    waits = after(*FORKED, _take(), PutNodeWaiting(at=4.0, node_id=A, wait_key="k"), CANCEL)

    assert isinstance(decide(idle, ConfirmCanceled(at=6.0, how=StopHow.IDLE)), tuple)
    assert isinstance(decide(waits, ConfirmCanceled(at=6.0, how=StopHow.IDLE)), tuple)
    assert _reason_of(over, ConfirmCanceled(at=12.9, how=StopHow.IDLE)) is RejectionReason.HELD
    assert isinstance(decide(over, ConfirmCanceled(at=13.0, how=StopHow.IDLE)), tuple)


def test_the_last_holder_that_stops_ends_the_execution() -> None:
    both = after(*FORKED, _take(), _take(node_id=B, by=BOB), CANCEL)
    one = after(*FORKED, _take(), _take(node_id=B, by=BOB), CANCEL, StopNode(at=7.0, node_id=A, attempt=1))

    assert decide(both, StopNode(at=7.0, node_id=A, attempt=1)) == (NodeCanceled(at=7.0, node_id=A),)
    assert _reason_of(both, StopNode(at=7.0, node_id=A, attempt=2)) is RejectionReason.FENCED
    assert decide(one, StopNode(at=7.5, node_id=A, attempt=1)) == ()
    assert decide(one, StopNode(at=8.0, node_id=B)) == (
        NodeCanceled(at=8.0, node_id=B),
        ExecutionCanceled(at=8.0, how=StopHow.COOPERATIVE, stopped_at=8.0),
    )


def test_a_resume_after_a_cancel_request_is_refused() -> None:
    waiting = after(*FORKED, _take(), PutNodeWaiting(at=4.0, node_id=A, wait_key="k"), CANCEL)

    verdict = decide(waiting, ResumeNode(at=7.0, node_id=A, resume_key="k", from_outside=True))

    assert verdict == Rejection(
        why=RejectionReason.CANCEL_REQUESTED, detail="ResumeNode rejected because execution is cancel-requested"
    )


def test_a_wait_node_without_holder_does_not_delay_a_cancel() -> None:
    events = decide(after(*FORKED, _take()), PutNodeWaiting(at=4.0, node_id=A, wait_key="k", deadline_at=9.0))

    assert events == (NodeWaiting(at=4.0, node_id=A, attempt=1, wait_key="k", deadline_at=9.0),)
