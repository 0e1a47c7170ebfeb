"""A worker's record, and its state derived from the record and the age of its last heartbeat. Reads no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import msgspec

from pyoco_server.domain.fleet.flows import AnnouncedFlow, flows_from_plain, flows_to_plain
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId

# What a runner may serve one after the other: any runs, runs of one tenant, or one run.
Isolation = Literal["shared", "tenant", "run"]


class WorkerState(Enum):
    """The state of a worker. DISCONNECTED is derived by the reader, the others are reported by the worker."""

    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCode:
    """The version of the flows' sources that a worker serves. None: it found no sources to name.

    `changed`: the files on disk are another version, which is not served. `error`: why a version could not be loaded.
    """

    version: str | None
    reload: bool
    changed: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """What a worker last reported. `instance_id` is new with each start, `worker_id` is chosen by the operator."""

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
    code: WorkerCode | None = None
    flows: tuple[AnnouncedFlow, ...] = ()
    isolation: Isolation = "shared"  # workers that do not say it share their runners
    runner_user: str | None = None
    # Whether it serves no other flows than these, as far as its resolver says.
    flows_complete: bool = False
    hidden: bool = False

    def reported_state(self) -> WorkerState:
        if self.stopped_at is not None:
            return WorkerState.STOPPED_GRACEFUL
        return WorkerState.RUNNING if self.current_run_ids else WorkerState.IDLE


def state_of(record: WorkerRecord, *, silent_sec: float, disconnect_timeout_sec: float) -> WorkerState:
    """The state to show for a worker after `silent_sec` without a heartbeat."""
    reported = record.reported_state()
    if reported is WorkerState.STOPPED_GRACEFUL:
        return reported
    return WorkerState.DISCONNECTED if silent_sec > disconnect_timeout_sec else reported


def to_plain(record: WorkerRecord) -> dict[str, Any]:
    """The stored form (contract: WorkerRecord); `heartbeat_at` and `current_run_id` are kept for older readers."""
    plain: dict[str, Any] = msgspec.to_builtins(replace(record, flows=()))
    return plain | {
        "state": record.reported_state().value,
        "last_heartbeat_at": record.last_seen_at,
        "heartbeat_at": record.last_seen_at,
        "current_run_id": record.current_run_ids[0] if record.current_run_ids else None,
        "flows": flows_to_plain(record.flows),
    }


def from_plain(plain: Mapping[str, Any]) -> WorkerRecord:
    """The stored record; `ValueError` when it is not one. Ignores unknown fields and fills in those of old workers."""
    known = {"instance_id": "", "slots": 1, "last_seen_at": plain.get("heartbeat_at", 0.0)} | dict(plain)
    record = msgspec.convert(known | {"tags": plain.get("tags") or (), "flows": ()}, WorkerRecord)
    return replace(record, flows=flows_from_plain(plain.get("flows")))
