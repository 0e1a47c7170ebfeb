"""Which commits leave a record in the audit trail, and what it says."""

from __future__ import annotations

from typing import get_args

import pytest

from pyoco_server.domain.audit import ACTIONS, LEFT_OUT, record_of
from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.events import (
    Actor,
    Commit,
    Event,
    ExecutionCreated,
    ExecutionStarted,
    ExecutionTagAdded,
    NodeStarted,
)
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import CommitId, NodeId, RunId

RUN = RunId("0190b8a0-7c00-7000-8000-000000000001")
CREATED = ExecutionCreated(at=1.0, request=Request(flow_name="hello", tag="t", input={"password": "hunter2"}))
# Of the worker and the gateway only, which send them under their own names.
BY_WORKERS = {"RecordAttempt", "DeclareNodes", "ExpireNode"}


def commit(
    command: str, *events: Event, kind: str = "user", actor: str | None = "ann", commit_id: str = "c1"
) -> Commit:
    return Commit(
        commit_id=CommitId(commit_id),
        occurred_at=5.0,
        command=command,
        actor=Actor(kind=kind, id=actor),
        request_id="01J8TPZ7YJ1E1X4C5N9ZP3M3QJ",
        address="192.0.2.7",
        events=events,
    )


def test_a_record_says_who_did_what_when_and_from_where_without_params() -> None:
    record = record_of(RUN, commit("CreateExecution", CREATED))

    assert record is not None
    assert (record.actor_id, record.action, record.resource_id, record.at) == ("ann", "run.create", RUN, 5.0)
    assert (record.address, record.request_id) == ("192.0.2.7", "01J8TPZ7YJ1E1X4C5N9ZP3M3QJ")
    assert record.detail == {"flow": "hello"}
    assert "hunter2" not in repr(record)


@pytest.mark.parametrize("kind", ["worker", "gateway"])
def test_workers_and_gateways_leave_no_record(kind: str) -> None:
    assert record_of(RUN, commit("CreateExecution", CREATED, kind=kind)) is None


def test_a_progress_report_leaves_no_record() -> None:
    assert record_of(RUN, commit("ReportNodeProgress")) is None


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        (NodeStarted(at=1.0, node_id=NodeId("load"), attempt=1), {"node": "load"}),
        (ExecutionTagAdded(at=1.0, tag="urgent"), {"tag": "urgent"}),
    ],
)
def test_a_record_names_the_node_or_the_tag(event: Event, detail: dict[str, str]) -> None:
    record = record_of(RUN, commit("StartNode", event))

    assert record is not None
    assert record.detail == detail


def test_every_command_of_users_has_an_action() -> None:
    names = {kind.__name__ for kind in get_args(Command)} - BY_WORKERS

    assert names <= ACTIONS.keys() | LEFT_OUT


def test_a_request_that_creates_and_starts_has_one_key_and_others_have_the_key_of_their_commit() -> None:
    started = ExecutionStarted(at=1.0, attempt=1)

    create = record_of(RUN, commit("CreateExecution", CREATED, commit_id="c1"))
    start = record_of(RUN, commit("StartExecution", started, commit_id="c2"))
    by_another = record_of(RUN, commit("StartExecution", started, commit_id="c3", actor="bob"))
    cancel = record_of(RUN, commit("CancelExecution", commit_id="c4"))

    assert create is not None
    assert start is not None
    assert by_another is not None
    assert cancel is not None
    assert create.key == start.key
    # A repeated id hides nobody else's change, and no other change.
    assert len({create.key, by_another.key, cancel.key}) == 3
    assert cancel.key == "c4"
