"""Counting the events of requests: numbers that add up at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.events import (
    Actor,
    Commit,
    Event,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    NodeCanceled,
    NodeFailed,
    NodeStarted,
    NodeSucceeded,
    StoredCommit,
)
from pyoco_server.domain.execution.state import Failure, Request, StopHow, Work
from pyoco_server.domain.ids import CommitId, NodeId, RunId
from pyoco_server.domain.pdca.counting import count, progress_of
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, pack
from pyoco_server.domain.pdca.strategies import (
    BatchOutput,
    Health,
    RequestProgress,
    StrategyResult,
    output_to_plain,
)

RUN = RunId("01900000-0000-7000-8000-000000000000")
ONE, TWO = node_of(1), node_of(2)
A, B, C = (StrategyId(name) for name in "abc")
ERROR = Failure(code="X", message="x")


def commits(*events: Event) -> list[StoredCommit]:
    """A request with the batches (a, b) and (c), and a commit per event."""
    request = Request(flow_name=REQUEST_FLOW, work=Work.NODES)
    created = ExecutionCreated(at=1.0, request=request, node_inputs=pack([[A, B], [C]]))
    return [
        StoredCommit(
            sequence=sequence,
            commit=Commit(
                commit_id=CommitId(f"c{sequence}"),
                occurred_at=event.at,
                command="X",
                actor=Actor(kind="user"),
                events=(event,),
            ),
        )
        for sequence, event in enumerate([created, *events], start=1)
    ]


def progress(*events: Event) -> RequestProgress:
    counted = count(commits(*events), None, RUN)
    assert counted is not None
    return progress_of(counted.request)


def succeeded(node_id: NodeId, *results: StrategyResult, attempt: int = 1, at: float = 2.0) -> NodeSucceeded:
    return NodeSucceeded(
        at=at, node_id=node_id, attempt=attempt, output=output_to_plain(BatchOutput(results=tuple(results)))
    )


def result(strategy: StrategyId, health: Health = Health.HEALTHY) -> StrategyResult:
    return StrategyResult(strategy=strategy, health=health)


def numbers(of: RequestProgress) -> tuple[int, ...]:
    return (of.completed_batches, of.completed_strategies, of.success, of.failed)


def test_a_new_request_has_nothing_completed() -> None:
    new = progress()

    assert (new.total_batches, new.total_strategies, numbers(new)) == (2, 3, (0, 0, 0, 0))


def test_a_strategy_without_a_result_has_failed() -> None:
    some = progress(NodeStarted(at=1.0, node_id=ONE, attempt=1), succeeded(ONE, result(A), result(C), at=9.0))

    assert numbers(some) == (1, 2, 1, 1)
    assert some.health == {Health.HEALTHY: 1, Health.DEGRADED: 0, Health.UNKNOWN: 1}
    assert some.last_update == 9.0


@pytest.mark.parametrize("output", [None, "done", {"results": 3}, {"results": [{"health": "fine"}]}])
def test_an_output_that_cannot_be_read_fails_its_strategies(output: Any) -> None:
    assert numbers(progress(NodeSucceeded(at=2.0, node_id=ONE, attempt=1, output=output))) == (1, 2, 0, 2)


def test_a_node_that_was_started_again_counts_as_it_was_left() -> None:
    again = NodeStarted(at=3.0, node_id=ONE, attempt=2)

    assert numbers(progress(succeeded(ONE, result(A), result(B)), again)) == (0, 0, 0, 0)
    failed = NodeFailed(at=4.0, node_id=ONE, attempt=2, error=ERROR)
    assert numbers(progress(succeeded(ONE, result(A), result(B)), again, failed)) == (1, 2, 0, 2)
    assert numbers(progress(again, succeeded(ONE, result(A)))) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "end",
    [
        ExecutionCompleted(at=9.0),
        ExecutionFailed(at=9.0, error=ERROR),
        ExecutionCanceled(at=9.0, how=StopHow.COOPERATIVE),
    ],
)
def test_at_the_end_nothing_is_open(end: Event) -> None:
    ended = progress(succeeded(TWO, result(C)), end, succeeded(ONE, result(A), result(B)))

    assert numbers(ended) == (2, 3, 1, 2)


def test_after_a_cancel_request_only_cancels_count() -> None:
    asked = ExecutionCancelRequested(at=2.0)

    late = progress(asked, succeeded(ONE, result(A)), ExecutionCompleted(at=3.0))
    stopped = progress(asked, NodeCanceled(at=3.0, node_id=ONE))

    assert numbers(late) == (0, 0, 0, 0)
    assert numbers(stopped) == (1, 2, 0, 2)


@pytest.mark.parametrize(
    "request_fields",
    [{"flow_name": "other", "node_inputs": pack([[A]])}, {"node_inputs": None}, {"node_inputs": b"no"}],
)
def test_other_executions_are_no_requests(request_fields: dict[str, Any]) -> None:
    first, *_ = commits()
    request = Request(flow_name=request_fields.pop("flow_name", REQUEST_FLOW), work=Work.NODES)
    created = ExecutionCreated(at=1.0, request=request, **request_fields)
    commit = Commit(
        commit_id=first.commit.commit_id, occurred_at=1.0, command="X", actor=Actor(kind="user"), events=(created,)
    )

    assert count([StoredCommit(sequence=1, commit=commit)], None, RUN) is None


NODES, ATTEMPTS = st.sampled_from([ONE, TWO, NodeId("other")]), st.integers(1, 2)
RESULTS = st.lists(st.builds(result, st.sampled_from([A, B, C]), st.sampled_from(Health)), max_size=4)
EVENTS = st.lists(
    st.one_of(
        st.builds(NodeStarted, at=st.just(2.0), node_id=NODES, attempt=ATTEMPTS),
        st.builds(lambda node, some, attempt: succeeded(node, *some, attempt=attempt), NODES, RESULTS, ATTEMPTS),
        st.builds(NodeFailed, at=st.just(2.0), node_id=NODES, attempt=ATTEMPTS, error=st.just(ERROR)),
        st.builds(NodeCanceled, at=st.just(2.0), node_id=NODES),
        st.just(ExecutionCancelRequested(at=2.0)),
        st.just(ExecutionCompleted(at=2.0)),
        st.just(ExecutionCanceled(at=2.0, how=StopHow.KILLED)),
    ),
    max_size=8,
)


@given(EVENTS, st.integers(0, 9), st.integers(0, 9))
def test_numbers_add_up_however_the_log_is_read(events: Sequence[Event], cut: int, repeated: int) -> None:
    log = commits(*events)
    whole = count(log, None, RUN)

    first = count(log[: cut + 1], None, RUN)
    assert whole is not None
    assert first is not None
    second = count(log[max(0, cut + 1 - repeated) :], first.request, RUN)

    assert second is not None
    assert second.request == whole.request
    now = progress_of(second.request)
    assert now.success + now.failed == now.completed_strategies == sum(now.health.values())
    assert now.completed_batches <= now.total_batches
    assert now.completed_strategies <= now.total_strategies
    if whole.request.ended_at is not None:
        assert (now.completed_batches, now.completed_strategies) == (2, 3)
