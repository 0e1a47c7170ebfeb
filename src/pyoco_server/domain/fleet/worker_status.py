"""The fleet as one gateway observes it: worker states, run facts and queue states. Reads no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState
from pyoco_server.domain.ids import InstanceId, WorkerId

ACTIVE = (WorkerState.RUNNING, WorkerState.IDLE)
# Whoever has not been seen for so long is not coming back.
KEEP_UNSEEN_SEC = 30 * 86400.0
# A worker without a name of its own has a new one with each start: one that cannot start must not fill the bucket. Only
# those who have been away for a while are given up for it, never a large fleet.
KEEP_MOST = 2_000
KEEP_MOST_UNSEEN_SEC = 3600.0

_GROUPS = {
    WorkerState.RUNNING: 0,
    WorkerState.IDLE: 0,
    WorkerState.DISCONNECTED: 1,
    WorkerState.STOPPED_GRACEFUL: 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker at one moment: its last word, how long it has been silent since, and the state that follows."""

    record: WorkerRecord
    silent_sec: float
    state: WorkerState

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def busy(self) -> int:
        """How many of its slots are taken."""
        return min(len(self.record.current_run_ids), self.record.slots)

    def serves(self, tag: str) -> bool:
        return tag in self.record.tags


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerQuery:
    """Which workers to list. An explicit state overrides the scope."""

    everybody: bool = False
    state: WorkerState | None = None
    include_hidden: bool = False


def filter_workers(fleet: Iterable[WorkerStatus], query: WorkerQuery) -> list[WorkerStatus]:
    """The workers that are asked for: those at work by name, then the lost, then the stopped, the latest seen first."""
    return sorted((seen for seen in fleet if _fits(seen, query)), key=_place)


def announced(fleet: Iterable[WorkerStatus]) -> dict[str, AnnouncedFlow]:
    """The flows that those at work announce, by name, with every tag under which they are served.

    Where workers differ, the one that started last knows what the flow looks like now, if it says so at all.
    """
    flows: dict[str, AnnouncedFlow] = {}
    tags: dict[str, set[str]] = {}
    for seen in sorted((seen for seen in fleet if seen.is_active), key=_age):
        for flow in seen.record.flows:
            tags.setdefault(flow.name, set()).update(seen.record.tags)
            if flow.nodes or flow.name not in flows:
                flows[flow.name] = flow
    return {name: replace(flows[name], tags=tuple(sorted(tags[name]))) for name in sorted(flows)}


def expired_workers(records: Iterable[WorkerRecord], now: float) -> Sequence[WorkerRecord]:
    """Records that have had their time: long unseen, or more than anybody looks through."""
    by_age = sorted(records, key=lambda record: record.last_seen_at, reverse=True)
    return [
        record
        for place, record in enumerate(by_age)
        if now - record.last_seen_at > (KEEP_UNSEEN_SEC if place < KEEP_MOST else KEEP_MOST_UNSEEN_SEC)
    ]


def _age(seen: WorkerStatus) -> tuple[float, str]:
    started_at = seen.record.started_at
    # A stranger's record may say anything.
    return started_at if isinstance(started_at, int | float) else 0.0, seen.record.worker_id


def _fits(seen: WorkerStatus, query: WorkerQuery) -> bool:
    if seen.record.hidden and not query.include_hidden:
        return False
    if query.state is not None:
        return seen.state is query.state
    return query.everybody or seen.is_active


def _place(seen: WorkerStatus) -> tuple[int, float, str]:
    # Those at work stand by name alone: a list that is looked at every second must not jump with each run.
    age = 0.0 if seen.is_active else -seen.record.last_seen_at
    return _GROUPS[seen.state], age, seen.record.worker_id


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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The jobs of a tag: never handed out yet, handed out and not finished, and how many of these more than once.

    The rest is what the queue really keeps to, whatever the settings say now; None: nobody has pulled the tag yet.
    """

    waiting: int
    in_work: int
    redelivered: int
    most_in_work: int | None = None
    ack_wait_sec: float | None = None
    most_deliveries: int | None = None
    # Every job up to this place that is still stored was given up: delivered as often as the queue does it, in vain.
    given_up_through: int = 0
