"""The rules of `decide`: every command in every state, then the rules that need an explanation."""

from __future__ import annotations

from typing import get_args

import pytest
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
    ExpireNode,
    FailExecution,
    FailNode,
    PutNodeWaiting,
    RecordAttempt,
    RemoveTag,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, RejectionReason, decide
from pyoco_server.domain.execution.events import (
    EVENT_NAMES,
    Events,
    ExecutionCanceled,
    ExecutionCompleted,
    ExecutionFailed,
    ExecutionStarted,
    NodeCanceled,
    NodeCreated,
    NodeFailed,
    NodeStarted,
    NodeSucceeded,
)
from pyoco_server.domain.execution.state import (
    MAX_LABELS,
    Execution,
    Failure,
    Request,
    StopHow,
    empty_execution,
)
from pyoco_server.domain.ids import InstanceId, NodeId, WorkerId
from unit.domain.execution.strategies import RUN_ID, after

NODE = NodeId("extract")
ERROR = Failure(code="E_READ", message="no such file")
OURS, THEIRS = InstanceId("i-1"), InstanceId("i-2")

CREATE = CreateExecution(at=1.0, request=Request(flow_name="etl", tag="cpu"), labels=("nightly",))
START = StartExecution(at=2.0, attempt=1, worker_id=WorkerId("w-1"), instance_id=OURS)
START_NODE = StartNode(at=3.0, node_id=NODE, worker_id=WorkerId("w-1"))
CANCEL = CancelExecution(at=4.0, reason="wrong input", requested_by="alice")
CONFIRM = ConfirmCanceled(at=5.0, how=StopHow.KILLED)
COMPLETE = CompleteExecution(at=5.0)
FAIL = FailExecution(at=5.0, error=ERROR)

STATES: dict[str, Execution] = {
    "created": after(CREATE),
    "started": after(CREATE, START),
    "node runs": after(CREATE, START, START_NODE),
    "cancelling": after(CREATE, START, START_NODE, CANCEL),
    "completed": after(CREATE, START, COMPLETE),
    "failed": after(CREATE, START, FAIL),
    "canceled": after(CREATE, START, CANCEL, CONFIRM),
}
COMMANDS: dict[str, Command] = {
    "CreateExecution": CREATE,
    "StartExecution": START,
    "CancelExecution": CANCEL,
    "ConfirmCanceled": CONFIRM,
    "CompleteExecution": COMPLETE,
    "CompleteExecution by holder": CompleteExecution(at=5.0, attempt=1, instance_id=OURS),
    "FailExecution": FAIL,
    "FailExecution by holder": FailExecution(at=5.0, error=ERROR, attempt=1, instance_id=OURS),
    "ArchiveExecution": ArchiveExecution(at=6.0),
    "AddTag": AddTag(at=6.0, tag="東京"),
    "RemoveTag": RemoveTag(at=6.0, tag="nightly"),
    "DeclareNodes": DeclareNodes(at=3.0, node_ids=(NodeId("load"),)),
    "StartNode": START_NODE,
    "ReportNodeProgress": ReportNodeProgress(at=4.0, node_id=NODE, progress=42),
    "PutNodeWaiting": PutNodeWaiting(at=4.0, node_id=NODE, wait_key="approval-1"),
    "ResumeNode": ResumeNode(at=4.0, node_id=NODE, resume_key="approval-1"),
    "SucceedNode": SucceedNode(at=4.0, node_id=NODE, output=3),
    "FailNode": FailNode(at=4.0, node_id=NODE, error=ERROR),
    "StopNode": StopNode(at=5.0, node_id=NODE),
    "ExpireNode": ExpireNode(at=5.0, node_id=NODE, attempt=1),
    "RecordAttempt": RecordAttempt(
        at=5.0, attempt=1, instance_id=OURS, steps=(SucceedNode(at=4.0, node_id=NODE), COMPLETE)
    ),
}
# Outcomes per command, in the order of STATES: events in lower case, rejections in upper case, - for no change.
RULES: dict[str, str] = {
    "CreateExecution": "- - - - - - -",
    "StartExecution": "started - - CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "CancelExecution": "cancel_requested cancel_requested cancel_requested - FINISHED FINISHED -",
    "ConfirmCanceled": "NO_CANCEL_REQUESTED NO_CANCEL_REQUESTED NO_CANCEL_REQUESTED canceled FINISHED FINISHED -",
    "CompleteExecution": "NOT_STARTED completed node_canceled+completed CANCEL_REQUESTED - FINISHED FINISHED",
    "CompleteExecution by holder": "FENCED completed node_canceled+completed canceled - FINISHED FINISHED",
    "FailExecution": "failed failed node_failed+failed CANCEL_REQUESTED FINISHED - FINISHED",
    "FailExecution by holder": "FENCED failed node_failed+failed canceled FINISHED - FINISHED",
    "ArchiveExecution": "NOT_FINISHED NOT_FINISHED NOT_FINISHED NOT_FINISHED archived archived archived",
    "AddTag": "tag_added tag_added tag_added tag_added tag_added tag_added tag_added",
    "RemoveTag": "tag_removed tag_removed tag_removed tag_removed tag_removed tag_removed tag_removed",
    "DeclareNodes": "node_created node_created node_created CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "StartNode": "NOT_STARTED node_created+node_started - CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "ReportNodeProgress": "UNKNOWN_NODE UNKNOWN_NODE node_progress_reported CANCEL_REQUESTED "
    "FINISHED FINISHED FINISHED",
    "PutNodeWaiting": "UNKNOWN_NODE UNKNOWN_NODE node_waiting CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "ResumeNode": "UNKNOWN_NODE UNKNOWN_NODE NODE_NOT_WAITING CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "SucceedNode": "UNKNOWN_NODE UNKNOWN_NODE node_succeeded CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "FailNode": "UNKNOWN_NODE UNKNOWN_NODE node_failed CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "StopNode": "NO_CANCEL_REQUESTED NO_CANCEL_REQUESTED NO_CANCEL_REQUESTED node_canceled - - -",
    "ExpireNode": "- - - CANCEL_REQUESTED FINISHED FINISHED FINISHED",
    "RecordAttempt": "FENCED completed node_succeeded+completed canceled FINISHED FINISHED FINISHED",
}


def _outcome(execution: Execution, command: Command) -> str:
    verdict = decide(execution, command)
    if isinstance(verdict, Rejection):
        return verdict.why.name
    names = {kind: name.removeprefix("EXECUTION_").lower() for name, kind in EVENT_NAMES.items()}
    return "+".join(names[type(event)] for event in verdict) or "-"


@pytest.mark.parametrize("name", RULES)
def test_each_command_has_the_documented_outcome_in_each_state(name: str) -> None:
    command = COMMANDS[name]

    outcomes = {state: _outcome(execution, command) for state, execution in STATES.items()}

    assert outcomes == dict(zip(STATES, RULES[name].split(), strict=True))


def test_the_table_covers_every_command() -> None:
    assert {type(command) for command in COMMANDS.values()} == set(get_args(Command))
    assert RULES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", RULES)
def test_a_missing_execution_accepts_only_its_creation(name: str) -> None:
    expected = "created" if name == "CreateExecution" else "NOT_FOUND"

    assert _outcome(empty_execution(RUN_ID), COMMANDS[name]) == expected


def test_an_end_reported_after_a_cancel_request_is_canceled_and_repeats_no_holder() -> None:
    execution = after(CREATE, START, START_NODE, CANCEL)
    steps = (SucceedNode(at=8.0, node_id=NODE), CompleteExecution(at=9.0))

    events = decide(execution, RecordAttempt(at=9.0, attempt=1, instance_id=OURS, steps=steps))

    assert events == (ExecutionCanceled(at=9.0, how=StopHow.COOPERATIVE, stopped_at=9.0),)


def test_a_report_is_one_decision_with_all_its_steps_in_order() -> None:
    execution = after(CREATE, START)
    steps = (
        DeclareNodes(at=3.0, node_ids=(NODE,)),
        StartNode(at=3.0, node_id=NODE, worker_id=WorkerId("w-1")),
        SucceedNode(at=4.0, node_id=NODE, output={"rows": 3}),
        CompleteExecution(at=4.5),
    )

    events = decide(execution, RecordAttempt(at=5.0, attempt=1, instance_id=OURS, steps=steps))

    assert events == (
        NodeCreated(at=3.0, node_id=NODE),
        NodeStarted(at=3.0, node_id=NODE, attempt=1, worker_id=WorkerId("w-1")),
        NodeSucceeded(at=4.0, node_id=NODE, attempt=1, output={"rows": 3}),
        ExecutionCompleted(at=4.5),
    )


def test_late_steps_of_a_report_are_ignored_and_the_others_apply() -> None:
    execution = after(CREATE, START, START_NODE, FailNode(at=4.0, node_id=NODE, error=ERROR))
    steps = (SucceedNode(at=5.0, node_id=NODE), FailExecution(at=6.0, error=ERROR))

    events = decide(execution, RecordAttempt(at=6.0, attempt=1, instance_id=OURS, steps=steps))

    assert events == (ExecutionFailed(at=6.0, error=ERROR),)


@pytest.mark.parametrize(
    "command",
    [
        RecordAttempt(at=5.0, attempt=1, instance_id=OURS, steps=(COMPLETE,)),
        CompleteExecution(at=5.0, attempt=1),
        CompleteExecution(at=5.0, instance_id=OURS),
        FailExecution(at=5.0, error=ERROR, attempt=1),
        FailExecution(at=5.0, error=ERROR, attempt=3),
        StartExecution(at=5.0, attempt=1, instance_id=OURS),
        StartExecution(at=5.0, attempt=2, instance_id=OURS),
    ],
    ids=repr,
)
def test_a_superseded_holder_is_fenced(command: Command) -> None:
    taken_over = after(CREATE, START, StartExecution(at=4.0, attempt=2, instance_id=THEIRS))

    verdict = decide(taken_over, command)

    assert isinstance(verdict, Rejection)
    assert verdict.why is RejectionReason.FENCED


def test_a_superseded_holder_cannot_confirm_a_cancel() -> None:
    taken_over = after(CREATE, START, StartExecution(at=4.0, attempt=2, instance_id=THEIRS), CANCEL)

    confirm = ConfirmCanceled(at=5.0, how=StopHow.COOPERATIVE, attempt=1)

    assert _outcome(taken_over, confirm) == RejectionReason.FENCED.name


def test_an_instance_with_the_right_attempt_that_is_not_the_holder_is_rejected_as_such() -> None:
    verdict = decide(after(CREATE, START), CompleteExecution(at=5.0, attempt=1, instance_id=THEIRS))

    assert verdict == Rejection(why=RejectionReason.FENCED, detail="attempt 1 belongs to another worker instance")


def test_a_redelivered_job_takes_over_with_a_higher_attempt() -> None:
    events = decide(after(CREATE, START), StartExecution(at=9.0, attempt=4, instance_id=THEIRS))

    assert events == (ExecutionStarted(at=9.0, attempt=4, instance_id=THEIRS),)


def test_a_start_without_an_attempt_is_attempt_one_or_a_repetition() -> None:
    assert _outcome(after(CREATE), StartExecution(at=2.0, attempt=0)) == RejectionReason.INVALID_VALUE.name
    assert decide(after(CREATE), StartExecution(at=2.0)) == (ExecutionStarted(at=2.0, attempt=1),)
    assert decide(after(CREATE, START), StartExecution(at=2.0)) == ()


@pytest.mark.parametrize(
    ("command", "events"),
    [
        (COMPLETE, (NodeCanceled(at=5.0, node_id=NODE), ExecutionCompleted(at=5.0))),
        (FAIL, (NodeFailed(at=5.0, node_id=NODE, attempt=1, error=ERROR), ExecutionFailed(at=5.0, error=ERROR))),
    ],
    ids=["completed", "failed"],
)
def test_the_end_of_an_open_execution_ends_its_running_nodes(command: Command, events: Events) -> None:
    assert decide(after(CREATE, START, START_NODE), command) == events


@pytest.mark.parametrize("how", [StopHow.BEFORE_START, StopHow.SUBMIT_FAILED])
def test_a_held_execution_cannot_be_confirmed_as_never_started(how: StopHow) -> None:
    verdict = decide(after(CREATE, START, CANCEL), ConfirmCanceled(at=5.0, how=how))

    assert isinstance(verdict, Rejection)
    assert verdict.why is RejectionReason.HELD


def test_a_failed_submit_is_canceled_without_a_cancel_request() -> None:
    events = decide(after(CREATE), ConfirmCanceled(at=5.0, how=StopHow.SUBMIT_FAILED))

    assert events == (ExecutionCanceled(at=5.0, how=StopHow.SUBMIT_FAILED),)


def test_labels_are_limited_and_duplicates_count_once() -> None:
    many = tuple(f"label-{number}" for number in range(MAX_LABELS))
    full = after(replace(CREATE, labels=(*many, *many)))

    verdicts = [
        decide(full, AddTag(at=2.0, tag="one more")),
        decide(empty_execution(RUN_ID), replace(CREATE, labels=(*many, "one more"))),
    ]

    assert full.labels == many
    assert [verdict.why for verdict in verdicts if isinstance(verdict, Rejection)] == [
        RejectionReason.TOO_MANY_TAGS
    ] * 2
    assert decide(full, AddTag(at=2.0, tag="label-7")) == ()
