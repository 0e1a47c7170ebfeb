"""The fleet as one gateway observes it: worker states, run facts and queue states. Reads no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState
from pyoco_server.domain.ids import InstanceId, WorkerId

ACTIVE = (WorkerState.RUNNING, WorkerState.IDLE)
# A worker that was not seen for so long is considered gone.
KEEP_UNSEEN_SEC = 30 * 86400.0
# An unnamed worker gets a new id with each start, so a crash loop must not fill the bucket. Only records of workers
# that have been away for a while are removed for it, never those of a large live fleet.
KEEP_MOST = 2_000
KEEP_MOST_UNSEEN_SEC = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker at one moment: its last record, the silence since then, and the resulting state."""

    record: WorkerRecord
    silent_sec: float
    state: WorkerState

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def busy(self) -> int:
        return min(len(self.record.current_run_ids), self.record.slots)

    def serves(self, tag: str) -> bool:
        return tag in self.record.tags


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerQuery:
    """Which workers to list. An explicit state overrides the scope."""

    include_inactive: bool = False
    state: WorkerState | None = None
    include_hidden: bool = False


def filter_workers(fleet: Iterable[WorkerStatus], query: WorkerQuery) -> list[WorkerStatus]:
    """The matching workers: active ones by name, then the lost, then the stopped, each most recently seen first."""
    return sorted((seen for seen in fleet if _fits(seen, query)), key=_place)


def announced(fleet: Iterable[WorkerStatus]) -> dict[str, AnnouncedFlow]:
    """The flows that active workers announce, by name, with all tags under which they are served.

    Where workers differ, the graph of the worker that started last wins.
    """
    flows: dict[str, AnnouncedFlow] = {}
    tags: dict[str, set[str]] = {}
    by_start = sorted(fleet, key=lambda seen: (seen.record.started_at or 0.0, seen.record.worker_id))
    for seen in (seen for seen in by_start if seen.is_active):
        for flow in seen.record.flows:
            tags.setdefault(flow.name, set()).update(seen.record.tags)
            if flow.nodes or flow.name not in flows:
                flows[flow.name] = flow
    return {name: replace(flows[name], tags=tuple(sorted(tags[name]))) for name in sorted(flows)}


def expired_workers(records: Iterable[WorkerRecord], now: float) -> Sequence[WorkerRecord]:
    """Records to remove: long unseen, or beyond the limit of records."""
    by_age = sorted(records, key=lambda record: record.last_seen_at, reverse=True)
    return [
        record
        for place, record in enumerate(by_age)
        if now - record.last_seen_at > (KEEP_UNSEEN_SEC if place < KEEP_MOST else KEEP_MOST_UNSEEN_SEC)
    ]


def _fits(seen: WorkerStatus, query: WorkerQuery) -> bool:
    if seen.record.hidden and not query.include_hidden:
        return False
    if query.state is not None:
        return seen.state is query.state
    return query.include_inactive or seen.is_active


def _place(seen: WorkerStatus) -> tuple[int, float, str]:
    if seen.is_active:
        # By name only, so that a list that is refreshed every second does not jump.
        return 0, 0.0, seen.record.worker_id
    return 1 + (seen.state is WorkerState.STOPPED_GRACEFUL), -seen.record.last_seen_at, seen.record.worker_id


# Contract, appendix G: a run is stale after three missed heartbeats, and never before this.
STALE_AT_LEAST_SEC = 30.0
STALE_HEARTBEATS = 3


# Shown beside a snapshot, but not stored.
RUN_FACTS = ("worker_alive", "worker_heartbeat_at", "worker_tags", "stale")


def is_stale(status: object, heartbeat_at: object, *, now: float, run_heartbeat_sec: float) -> bool:
    """RUNNING, but without a heartbeat for too long. Informational: it never fails a run."""
    return (
        status == "RUNNING"
        and isinstance(heartbeat_at, int | float)
        and now - heartbeat_at > max(STALE_AT_LEAST_SEC, STALE_HEARTBEATS * run_heartbeat_sec)
    )


def worker_now(seen: WorkerStatus | None, now: float) -> float:
    """The current time by the worker's clock, which also wrote the heartbeats of its runs."""
    return now if seen is None else seen.record.last_seen_at + seen.silent_sec


def is_alive(seen: WorkerStatus | None, instance_id: InstanceId | None, *, within_sec: float) -> bool:
    """Whether this instance of the worker is alive; a restart under the same name is another instance."""
    return (
        seen is not None
        and seen.record.instance_id == instance_id
        and seen.record.stopped_at is None
        and seen.silent_sec <= within_sec
    )


def run_facts(
    snapshot: Mapping[str, Any],
    look: Callable[[WorkerId], WorkerStatus | None],
    *,
    now: float,
    alive_within_sec: float,
    run_heartbeat_sec: float,
) -> dict[str, Any]:
    """The facts to show beside a stored snapshot; an unknown worker is not alive."""
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
    """The worker and instance that has or had the run."""
    holder = (snapshot.get("state") or {}).get("holder")
    if not holder or holder[1] is None:
        return None, None
    return WorkerId(holder[1]), InstanceId(holder[2]) if holder[2] is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The jobs of a tag: not delivered yet, delivered and unfinished, and how many of these more than once.

    The limits are those of the consumer, which may differ from the settings; None if the tag has no consumer yet.
    """

    waiting: int
    in_work: int
    redelivered: int
    most_in_work: int | None = None
    ack_wait_sec: float | None = None
    most_deliveries: int | None = None
    # Jobs up to this sequence that are still stored have exhausted their deliveries.
    given_up_through: int = 0
