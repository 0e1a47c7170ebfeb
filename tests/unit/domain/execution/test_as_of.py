"""The past of an execution: a prefix of its log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.as_of import AsOfTime, AsOfVersion, fold_as_of
from pyoco_server.domain.execution.events import (
    Actor,
    Commit,
    Event,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionStarted,
    ExecutionTagAdded,
    StoredCommit,
)
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, Request, empty_execution
from pyoco_server.domain.ids import CommitId, RunId

RUN = RunId("01900000-0000-7000-8000-000000000000")


def commit(sequence: int, *events: Event) -> StoredCommit:
    actor, commit_id = Actor(kind="user", id="ann"), CommitId(f"c{sequence}")
    made = Commit(commit_id=commit_id, occurred_at=events[0].at, command="Test", actor=actor, events=events)
    return StoredCommit(sequence=sequence, commit=made)


CREATED = ExecutionCreated(at=10.0, request=Request(flow_name="f", tag="default", input={}))
LOG = [
    commit(3, CREATED),
    commit(5, ExecutionStarted(at=12.0, attempt=1), ExecutionTagAdded(at=14.0, tag="late")),
    commit(9, ExecutionCompleted(at=13.0)),
]


@pytest.mark.parametrize(
    ("then", "version", "labels", "status"),
    [
        (AsOfVersion(2), 0, (), "ACTIVE"),
        (AsOfVersion(3), 3, (), "ACTIVE"),
        (AsOfVersion(8), 5, ("late",), "ACTIVE"),
        (AsOfVersion(9), 9, ("late",), "COMPLETED"),
        (AsOfTime(9.9), 0, (), "ACTIVE"),
        (AsOfTime(10.0), 3, (), "ACTIVE"),
        (AsOfTime(12.9), 5, (), "ACTIVE"),
        # The clock of the last writer is behind: the order of the log counts.
        (AsOfTime(13.0), 9, ("late",), "COMPLETED"),
    ],
)
def test_the_past_has_the_events_until_then(
    then: AsOfVersion | AsOfTime, version: int, labels: tuple[str, ...], status: str
) -> None:
    past = fold_as_of(LOG, RUN, then)

    assert (past.version, past.labels, past.status.value) == (version, labels, status)
    assert past.exists is (version > 0)


TIMES = st.integers(0, 9).map(float)


@given(
    times=st.lists(st.lists(TIMES, min_size=1, max_size=3), min_size=1, max_size=5),
    asked=TIMES,
)
def test_the_past_is_always_a_prefix_of_the_log_that_grows_with_the_time(
    times: list[list[float]], asked: float
) -> None:
    tags = iter(range(100))
    log = [commit(1, CREATED)] + [
        commit(n, *(ExecutionTagAdded(at=at, tag=f"t{next(tags)}") for at in some))
        for n, some in enumerate(times, start=2)
    ]
    everything = _labels(fold_commits(log, empty_execution(RUN)))

    earlier, later = (_labels(fold_as_of(log, RUN, AsOfTime(at))) for at in (asked, asked + 1))

    assert everything[: len(earlier)] == earlier
    assert later[: len(earlier)] == earlier


def _labels(execution: Execution) -> tuple[str, ...]:
    return execution.labels
