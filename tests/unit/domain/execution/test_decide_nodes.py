"""The rules of `decide` for nodes of an open execution: nodes appear when they start, and attempts fence."""

from __future__ import annotations

import pytest

from pyoco_server.domain.execution.commands import (
    Command,
    CreateExecution,
    DeclareNodes,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, RejectionReason, decide
from pyoco_server.domain.execution.events import NodeCreated, NodeFailed, NodeResumed, NodeStarted
from pyoco_server.domain.execution.state import MAX_NAMES_BYTES, MAX_NODES, Execution, Failure, Request, Work
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId, WorkerId
from unit.domain.execution.strategies import after

A = NodeId("a")
ERROR = Failure(code="E_READ", message="no such file")
W1, W2 = WorkerId("w-1"), WorkerId("w-2")

OPEN = (CreateExecution(at=1.0, request=Request(flow_name="etl")), StartExecution(at=2.0))
START_A = StartNode(at=3.0, node_id=A, worker_id=W1, lease_until=13.0)
WAIT_A = PutNodeWaiting(at=4.0, node_id=A, wait_key="approval-1", prompt="continue?", deadline_at=99.0)


def _complete(*names: NodeId) -> tuple[Command, ...]:
    return tuple(
        command
        for name in names
        for command in (StartNode(at=3.0, node_id=name), SucceedNode(at=4.0, node_id=name, output=name))
    )


def _reason_of(execution: Execution, command: Command) -> RejectionReason | None:
    verdict = decide(execution, command)
    return verdict.why if isinstance(verdict, Rejection) else None


def test_a_node_appears_when_it_is_started() -> None:
    events = decide(after(*OPEN), START_A)

    assert events == (
        NodeCreated(at=3.0, node_id=A),
        NodeStarted(at=3.0, node_id=A, attempt=1, worker_id=W1, lease_until=13.0),
    )


def test_a_higher_attempt_restarts_a_finished_node() -> None:
    execution = after(*OPEN, *_complete(A))

    assert decide(execution, StartNode(at=9.0, node_id=A)) == (NodeStarted(at=9.0, node_id=A, attempt=2),)
    assert _reason_of(execution, StartNode(at=9.0, node_id=A, attempt=1)) is RejectionReason.NODE_FINISHED


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (StartNode(at=12.9, node_id=A, attempt=2, worker_id=W2), RejectionReason.NODE_HELD),
        (StartNode(at=13.0, node_id=A, attempt=2, worker_id=W2), None),
        (StartNode(at=4.0, node_id=A, attempt=2, worker_id=W1), None),
        (StartNode(at=4.0, node_id=A, worker_id=W2), RejectionReason.NODE_HELD),
        (StartNode(at=4.0, node_id=A, attempt=0, worker_id=W1), RejectionReason.INVALID_VALUE),
    ],
    ids=[
        "another worker waits while the lease lasts",
        "another worker takes over when the lease has ended",
        "the holder itself may restart",
        "without an attempt nothing is taken over",
        "attempts count from one",
    ],
)
def test_a_lease_reserves_a_node_for_its_holder(start: StartNode, why: RejectionReason | None) -> None:
    assert _reason_of(after(*OPEN, START_A), start) is why


@pytest.mark.parametrize(
    "command",
    [
        StartNode(at=5.0, node_id=A, attempt=1),
        ReportNodeProgress(at=5.0, node_id=A, attempt=1, progress=50),
        PutNodeWaiting(at=5.0, node_id=A, attempt=1, wait_key="approval-1"),
        SucceedNode(at=5.0, node_id=A, attempt=1),
        FailNode(at=5.0, node_id=A, attempt=1, error=ERROR),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_holder_superseded_by_a_higher_attempt_is_fenced(command: Command) -> None:
    taken_over = after(*OPEN, START_A, StartNode(at=20.0, node_id=A, attempt=2, worker_id=W2))

    assert _reason_of(taken_over, command) is RejectionReason.FENCED


@pytest.mark.parametrize(
    "command",
    [
        PutNodeWaiting(at=5.0, node_id=A, attempt=1, wait_key="approval-1"),
        ResumeNode(at=5.0, node_id=A, attempt=1, resume_key="approval-1"),
        FailNode(at=5.0, node_id=A, attempt=1, error=ERROR),
    ],
    ids=lambda command: type(command).__name__,
)
def test_an_old_attempt_is_fenced_while_the_new_one_waits(command: Command) -> None:
    waiting = after(*OPEN, START_A, StartNode(at=20.0, node_id=A, attempt=2, worker_id=W2), WAIT_A)

    assert _reason_of(waiting, command) is RejectionReason.FENCED


def test_declared_nodes_know_the_nodes_before_them() -> None:
    b, c = NodeId("b"), NodeId("c")

    declared = decide(after(*OPEN), DeclareNodes(at=9.0, node_ids=(A, b, c), edges=((A, b), (A, c), (b, c))))

    assert not isinstance(declared, Rejection)
    assert [event.before for event in declared if isinstance(event, NodeCreated)] == [(), (A,), (A, b)]


def test_a_repeated_command_to_a_node_gives_no_event() -> None:
    assert decide(after(*OPEN, START_A), START_A) == ()
    assert decide(after(*OPEN, START_A, WAIT_A), WAIT_A) == ()
    assert decide(after(*OPEN, START_A, WAIT_A), START_A) == ()
    assert decide(after(*OPEN, *_complete(A)), SucceedNode(at=9.0, node_id=A, attempt=1)) == ()
    assert decide(after(*OPEN, START_A), DeclareNodes(at=9.0, node_ids=(A,))) == ()
    failed = after(*OPEN, START_A, FailNode(at=4.0, node_id=A, error=ERROR))
    assert decide(failed, FailNode(at=9.0, node_id=A, error=ERROR)) == ()


def test_a_waiting_node_is_resumed_by_its_key() -> None:
    waiting = after(*OPEN, START_A, WAIT_A)

    assert decide(waiting, ResumeNode(at=5.0, node_id=A, resume_key="approval-1")) == (
        NodeResumed(at=5.0, node_id=A, attempt=1, lease_until=15.0),
    )
    assert _reason_of(waiting, ResumeNode(at=5.0, node_id=A, resume_key="guess")) is RejectionReason.WRONG_RESUME_KEY


def test_a_waiting_node_can_fail_but_not_succeed() -> None:
    waiting = after(*OPEN, START_A, WAIT_A)

    assert decide(waiting, FailNode(at=5.0, node_id=A, error=ERROR)) == (
        NodeFailed(at=5.0, node_id=A, attempt=1, error=ERROR),
    )
    assert _reason_of(waiting, SucceedNode(at=5.0, node_id=A)) is RejectionReason.NODE_NOT_RUNNING


@pytest.mark.parametrize("progress", [-0.1, 100.1, float("nan"), float("inf")])
def test_progress_is_a_number_from_0_to_100(progress: float) -> None:
    assert (
        _reason_of(after(*OPEN, START_A), ReportNodeProgress(at=4.0, node_id=A, progress=progress))
        is RejectionReason.INVALID_VALUE
    )


def test_an_open_execution_has_the_node_limit_of_a_graph() -> None:
    full = after(*OPEN, DeclareNodes(at=2.0, node_ids=tuple(NodeId(f"n{place}") for place in range(MAX_NODES))))

    for command in (
        StartNode(at=3.0, node_id=A),
        DeclareNodes(at=3.0, node_ids=(NodeId("n0"), A)),
    ):
        assert _reason_of(full, command) is RejectionReason.TOO_MANY_NODES
    assert decide(full, StartNode(at=3.0, node_id=NodeId("n0"))) == (
        NodeStarted(at=3.0, node_id=NodeId("n0"), attempt=1),
    )


def test_node_names_of_an_open_execution_fit_into_a_snapshot() -> None:
    long = [NodeId("\N{GRINNING FACE}" * 120 + f"{place:08}") for place in range(MAX_NODES)]
    request = Request(flow_name="etl", work=Work.NODES)
    full = after(
        CreateExecution(at=1.0, request=request),
        StartExecution(at=2.0),
        *(StartNode(at=3.0, node_id=name) for name in long[: MAX_NAMES_BYTES // 491]),
    )
    key = "\0" * 256

    assert _reason_of(full, StartNode(at=4.0, node_id=long[-1])) is RejectionReason.NAMES_TOO_LONG
    assert _reason_of(full, PutNodeWaiting(at=4.0, node_id=long[0], wait_key=key)) is RejectionReason.NAMES_TOO_LONG
    assert _reason_of(full, SucceedNode(at=4.0, node_id=long[0])) is None


@pytest.mark.parametrize("name", ["", "x" * (MAX_NODE_ID_CHARS + 1)], ids=["empty", "too long"])
def test_a_node_needs_a_printable_name(name: str) -> None:
    assert _reason_of(after(*OPEN), StartNode(at=3.0, node_id=NodeId(name))) is RejectionReason.INVALID_VALUE
