"""The rules of `decide` for graphs: the consequences of a finished node are part of the same decision."""

from __future__ import annotations

import pytest

from pyoco_server.domain.execution.commands import (
    CancelExecution,
    Command,
    CompleteExecution,
    ConfirmCanceled,
    CreateExecution,
    DeclareNodes,
    FailExecution,
    FailNode,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, RejectionReason, decide
from pyoco_server.domain.execution.events import (
    ExecutionCompleted,
    ExecutionFailed,
    ExecutionStarted,
    NodeCanceled,
    NodeFailed,
    NodeReady,
    NodeResumed,
    NodeSucceeded,
    NodeWaiting,
)
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import (
    MAX_NODES,
    Execution,
    Failure,
    NodeStatus,
    Request,
    Status,
    StopHow,
    empty_execution,
)
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId
from unit.domain.execution.strategies import RUN_ID, after

A, B, C, WAIT = NodeId("a"), NodeId("b"), NodeId("c"), NodeId("wait")
ERROR = Failure(code="E_READ", message="no such file")


def _graph(*edges: tuple[NodeId, NodeId], nodes: tuple[NodeId, ...] = (A, B, C)) -> CreateExecution:
    drawn = tuple(GraphNode(node_id=name, wait_key="approval-1" if name == WAIT else None) for name in nodes)
    return CreateExecution(at=1.0, request=Request(), graph=Graph(nodes=drawn, edges=edges))


START = StartExecution(at=2.0)
JOIN = (_graph((A, C), (B, C)), START)


def _complete(*names: NodeId) -> tuple[Command, ...]:
    return tuple(
        command
        for name in names
        for command in (StartNode(at=3.0, node_id=name), SucceedNode(at=4.0, node_id=name, output=name))
    )


def _reason_of(execution: Execution, command: Command) -> RejectionReason | None:
    verdict = decide(execution, command)
    return verdict.why if isinstance(verdict, Rejection) else None


def test_the_nodes_of_a_graph_are_known_from_the_start_and_its_roots_become_ready() -> None:
    execution = after(JOIN[0])

    assert [node.status for node in execution.nodes.values()] == [NodeStatus.IDLE] * 3
    assert decide(execution, START) == (
        ExecutionStarted(at=2.0, attempt=1),
        NodeReady(at=2.0, node_id=A),
        NodeReady(at=2.0, node_id=B),
    )


def test_a_take_over_does_not_restart_the_graph() -> None:
    execution = after(*JOIN, *_complete(A))

    assert decide(execution, StartExecution(at=9.0, attempt=2)) == (ExecutionStarted(at=9.0, attempt=2),)


def test_a_join_becomes_ready_with_the_last_of_its_predecessors() -> None:
    execution = after(*JOIN, *_complete(A), StartNode(at=5.0, node_id=B))

    assert execution.nodes[C].status is NodeStatus.IDLE
    assert decide(execution, SucceedNode(at=6.0, node_id=B)) == (
        NodeSucceeded(at=6.0, node_id=B, attempt=1),
        NodeReady(at=6.0, node_id=C),
    )


def test_a_fork_makes_all_its_successors_ready_at_once() -> None:
    execution = after(_graph((A, B), (A, C)), START, StartNode(at=3.0, node_id=A))

    assert decide(execution, SucceedNode(at=6.0, node_id=A)) == (
        NodeSucceeded(at=6.0, node_id=A, attempt=1),
        NodeReady(at=6.0, node_id=B),
        NodeReady(at=6.0, node_id=C),
    )


def test_the_last_success_completes_the_execution_in_the_same_commit() -> None:
    execution = after(*JOIN, *_complete(A, B), StartNode(at=5.0, node_id=C))

    assert decide(execution, SucceedNode(at=6.0, node_id=C)) == (
        NodeSucceeded(at=6.0, node_id=C, attempt=1),
        ExecutionCompleted(at=6.0),
    )


def test_a_failed_node_fails_the_graph_and_ends_its_running_nodes() -> None:
    execution = after(*JOIN, StartNode(at=3.0, node_id=A), StartNode(at=3.0, node_id=B))

    error = Failure(code="E_READ", message="node a failed: no such file")
    assert decide(execution, FailNode(at=6.0, node_id=A, error=ERROR)) == (
        NodeFailed(at=6.0, node_id=A, attempt=1, error=ERROR),
        NodeCanceled(at=6.0, node_id=B),
        ExecutionFailed(at=6.0, error=error),
    )


def test_a_wait_node_waits_without_a_holder_and_succeeds_with_its_resume() -> None:
    execution = after(_graph((A, WAIT), (WAIT, B), nodes=(A, WAIT, B)), START, StartNode(at=3.0, node_id=A))

    reached = decide(execution, SucceedNode(at=4.0, node_id=A))
    waiting = after(_graph((A, WAIT), (WAIT, B), nodes=(A, WAIT, B)), START, *_complete(A))
    resumed = decide(waiting, ResumeNode(at=5.0, node_id=WAIT, resume_key="approval-1"))

    assert reached == (
        NodeSucceeded(at=4.0, node_id=A, attempt=1),
        NodeReady(at=4.0, node_id=WAIT),
        NodeWaiting(at=4.0, node_id=WAIT, attempt=1, wait_key="approval-1"),
    )
    assert resumed == (
        NodeResumed(at=5.0, node_id=WAIT, attempt=1),
        NodeSucceeded(at=5.0, node_id=WAIT, attempt=1),
        NodeReady(at=5.0, node_id=B),
    )


def test_a_graph_that_ends_in_a_wait_node_completes_with_its_resume() -> None:
    execution = after(_graph(nodes=(WAIT,)), START, ResumeNode(at=5.0, node_id=WAIT, resume_key="approval-1"))

    assert execution.status is Status.COMPLETED


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (StartNode(at=3.0, node_id=C), RejectionReason.NODE_NOT_READY),
        (StartNode(at=3.0, node_id=A), RejectionReason.NODE_FINISHED),
        (StartNode(at=3.0, node_id=A, attempt=2), RejectionReason.NODE_FINISHED),
        (StartNode(at=3.0, node_id=NodeId("z")), RejectionReason.UNKNOWN_NODE),
        (DeclareNodes(at=3.0, node_ids=(A, NodeId("z"))), RejectionReason.UNKNOWN_NODE),
        (CompleteExecution(at=3.0), RejectionReason.GRAPH_DECIDES),
    ],
    ids=[
        "a node that is not ready cannot be started",
        "a succeeded node cannot be restarted",
        "a succeeded node cannot be restarted by any attempt",
        "an unknown node cannot be started",
        "an unknown node cannot be declared",
        "the graph cannot be completed by command",
    ],
)
def test_commands_that_contradict_the_edges_are_refused(command: Command, why: RejectionReason) -> None:
    assert _reason_of(after(*JOIN, *_complete(A)), command) is why


def test_a_wait_node_cannot_be_started() -> None:
    waiting = after(_graph(nodes=(WAIT,)), START)

    assert _reason_of(waiting, StartNode(at=3.0, node_id=WAIT)) is RejectionReason.NODE_NOT_RUNNING
    assert _reason_of(waiting, StartNode(at=3.0, node_id=WAIT, attempt=2)) is RejectionReason.NODE_NOT_RUNNING


def test_a_graph_can_be_failed_as_a_whole() -> None:
    execution = after(*JOIN, StartNode(at=3.0, node_id=A), FailExecution(at=6.0, error=ERROR))

    assert execution.status is Status.FAILED
    assert [node.status for node in execution.nodes.values()] == [
        NodeStatus.CANCELED,
        NodeStatus.READY,
        NodeStatus.IDLE,
    ]


def test_a_confirmed_cancel_ends_every_unfinished_node_with_an_event() -> None:
    confirm = ConfirmCanceled(at=9.0, how=StopHow.KILLED)
    execution = after(*JOIN, *_complete(A), StartNode(at=5.0, node_id=B), CancelExecution(at=6.0), confirm)

    assert {name: (node.status, node.canceled_by_execution) for name, node in execution.nodes.items()} == {
        A: (NodeStatus.SUCCEEDED, False),
        B: (NodeStatus.CANCELED, True),
        C: (NodeStatus.CANCELED, True),
    }


def test_an_invalid_graph_is_refused_with_its_problems() -> None:
    verdict = decide(empty_execution(RUN_ID), _graph((A, B), (B, A)))

    assert verdict == Rejection(why=RejectionReason.INVALID_GRAPH, detail="these nodes wait for each other: a, b")
    too_many = tuple(NodeId(f"n{place}") for place in range(MAX_NODES + 1))
    assert _reason_of(empty_execution(RUN_ID), _graph(nodes=too_many)) is RejectionReason.TOO_MANY_NODES


@pytest.mark.parametrize("name", ["", "x" * (MAX_NODE_ID_CHARS + 1)], ids=["empty", "too long"])
def test_a_node_of_a_graph_needs_a_printable_name(name: str) -> None:
    assert _reason_of(empty_execution(RUN_ID), _graph(nodes=(NodeId(name),))) is RejectionReason.INVALID_GRAPH
