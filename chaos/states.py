"""Folds the log of a run into its states. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyoco_server.domain.execution.events import ExecutionStarted, StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import RunId


def states(run_id: str, log: Sequence[StoredCommit]) -> Iterator[Execution]:
    """The execution after each commit."""
    execution = empty_execution(RunId(run_id))
    for stored in log:
        execution = fold_commits([stored], execution)
        yield execution


def final(run_id: str, log: Sequence[StoredCommit]) -> Execution:
    return fold_commits(log, empty_execution(RunId(run_id)))


def starts_of(log: Sequence[StoredCommit]) -> list[ExecutionStarted]:
    return [event for stored in log for event in stored.commit.events if isinstance(event, ExecutionStarted)]
