"""Effects of single events, also in unusual logs; rules about whole logs are properties."""

from __future__ import annotations

from typing import get_args

import pytest

from pyoco_server.domain.execution.events import (
    EVENT_NAMES,
    Event,
    ExecutionArchived,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    ExecutionStarted,
    ExecutionTagAdded,
    ExecutionTagRemoved,
    NodeCanceled,
    NodeCreated,
    NodeFailed,
    NodeProgressReported,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
)
from pyoco_server.domain.execution.evolve import evolve, fold
from pyoco_server.domain.execution.state import (
    CancelReceipt,
    Execution,
    Failure,
    Holder,
    Node,
    NodeStatus,
    Request,
    Status,
    StopHow,
    empty_execution,
    stronger,
)
from pyoco_server.domain.ids import InstanceId, NodeId, WorkerId
from unit.domain.execution.strategies import RUN_ID

NODE = NodeId("extract")
ERROR = Failure(code="E_READ", message="no such file")
CREATED = ExecutionCreated(at=1.0, request=Request(flow_name="etl"), labels=("nightly",))
STARTED = ExecutionStarted(at=2.0, attempt=1, worker_id=WorkerId("w-1"), instance_id=InstanceId("i-1"))
NODE_STARTED = NodeStarted(at=3.0, node_id=NODE, attempt=1, worker_id=WorkerId("w-1"), lease_until=13.0)
WAITING = NodeWaiting(at=4.0, node_id=NODE, attempt=1, wait_key="k", prompt="continue?", deadline_at=99.0)
SUCCEEDED = NodeSucceeded(at=5.0, node_id=NODE, attempt=1, output={"rows": 3})
CANCEL_REQUESTED = ExecutionCancelRequested(at=6.0, reason="wrong input", requested_by="alice")


def _fold(*events: Event) -> Execution:
    return fold(events, empty_execution(RUN_ID))


def _node(*events: Event) -> Node:
    return _fold(CREATED, STARTED, *events).nodes[NODE]


def test_every_event_has_a_stored_name() -> None:
    assert set(EVENT_NAMES.values()) == set(get_args(Event))


def test_the_ranks_are_those_of_the_design() -> None:
    assert [status.rank for status in (Status.ACTIVE, Status.COMPLETED, Status.FAILED, Status.CANCELED)] == [
        100,
        200,
        300,
        400,
    ]
    assert [status.name for status in sorted(NodeStatus, key=lambda status: status.rank)] == [
        "IDLE",
        "READY",
        "RUNNING",
        "WAITING",
        "SUCCEEDED",
        "FAILED",
        "CANCELED",
    ]
    assert stronger(Status.FAILED, Status.COMPLETED) is stronger(Status.COMPLETED, Status.FAILED) is Status.FAILED


def test_a_created_execution_has_the_requested_fields() -> None:
    execution = _fold(CREATED)

    assert execution == Execution(
        execution_id=RUN_ID, request=CREATED.request, labels=("nightly",), created_at=1.0, updated_at=1.0
    )


def test_a_second_creation_changes_nothing() -> None:
    execution = _fold(CREATED)

    assert evolve(execution, ExecutionCreated(at=9.0, request=Request(flow_name="other"))) is execution


def test_a_take_over_changes_the_holder_and_keeps_the_first_start() -> None:
    execution = _fold(CREATED, STARTED, ExecutionStarted(at=9.0, attempt=2, instance_id=InstanceId("i-2")))

    assert execution.started_at == 2.0
    assert execution.holder == Holder(attempt=2, worker_id=None, instance_id=InstanceId("i-2"))
    assert evolve(execution, STARTED) is execution


def test_a_cancel_leaves_a_receipt_that_its_confirmation_completes() -> None:
    canceled = ExecutionCanceled(at=9.0, how=StopHow.KILLED, delivered_at=6.1, stopped_at=8.0)

    execution = _fold(CREATED, STARTED, CANCEL_REQUESTED, canceled)

    assert execution.cancel == CancelReceipt(
        requested_at=6.0,
        requested_by="alice",
        reason="wrong input",
        delivered_at=6.1,
        stopped_at=8.0,
        how=StopHow.KILLED,
    )
    assert (execution.status, execution.ended_at) == (Status.CANCELED, 9.0)


def test_a_second_cancel_request_changes_nothing() -> None:
    execution = _fold(CREATED, CANCEL_REQUESTED)

    assert evolve(execution, ExecutionCancelRequested(at=9.0, requested_by="bob")) is execution


@pytest.mark.parametrize(
    "event",
    [
        ExecutionStarted(at=9.0, attempt=2),
        ExecutionCompleted(at=9.0),
        ExecutionFailed(at=9.0, error=ERROR),
        NodeCreated(at=9.0, node_id=NodeId("load")),
        NodeProgressReported(at=9.0, node_id=NODE, attempt=1, progress=50),
        NodeStarted(at=9.0, node_id=NODE, attempt=2),
        NodeSucceeded(at=9.0, node_id=NODE, attempt=1),
        NodeFailed(at=9.0, node_id=NODE, attempt=1, error=ERROR),
    ],
    ids=lambda event: type(event).__name__,
)
def test_after_a_cancel_request_progress_changes_nothing(event: Event) -> None:
    execution = _fold(CREATED, STARTED, NODE_STARTED, CANCEL_REQUESTED)

    assert evolve(execution, event) is execution


def test_the_higher_rank_wins_in_either_order_and_the_first_end_is_final() -> None:
    completed, failed = ExecutionCompleted(at=7.0), ExecutionFailed(at=8.0, error=ERROR)

    one, other = _fold(CREATED, completed, failed), _fold(CREATED, failed, completed)

    assert (one.status, one.error, one.ended_at) == (Status.FAILED, ERROR, 7.0)
    assert (other.status, other.error, other.ended_at) == (Status.FAILED, ERROR, 8.0)


@pytest.mark.parametrize(
    "event", [CANCEL_REQUESTED, STARTED, NODE_STARTED, NodeCanceled(at=9.0, node_id=NODE)], ids=repr
)
def test_after_the_end_nothing_changes_but_labels_and_archive(event: Event) -> None:
    execution = _fold(CREATED, ExecutionCompleted(at=5.0))

    assert evolve(execution, event) is execution
    assert evolve(execution, ExecutionArchived(at=9.0)).archived_at == 9.0
    assert evolve(execution, ExecutionTagAdded(at=9.0, tag="x")).labels == ("nightly", "x")
    assert evolve(execution, ExecutionTagRemoved(at=9.0, tag="nightly")).labels == ()


def test_a_succeeded_node_has_an_output_and_no_lease() -> None:
    node = _node(NODE_STARTED, SUCCEEDED)

    assert node == Node(
        node_id=NODE,
        status=NodeStatus.SUCCEEDED,
        attempt=1,
        worker_id=WorkerId("w-1"),
        started_at=3.0,
        ended_at=5.0,
        output={"rows": 3},
    )


def test_a_waiting_node_keeps_its_key_until_it_is_resumed() -> None:
    waiting, resumed = (
        _node(NODE_STARTED, WAITING),
        _node(NODE_STARTED, WAITING, NodeResumed(at=5.0, node_id=NODE, attempt=1)),
    )

    assert (waiting.status, waiting.wait_key, waiting.deadline_at) == (NodeStatus.WAITING, "k", 99.0)
    assert waiting.lease_until is None
    assert (resumed.status, resumed.wait_key, resumed.prompt) == (NodeStatus.RUNNING, None, None)


def test_progress_keeps_omitted_fields() -> None:
    node = _node(
        NODE_STARTED,
        NodeProgressReported(at=4.0, node_id=NODE, attempt=1, progress=40, message="reading"),
        NodeProgressReported(at=5.0, node_id=NODE, attempt=1, lease_until=20.0),
    )

    assert (node.progress, node.message, node.lease_until) == (40, "reading", 20.0)


def test_a_higher_attempt_resets_the_node() -> None:
    node = _node(NODE_STARTED, SUCCEEDED, NodeStarted(at=9.0, node_id=NODE, attempt=2))

    assert node == Node(node_id=NODE, status=NodeStatus.RUNNING, attempt=2, started_at=9.0)


@pytest.mark.parametrize(
    "event",
    [NODE_STARTED, WAITING, SUCCEEDED, NodeFailed(at=9.0, node_id=NODE, attempt=1, error=ERROR)],
    ids=lambda event: type(event).__name__,
)
def test_an_event_of_a_superseded_attempt_changes_nothing(event: Event) -> None:
    execution = _fold(CREATED, STARTED, NodeStarted(at=3.0, node_id=NODE, attempt=2))

    assert evolve(execution, event) is execution


def test_an_event_of_an_attempt_without_a_start_applies() -> None:
    assert _node(NODE_STARTED, NodeSucceeded(at=5.0, node_id=NODE, attempt=2)).status is NodeStatus.SUCCEEDED
    assert _node(NODE_STARTED, NodeResumed(at=5.0, node_id=NODE, attempt=2)).status is NodeStatus.RUNNING
    assert _node(SUCCEEDED, NODE_STARTED).started_at == 3.0


def test_updated_at_is_the_time_of_the_latest_effective_event() -> None:
    assert _fold(CREATED, STARTED).updated_at == 2.0
    assert _fold(ExecutionCreated(at=9.0, request=Request()), STARTED).updated_at == 9.0
    assert _fold(CREATED, ExecutionTagRemoved(at=9.0, tag="never there")).updated_at == 1.0
