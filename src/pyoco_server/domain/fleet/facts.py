"""What a run's snapshot cannot know by itself: whether its worker lives, and whether the run has gone quiet. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyoco_server.domain.fleet.worker_status import WorkerStatus
from pyoco_server.domain.ids import InstanceId, WorkerId

# Contract, appendix G: a run is stale after three missed heartbeats, and never before this.
STALE_AT_LEAST_SEC = 30.0
STALE_HEARTBEATS = 3

# What is shown beside a snapshot and stored nowhere.
RUN_FACTS = ("worker_alive", "worker_heartbeat_at", "worker_tags", "stale")

Look = Callable[[WorkerId], WorkerStatus | None]


def stale_after_sec(run_heartbeat_sec: float) -> float:
    return max(STALE_AT_LEAST_SEC, STALE_HEARTBEATS * run_heartbeat_sec)


def is_stale(status: object, heartbeat_at: object, *, now: float, run_heartbeat_sec: float) -> bool:
    """RUNNING, but without a sign of life for too long. A remark for whoever looks; it never fails a run."""
    return (
        status == "RUNNING"
        and isinstance(heartbeat_at, int | float)
        and now - heartbeat_at > stale_after_sec(run_heartbeat_sec)
    )


def worker_now(seen: WorkerStatus | None, now: float) -> float:
    """What the clock of this worker shows now: a heartbeat of its run was written by that clock, not by ours."""
    return now if seen is None else seen.record.last_seen_at + seen.silent_sec


def is_alive(seen: WorkerStatus | None, instance_id: InstanceId | None, *, within_sec: float) -> bool:
    """Whether this very life of the worker goes on; a restart under the same name is another one."""
    return (
        seen is not None
        and seen.record.instance_id == instance_id
        and seen.record.stopped_at is None
        and seen.silent_sec <= within_sec
    )


def run_facts(
    snapshot: Mapping[str, Any], look: Look, *, now: float, alive_within_sec: float, run_heartbeat_sec: float
) -> dict[str, Any]:
    """The facts to show beside a stored snapshot, whoever stored it; a worker nobody knows is not alive."""
    worker_id, instance_id = holder_of(snapshot)
    seen = look(worker_id) if worker_id is not None else None
    if seen is not None and seen.record.instance_id != instance_id:
        seen = None
    return {
        "worker_alive": is_alive(seen, instance_id, within_sec=alive_within_sec),
        "worker_heartbeat_at": seen.record.last_seen_at if seen else None,
        "worker_tags": list(seen.record.tags) if seen else None,
        "stale": is_stale(
            snapshot.get("status"),
            snapshot.get("heartbeat_at"),
            now=worker_now(seen, now),
            run_heartbeat_sec=run_heartbeat_sec,
        ),
    }


def holder_of(snapshot: Mapping[str, Any]) -> tuple[WorkerId | None, InstanceId | None]:
    """Which worker has or had the run, and in which of its lives."""
    holder = (snapshot.get("state") or {}).get("holder")
    if not holder or holder[1] is None:
        return None, None
    return WorkerId(holder[1]), InstanceId(holder[2]) if holder[2] is not None else None
