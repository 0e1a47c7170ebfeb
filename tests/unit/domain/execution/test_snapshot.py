"""Snapshots: they restore an execution, and drop records, never tasks, to stay small."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.domain.execution.codec import encode
from pyoco_server.domain.execution.commands import (
    CancelExecution,
    Command,
    CompleteExecution,
    ConfirmCanceled,
    CreateExecution,
    FailExecution,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import decide
from pyoco_server.domain.execution.events import Actor, Commit, Event, ExecutionStarted
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.snapshot import (
    RUN_STATUSES,
    compact_run_snapshot,
    encode_snapshot,
    from_snapshot,
    public_view,
    run_status,
    to_snapshot,
)
from pyoco_server.domain.execution.state import (
    Execution,
    Failure,
    NodeStatus,
    Request,
    Status,
    StopHow,
    TimeoutReceipt,
    WheelUsed,
    empty_execution,
)
from pyoco_server.domain.ids import CommitId, InstanceId, NodeId, WorkerId
from unit.domain.execution.strategies import RUN_ID, after, commands, events, executions, play, thorough

NODE = NodeId("extract")
CREATE = CreateExecution(
    at=1.0, request=Request(flow_name="etl", tag="cpu", input={"day": "月曜"}), labels=("nightly", "東京")
)
START = StartExecution(at=2.0, attempt=1, worker_id=WorkerId("w-1"), instance_id=InstanceId("i-1"))
WORKED = (
    CREATE,
    START,
    StartNode(at=3.0, node_id=NODE, worker_id=WorkerId("w-1"), lease_until=13.0),
    SucceedNode(at=4.5, node_id=NODE, output={"rows": 3}),
    StartNode(at=5.0, node_id=NodeId("load")),
    FailNode(at=6.0, node_id=NodeId("load"), error=Failure(code="E", message="no disk", traceback="Traceback …")),
)
CANCEL = CancelExecution(at=7.0, requested_by="alice")


TOOLS = WheelUsed(name="tools-1.0-py3-none-any.whl", sha256="00ff")


def test_a_run_shows_the_wheels_of_its_last_holder() -> None:
    started = after(CREATE, replace(START, wheels=(TOOLS,)))
    taken_over = after(CREATE, START, StartExecution(at=3.0, attempt=2, instance_id=InstanceId("i-2")))

    assert _stored(started)["wheels"] == [{"name": TOOLS.name, "sha256": TOOLS.sha256}]
    assert "wheels" not in _stored(taken_over)


def test_a_run_without_wheels_stores_no_wheels_field() -> None:
    commit = Commit(
        commit_id=CommitId("c"),
        occurred_at=2.0,
        command="StartExecution",
        actor=Actor(kind="worker"),
        events=(ExecutionStarted(at=2.0, attempt=1),),
    )

    assert b"wheels" not in encode(RUN_ID, commit)


def _stored(execution: Execution, max_public_bytes: int = 10**9) -> dict[str, Any]:
    snapshot: dict[str, Any] = orjson.loads(encode_snapshot(execution, max_public_bytes))
    return snapshot


def _public_size(snapshot: dict[str, Any]) -> int:
    return len(orjson.dumps({key: value for key, value in snapshot.items() if key != "state"}))


@thorough
@given(executions)
def test_an_execution_is_restored_from_its_snapshot(execution: Execution) -> None:
    assert from_snapshot(to_snapshot(execution)) == execution
    assert from_snapshot(_stored(execution)) == execution


@thorough
@given(st.lists(events))
def test_the_execution_of_any_log_is_restored_from_its_snapshot(log: list[Event]) -> None:
    execution = fold(log, empty_execution(RUN_ID))

    assert from_snapshot(_stored(execution)) == execution


@thorough
@given(executions, st.integers(0, 1_500), commands)
def test_decisions_on_a_truncated_snapshot_equal_those_on_the_whole(
    execution: Execution, limit: int, command: Command
) -> None:
    truncated = from_snapshot(_stored(execution, limit))

    # repr, because a refused NaN is not equal to itself.
    assert repr(decide(truncated, command)) == repr(decide(execution, command))


@thorough
@given(st.lists(events), st.integers(0, 3_000))
def test_a_snapshot_keeps_its_tasks_and_drops_records_to_stay_within_its_bound(log: list[Event], limit: int) -> None:
    execution = fold(log, empty_execution(RUN_ID))
    whole, bounded = _stored(execution), _stored(execution, limit)

    bare = whole | {"task_records": {}}

    assert bounded["tasks"] == whole["tasks"]
    assert bounded["state"] == whole["state"]
    assert bounded["task_records_truncated"] or bounded["task_records"] == whole["task_records"]
    assert _public_size(bounded) <= max(limit, _public_size(bare))
    if _public_size(whole) <= limit:
        assert bounded == whole


HALFWAY = (
    CREATE,
    START,
    StartNode(at=3.0, node_id=NODE),
    ReportNodeProgress(at=4.0, node_id=NODE, progress=42, message="halfway"),
    ReportNodeProgress(at=4.5, node_id=NODE, message="further"),
)


def test_progress_of_a_running_task_is_at_the_top_and_in_its_record() -> None:
    snapshot = _stored(after(*HALFWAY))

    assert snapshot["progress"] == {NODE: 42}
    assert (snapshot["task_records"][NODE]["progress"], snapshot["task_records"][NODE]["message"]) == (42, "further")


def test_a_record_tells_since_when_its_task_waits() -> None:
    waits = (*HALFWAY, PutNodeWaiting(at=5.0, node_id=NODE, wait_key="approval-1"))
    resumed = ResumeNode(at=6.0, node_id=NODE, resume_key="approval-1")

    assert _stored(after(*waits))["task_records"][NODE]["waiting_since"] == 5.0
    assert "waiting_since" not in _stored(after(*waits, resumed))["task_records"][NODE]
    assert (
        "waiting_since"
        not in _stored(after(*waits, FailExecution(at=6.0, error=Failure(code="E", message=""))))["task_records"][NODE]
    )


def test_progress_of_a_finished_task_is_only_in_its_record() -> None:
    snapshot = _stored(after(*HALFWAY, SucceedNode(at=5.0, node_id=NODE)))

    assert "progress" not in snapshot
    assert snapshot["task_records"][NODE]["progress"] == 42


def test_progress_is_kept_when_records_are_dropped() -> None:
    truncated = _stored(after(*HALFWAY), max_public_bytes=0)

    assert truncated["task_records"] == {}
    assert from_snapshot(truncated).nodes[NODE].progress == 42


def test_a_run_that_failed_by_its_limit_shows_receipt_code_and_last_lines() -> None:
    receipt = TimeoutReceipt(limit_sec=5.0, reached_at=7.0, stopped_at=7.5, how=StopHow.KILLED)
    error = Failure(code="ERR-PYOCO-0042", message="too long")
    snapshot = _stored(after(CREATE, START, FailExecution(at=8.0, error=error, timeout=receipt, last_lines=("a", "b"))))

    assert snapshot["timeout"] == {"limit_sec": 5.0, "reached_at": 7.0, "stopped_at": 7.5, "how": "killed"}
    assert (snapshot["error"], snapshot["error_code"], snapshot["last_lines"]) == (
        "too long",
        "ERR-PYOCO-0042",
        ["a", "b"],
    )


def test_a_snapshot_without_records_is_not_marked_truncated() -> None:
    assert _stored(after(CREATE), max_public_bytes=0)["task_records_truncated"] is False


def test_a_truncated_snapshot_stays_marked_truncated() -> None:
    truncated = from_snapshot(_stored(after(*WORKED), max_public_bytes=0))

    later = play([CANCEL], truncated)[-1].after

    assert truncated.records_truncated
    assert _stored(later)["task_records_truncated"] is True


def test_outputs_and_tracebacks_are_dropped_before_whole_records() -> None:
    execution = after(*WORKED[:3], SucceedNode(at=4.5, node_id=NODE, output="x" * 5_000), *WORKED[4:])

    record = _stored(execution, max_public_bytes=1_500)["task_records"]

    assert record["extract"] == {
        "state": "SUCCEEDED",
        "attempt": 1,
        "started_at": 3.0,
        "ended_at": 4.5,
        "duration_ms": 1500.0,
    }
    assert record["load"]["error"] == "no disk"
    assert "traceback" not in record["load"]


def test_compaction_does_not_change_small_snapshots_or_its_argument() -> None:
    snapshot = to_snapshot(after(*WORKED))
    before = orjson.dumps(snapshot)

    assert compact_run_snapshot(snapshot, 10**6) is snapshot
    assert compact_run_snapshot(snapshot, 10)["task_records"] == {}
    assert orjson.dumps(snapshot) == before


def test_the_public_view_is_that_of_the_contract() -> None:
    snapshot = _stored(after(*WORKED, CANCEL))

    assert public_view(snapshot, records=True) == {
        "run_id": RUN_ID,
        "flow_name": "etl",
        "status": "CANCELLING",
        "params": {"day": "月曜"},
        "tag": "cpu",
        "tags": ["nightly", "東京"],
        "tasks": {"extract": "SUCCEEDED", "load": "FAILED"},
        "task_records": {
            "extract": {
                "state": "SUCCEEDED",
                "attempt": 1,
                "started_at": 3.0,
                "ended_at": 4.5,
                "duration_ms": 1500.0,
                "output": {"rows": 3},
            },
            "load": {
                "state": "FAILED",
                "attempt": 1,
                "started_at": 5.0,
                "ended_at": 6.0,
                "duration_ms": 1000.0,
                "error": "no disk",
                "error_code": "E",
                "traceback": "Traceback …",
            },
        },
        "task_records_truncated": False,
        "submitted_at": 1.0,
        "start_time": 2.0,
        "end_time": None,
        "updated_at": 7.0,
        "heartbeat_at": 7.0,
        "worker_id": "w-1",
        "attempt": 1,
        "error": None,
        "version": 7,
        "cancel_requested_at": 7.0,
        "cancel": {
            "requested_at": 7.0,
            "requested_by": "alice",
            "reason": None,
            "delivered_at": None,
            "stopped_at": None,
            "how": None,
        },
    }
    assert "task_records" not in public_view(snapshot, records=False)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ((CREATE,), "PENDING"),
        ((CREATE, START), "RUNNING"),
        ((CREATE, CANCEL), "CANCELLING"),
        ((CREATE, START, CompleteExecution(at=5.0)), "COMPLETED"),
        ((CREATE, CANCEL, ConfirmCanceled(at=8.0, how=StopHow.BEFORE_START)), "CANCELLED"),
    ],
)
def test_the_status_of_a_run_is_derived(script: tuple[Command, ...], status: str) -> None:
    assert run_status(after(*script)) == status
    assert status in RUN_STATUSES


def test_a_heartbeat_moves_forward_only() -> None:
    execution = after(CREATE, START)

    assert to_snapshot(execution, heartbeat_at=9.0)["heartbeat_at"] == 9.0
    assert to_snapshot(execution, heartbeat_at=1.0)["heartbeat_at"] == 2.0


@thorough
@given(executions)
def test_tasks_of_a_snapshot_agree_with_the_nodes(execution: Execution) -> None:
    snapshot = to_snapshot(execution)

    assert (snapshot["status"] == "CANCELLED") == (execution.status is Status.CANCELED)
    for node_id, node in execution.nodes.items():
        assert snapshot["tasks"][node_id] == snapshot["task_records"][node_id]["state"]
        assert (snapshot["tasks"][node_id] == "RUNNING") == node.status.is_held
        assert (snapshot["tasks"][node_id] == "PENDING") == (node.status in (NodeStatus.IDLE, NodeStatus.READY))


def test_a_snapshot_without_its_status_is_unreadable_by_id_as_it_is_in_lists() -> None:
    stored = _stored(after(*WORKED))
    del stored["status"]

    with pytest.raises(KeyError):
        from_snapshot(stored)
