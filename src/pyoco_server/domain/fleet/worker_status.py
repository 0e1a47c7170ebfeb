"""The fleet as one observer sees it: records with the silence since; which of them to show, and which to forget.

Pure: how long a worker has been silent is told, never read from a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState

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
