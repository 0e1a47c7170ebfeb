"""A worker's record and its state, derived from the record and the age of its last sign of life; never from a clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pyoco_server.domain.fleet.flows import AnnouncedFlow, flows_from_plain, flows_to_plain
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId


class WorkerState(Enum):
    """Where a worker stands; DISCONNECTED is concluded by the reader, the others are the worker's own word."""

    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """What a worker last said of itself. `instance_id` is new with each start, `worker_id` is a person's choice."""

    worker_id: WorkerId
    instance_id: InstanceId
    tags: tuple[str, ...]
    slots: int
    last_seen_at: float
    current_run_ids: tuple[RunId, ...] = ()
    last_run_id: RunId | None = None
    last_run_status: str | None = None
    started_at: float | None = None
    stopped_at: float | None = None
    stop_reason: str | None = None
    wheel_sync: Mapping[str, Any] | None = None
    flows: tuple[AnnouncedFlow, ...] = ()
    hidden: bool = False

    def says_state(self) -> WorkerState:
        if self.stopped_at is not None:
            return WorkerState.STOPPED_GRACEFUL
        return WorkerState.RUNNING if self.current_run_ids else WorkerState.IDLE


def state_of(record: WorkerRecord, *, silent_sec: float, disconnect_timeout_sec: float) -> WorkerState:
    """The state to show for a worker that has been silent for so long."""
    said = record.says_state()
    if said is WorkerState.STOPPED_GRACEFUL:
        return said
    return WorkerState.DISCONNECTED if silent_sec > disconnect_timeout_sec else said


def to_plain(record: WorkerRecord) -> dict[str, Any]:
    """The stored form (contract: WorkerRecord); `heartbeat_at` and `current_run_id` are kept for older readers."""
    return {
        "worker_id": record.worker_id,
        "instance_id": record.instance_id,
        "state": record.says_state().value,
        "hidden": record.hidden,
        "tags": list(record.tags),
        "slots": record.slots,
        "last_seen_at": record.last_seen_at,
        "last_heartbeat_at": record.last_seen_at,
        "heartbeat_at": record.last_seen_at,
        "current_run_id": record.current_run_ids[0] if record.current_run_ids else None,
        "current_run_ids": list(record.current_run_ids),
        "last_run_id": record.last_run_id,
        "last_run_status": record.last_run_status,
        "started_at": record.started_at,
        "stopped_at": record.stopped_at,
        "stop_reason": record.stop_reason,
        "wheel_sync": record.wheel_sync,
        "flows": flows_to_plain(record.flows),
    }


def from_plain(plain: Mapping[str, Any]) -> WorkerRecord:
    """The record that was stored; unknown fields are ignored, and an old writer's few fields are enough.

    `KeyError` or `TypeError` when it is no worker's word: what is calculated with later is looked at here.
    """
    last_seen_at = plain.get("last_seen_at", plain.get("heartbeat_at", 0.0))
    slots, tags = plain.get("slots", 1), plain.get("tags") or ()
    if not isinstance(last_seen_at, int | float) or not isinstance(slots, int):
        raise TypeError("last_seen_at and slots must be numbers")
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise TypeError("tags must be a list of texts")
    return WorkerRecord(
        worker_id=WorkerId(plain["worker_id"]),
        instance_id=InstanceId(plain.get("instance_id", "")),
        tags=tuple(tags),
        slots=slots,
        last_seen_at=last_seen_at,
        current_run_ids=tuple(RunId(run_id) for run_id in plain.get("current_run_ids", ())),
        last_run_id=plain.get("last_run_id"),
        last_run_status=plain.get("last_run_status"),
        started_at=plain.get("started_at"),
        stopped_at=plain.get("stopped_at"),
        stop_reason=plain.get("stop_reason"),
        wheel_sync=plain.get("wheel_sync"),
        flows=flows_from_plain(plain.get("flows")),
        hidden=plain.get("hidden", False),
    )


def seen(record: WorkerRecord, at: float) -> WorkerRecord:
    """The same record with a fresh sign of life."""
    return replace(record, last_seen_at=at)
