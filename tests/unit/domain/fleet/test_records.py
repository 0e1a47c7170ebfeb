"""Worker records: what a worker reports, and what a reader derives from it."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerCode, WorkerRecord, WorkerState, from_plain, state_of, to_plain
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId

RUN = RunId("0190a5b2-7c4e-7abc-8def-0123456789ab")
IDLE = WorkerRecord(
    worker_id=WorkerId("w-1"),
    instance_id=InstanceId("i-1"),
    tags=("default", "gpu"),
    slots=2,
    last_seen_at=100.0,
    started_at=50.0,
)
BUSY = replace(IDLE, current_run_ids=(RUN,), last_run_id=RUN, last_run_status="FAILED")
SYNCED = replace(IDLE, wheel_sync={"installed": 2})
ANNOUNCING = replace(
    IDLE,
    flows=(AnnouncedFlow(name="pipeline", nodes=("load", "save"), edges=(("load", "save"),)), AnnouncedFlow(name="x")),
)
PINNED = replace(IDLE, code=WorkerCode(version="3f2a91c07d4e", reload=False, changed=True))
STOPPED = replace(IDLE, stopped_at=120.0, stop_reason="stopped", hidden=True)


@pytest.mark.parametrize("record", [IDLE, BUSY, SYNCED, ANNOUNCING, PINNED, STOPPED])
def test_a_record_survives_storage(record: WorkerRecord) -> None:
    assert from_plain(orjson.loads(orjson.dumps(to_plain(record)))) == record


def test_a_stored_record_has_the_fields_of_the_contract() -> None:
    plain = to_plain(BUSY)

    assert plain["state"] == "RUNNING"
    assert plain["heartbeat_at"] == plain["last_heartbeat_at"] == plain["last_seen_at"] == 100.0
    assert plain["current_run_id"] == RUN
    assert plain.keys() >= {
        "worker_id",
        "instance_id",
        "hidden",
        "tags",
        "last_run_status",
        "stopped_at",
        "stop_reason",
    }


@pytest.mark.parametrize("flows", [None, "hello", 7, [7], [{"name": []}], [{"name": "x", "nodes": {"a": 1}}]])
def test_flows_in_a_foreign_form_do_not_invalidate_the_record(flows: object) -> None:
    record = from_plain(to_plain(IDLE) | {"flows": flows})

    assert replace(record, flows=()) == IDLE


def test_a_record_with_only_the_fields_of_an_old_worker_is_read() -> None:
    record = from_plain({"worker_id": "old", "heartbeat_at": 7.5, "tags": None, "mood": "good"})

    assert (record.worker_id, record.last_seen_at, record.tags, record.slots) == ("old", 7.5, (), 1)


@pytest.mark.parametrize(
    ("record", "silent_sec", "state"),
    [
        (IDLE, 0.0, WorkerState.IDLE),
        (BUSY, 20.0, WorkerState.RUNNING),
        (IDLE, 20.1, WorkerState.DISCONNECTED),
        (BUSY, 20.1, WorkerState.DISCONNECTED),
        (STOPPED, 9999.0, WorkerState.STOPPED_GRACEFUL),
    ],
)
def test_a_silent_worker_that_did_not_stop_is_disconnected(
    record: WorkerRecord, silent_sec: float, state: WorkerState
) -> None:
    assert state_of(record, silent_sec=silent_sec, disconnect_timeout_sec=20.0) is state


def test_a_worker_that_stopped_while_it_held_a_run_is_stopped() -> None:
    assert replace(BUSY, stopped_at=1.0).reported_state() is WorkerState.STOPPED_GRACEFUL


@pytest.mark.parametrize(
    "odd", [{"last_seen_at": "now"}, {"slots": None}, {"tags": "gpu"}, {"tags": [1]}, {"started_at": "now"}]
)
def test_a_record_with_a_field_of_the_wrong_type_is_refused(odd: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        from_plain(to_plain(IDLE) | odd)
