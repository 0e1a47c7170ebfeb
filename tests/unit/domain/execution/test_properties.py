"""Properties that hold for every sequence of commands to an execution."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.domain.execution import codec
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
    ResumeNode,
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
from pyoco_server.domain.ids import CommitId, NodeId
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


def _is_followed(execution: Execution, source: NodeId, target: NodeId) -> bool:
    node, graph = execution.nodes[source], execution.graph
    when = graph.when.get((source, target), ()) if graph is not None else ()
    return node.status is NodeStatus.SUCCEEDED and (not when or node.choice in when)


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
def test_a_node_of_a_graph_starts_only_after_its_predecessors_and_along_a_followed_edge(script: list[Command]) -> None:
    for step in play(script):
        graph, nodes = step.after.graph, step.after.nodes
        for node_id in nodes if graph is not None else ():
            before = graph.before(node_id) if graph is not None else ()
            if nodes[node_id].status not in (NodeStatus.IDLE, NodeStatus.CANCELED):
                assert all(
                    nodes[source].status is NodeStatus.SUCCEEDED or nodes[source].is_skipped for source in before
                )
                assert not before or any(_is_followed(step.after, source, node_id) for source in before)


@thorough
@given(scripts())
def test_a_node_is_skipped_exactly_if_no_edge_to_it_can_be_followed_any_more(script: list[Command]) -> None:
    for step in play(script):
        graph, nodes = step.after.graph, step.after.nodes
        if graph is None or step.after.status in (Status.FAILED, Status.CANCELED):
            continue
        for node_id, node in nodes.items():
            before = graph.before(node_id)
            decided = all(nodes[source].status is NodeStatus.SUCCEEDED or nodes[source].is_skipped for source in before)
            out_of_reach = decided and not any(_is_followed(step.after, source, node_id) for source in before)
            assert node.is_skipped == (bool(before) and out_of_reach)


@thorough
@given(scripts())
def test_a_skipped_node_never_runs(script: list[Command]) -> None:
    for step in play(script):
        for node_id, node in step.before.nodes.items():
            if node.is_skipped:
                assert step.after.nodes[node_id] == node
                assert node.attempt == 0
                assert not node.canceled_by_execution


@thorough
@given(scripts())
def test_an_answer_outside_the_choices_changes_nothing(script: list[Command]) -> None:
    for step in play(script):
        if isinstance(step.command, ResumeNode) and not isinstance(step.verdict, Rejection):
            offered = step.before.nodes[step.command.node_id].choices
            resumed = step.verdict[0]
            assert isinstance(resumed, NodeResumed)
            assert (resumed.choice in offered) if offered else (resumed.choice is None)


@thorough
@given(scripts())
def test_a_replay_of_the_stored_commits_gives_the_same_execution(script: list[Command]) -> None:
    now, log = empty_execution(RUN_ID), []
    for step in play(script):
        if step.verdict and not isinstance(step.verdict, Rejection):
            log.append(codec.decode(codec.encode(RUN_ID, _commit(list(step.verdict)))).events)
            now = replace(step.after, version=0)

    assert fold([event for events in log for event in events], empty_execution(RUN_ID)) == now


@thorough
@given(scripts())
def test_the_last_node_of_a_graph_completes_it_in_the_same_commit(script: list[Command]) -> None:
    for step in play(script):
        if step.after.graph is not None:
            nodes = step.after.nodes.values()
            done = all(node.status is NodeStatus.SUCCEEDED or node.is_skipped for node in nodes)
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
