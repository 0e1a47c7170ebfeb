"""Properties that hold for every sequence of commands to an execution."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import (
    AddTag,
    ArchiveExecution,
    CancelExecution,
    Command,
    CompleteExecution,
    ConfirmCanceled,
    CreateExecution,
    DeclareNodes,
    FailNode,
    PutNodeWaiting,
    RemoveTag,
    StartExecution,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, decide
from pyoco_server.domain.execution.events import (
    Actor,
    Commit,
    Event,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionFailed,
    NodeFailed,
    NodeProgressReported,
    NodeReady,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
    StoredCommit,
)
from pyoco_server.domain.execution.evolve import evolve, fold, fold_commits
from pyoco_server.domain.execution.state import Execution, Failure, NodeStatus, Status, empty_execution
from pyoco_server.domain.ids import CommitId
from unit.domain.execution.strategies import (
    NODE_IDS,
    RUN_ID,
    commands,
    executions,
    plain_events,
    play,
    scripts,
    thorough,
)

# Repeated, these give neither an event nor an error.
_REPEATABLE = (
    CreateExecution,
    StartExecution,
    CancelExecution,
    ConfirmCanceled,
    ArchiveExecution,
    AddTag,
    RemoveTag,
    DeclareNodes,
    PutNodeWaiting,
)
_ENDS = {ExecutionCompleted: Status.COMPLETED, ExecutionFailed: Status.FAILED, ExecutionCanceled: Status.CANCELED}


def _commit(events: list[Event]) -> Commit:
    return Commit(
        commit_id=CommitId("c"), occurred_at=1.0, command="Test", actor=Actor(kind="user"), events=tuple(events)
    )


@thorough
@given(scripts())
def test_a_cancel_request_wins_over_later_commands(script: list[Command]) -> None:
    lives = play(script)

    for step in lives:
        if step.before.cancel_requested_at is not None:
            assert step.after.status in (Status.ACTIVE, Status.CANCELED)
            assert step.after.cancel_requested_at == step.before.cancel_requested_at


@thorough
@given(st.lists(plain_events), st.lists(plain_events))
def test_a_cancel_request_wins_in_any_log(earlier: list[Event], later: list[Event]) -> None:
    execution = fold([*earlier, ExecutionCancelRequested(at=1.0)], empty_execution(RUN_ID))

    end = fold(later, execution)

    if execution.status is Status.ACTIVE:
        assert end.status in (Status.ACTIVE, Status.CANCELED)
        assert {n.status for n in end.nodes.values()} - {n.status for n in execution.nodes.values()} <= {
            NodeStatus.CANCELED
        }


@thorough
@given(scripts())
def test_ranks_only_rise_except_by_a_resume_or_a_higher_attempt(script: list[Command]) -> None:
    for step in play(script):
        now = step.before
        for event in () if isinstance(step.verdict, Rejection) else step.verdict:
            before, now = now, evolve(now, event)
            assert now.status.rank >= before.status.rank
            for node_id, node in before.nodes.items():
                later = now.nodes[node_id]
                resumed = isinstance(event, NodeResumed) and event.node_id == node_id
                assert later.status.rank >= node.status.rank or resumed or later.attempt > node.attempt
                assert later.attempt >= node.attempt


@thorough
@given(executions, st.lists(commands, max_size=12))
def test_no_command_changes_the_status_or_nodes_of_a_finished_execution(
    execution: Execution, script: list[Command]
) -> None:
    lives = play(script, execution)

    for step in lives:
        if step.before.status.is_terminal:
            allowed = replace(
                step.before,
                labels=step.after.labels,
                archived_at=step.after.archived_at,
                updated_at=step.after.updated_at,
                version=step.after.version,
            )
            assert step.after == allowed


@thorough
@given(st.lists(plain_events))
def test_any_log_can_be_folded(log: list[Event]) -> None:
    fold(log, empty_execution(RUN_ID))


@thorough
@given(scripts(), st.randoms(use_true_random=False))
def test_a_shuffled_log_without_cancel_request_or_resume_ends_in_its_highest_rank(
    script: list[Command], random: Random
) -> None:
    log = [event for step in play(script) if not isinstance(step.verdict, Rejection) for event in step.verdict]
    log = [event for event in log if not isinstance(event, ExecutionCancelRequested | NodeResumed)]
    shuffled = sorted(log, key=lambda _: random.random())

    execution = fold(shuffled, empty_execution(RUN_ID))

    ends = [_ENDS[type(event)] for event in log if type(event) in _ENDS]
    assert execution.status is max(ends, key=lambda status: status.rank, default=Status.ACTIVE)


@thorough
@given(
    st.permutations(
        [
            NodeReady(at=1.0, node_id=NODE_IDS[0]),
            NodeProgressReported(at=1.0, node_id=NODE_IDS[0], attempt=1),
            NodeWaiting(at=1.0, node_id=NODE_IDS[0], attempt=1, wait_key="k"),
            NodeSucceeded(at=1.0, node_id=NODE_IDS[0], attempt=1),
            NodeFailed(at=1.0, node_id=NODE_IDS[0], attempt=1, error=Failure(code="E", message="no")),
            NodeStarted(at=1.0, node_id=NODE_IDS[0], attempt=1),
        ]
    ),
    st.integers(1, 6),
)
def test_events_of_one_attempt_in_any_order_leave_the_node_in_the_highest_rank(log: list[Event], length: int) -> None:
    ranks = {
        NodeReady: NodeStatus.READY,
        NodeProgressReported: NodeStatus.RUNNING,
        NodeStarted: NodeStatus.RUNNING,
        NodeWaiting: NodeStatus.WAITING,
        NodeSucceeded: NodeStatus.SUCCEEDED,
        NodeFailed: NodeStatus.FAILED,
    }
    seen = log[:length]

    execution = fold(seen, empty_execution(RUN_ID))

    highest = max((ranks[type(event)] for event in seen), key=lambda status: status.rank)
    assert execution.nodes[NODE_IDS[0]].status is highest


@thorough
@given(st.lists(plain_events))
def test_folding_many_events_equals_folding_one_by_one(log: list[Event]) -> None:
    execution = empty_execution(RUN_ID)
    for event in log:
        execution = evolve(execution, event)

    assert fold(log, empty_execution(RUN_ID)) == execution


@thorough
@given(st.lists(plain_events), st.integers(0, 20))
def test_folding_in_two_steps_equals_folding_in_one(log: list[Event], cut: int) -> None:
    halfway = fold(log[:cut], empty_execution(RUN_ID))

    assert fold(log[cut:], halfway) == fold(log, empty_execution(RUN_ID))


@thorough
@given(st.lists(st.lists(plain_events, max_size=5), max_size=6), st.integers(0, 6))
def test_folding_commits_in_two_steps_equals_folding_them_in_one(log: list[list[Event]], cut: int) -> None:
    stored = [StoredCommit(sequence=3 * place + 2, commit=_commit(events)) for place, events in enumerate(log)]
    halfway = fold_commits(stored[:cut], empty_execution(RUN_ID))

    whole = fold_commits(stored, empty_execution(RUN_ID))

    assert fold_commits(stored[cut:], halfway) == whole
    assert whole.version == (stored[-1].sequence if stored else 0)


@thorough
@given(executions, commands)
def test_every_command_gives_events_or_a_rejection_with_a_reason(execution: Execution, command: Command) -> None:
    verdict = decide(execution, command)

    if isinstance(verdict, Rejection):
        assert verdict.detail
    else:
        assert isinstance(verdict, tuple)


@thorough
@given(executions, commands)
def test_events_that_are_decided_always_change_the_execution(execution: Execution, command: Command) -> None:
    verdict = decide(execution, command)

    if verdict and not isinstance(verdict, Rejection):
        assert fold(verdict, execution) != replace(execution, updated_at=fold(verdict, execution).updated_at)


@thorough
@given(executions, commands)
def test_a_repeated_command_gives_no_second_event(execution: Execution, command: Command) -> None:
    first, second = play([command, command], execution)

    if isinstance(first.verdict, Rejection):
        assert second.verdict == first.verdict
    elif isinstance(command, _REPEATABLE):
        assert second.verdict == ()
    elif isinstance(command, SucceedNode | FailNode | CompleteExecution):
        # The repeated end of an execution meets a finished one; it may be rejected but changes nothing.
        assert second.verdict == () or isinstance(second.verdict, Rejection)


@thorough
@given(scripts())
def test_a_node_of_a_graph_starts_only_after_its_predecessors_succeeded(script: list[Command]) -> None:
    for step in play(script):
        graph = step.after.graph
        if graph is None:
            continue
        for source, target in graph.edges:
            if step.after.nodes[target].status not in (NodeStatus.IDLE, NodeStatus.CANCELED):
                assert step.after.nodes[source].status is NodeStatus.SUCCEEDED


@thorough
@given(scripts())
def test_the_last_success_of_a_graph_completes_it_in_the_same_commit(script: list[Command]) -> None:
    for step in play(script):
        if step.after.graph is not None:
            done = all(node.status is NodeStatus.SUCCEEDED for node in step.after.nodes.values())
            assert done == (step.after.status is Status.COMPLETED)


@thorough
@given(scripts())
def test_a_started_graph_never_stalls(script: list[Command]) -> None:
    for step in play(script):
        now = step.after
        if now.graph is not None and now.holder is not None and now.cancel is None and not now.status.is_terminal:
            going = (NodeStatus.READY, NodeStatus.RUNNING, NodeStatus.WAITING)
            assert any(node.status in going for node in now.nodes.values())


@thorough
@given(scripts())
def test_a_finished_execution_has_no_running_node(script: list[Command]) -> None:
    for step in play(script):
        if step.after.status.is_terminal:
            assert not any(node.status.is_held for node in step.after.nodes.values())
            assert step.after.ended_at is not None
