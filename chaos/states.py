"""What a log says of its run, state by state. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyoco_server.execution.events import ExecutionStarted, StoredCommit
from pyoco_server.execution.evolve import fold_commits
from pyoco_server.execution.ids import RunId
from pyoco_server.execution.state import Execution, nothing


def states(run_id: str, log: Sequence[StoredCommit]) -> Iterator[Execution]:
    """The execution after each of its commits."""
    execution = nothing(RunId(run_id))
    for stored in log:
        execution = fold_commits([stored], execution)
        yield execution


def final(run_id: str, log: Sequence[StoredCommit]) -> Execution:
    return fold_commits(log, nothing(RunId(run_id)))


def starts_of(log: Sequence[StoredCommit]) -> list[ExecutionStarted]:
    return [event for stored in log for event in stored.commit.events if isinstance(event, ExecutionStarted)]
