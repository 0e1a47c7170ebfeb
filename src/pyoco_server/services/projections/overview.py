"""One answer about the present: runs, queues, workers, waiting nodes, dead letters, and the health of the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.domain.fleet.records import WorkerState
from pyoco_server.domain.fleet.worker_status import WorkerQuery, WorkerStatus, filter_workers
from pyoco_server.domain.ids import is_tag
from pyoco_server.domain.queries.histograms import Waiting
from pyoco_server.errors import PyocoError
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.projections.lists import ListService
from pyoco_server.services.projections.run_figures import MAX_TAGS, RunFigures, run_figures
from pyoco_server.services.readiness import ReadinessService


@dataclass(frozen=True, slots=True, kw_only=True)
class TagQueue:
    """Runs that wait for a worker of the tag, and its active workers. `since` is when the oldest run last changed."""

    tag: str
    pending: int
    since: float | None
    workers: int
    slots: int
    slots_free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The workers that are not hidden, by state, and the slots of the active ones."""

    states: Mapping[WorkerState, int]
    slots: int
    slots_busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """`faults` say why no run can be accepted at present."""

    runs: RunFigures
    queues: Sequence[TagQueue]
    fleet: Fleet
    faults: Sequence[PyocoError]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewService:
    """Reads the index, the fleet and the readiness of one gateway."""

    lists: ListService
    fleet: FleetView
    readiness: ReadinessService

    async def gather(self, *, tenant_filter: str | None) -> Overview:
        """The overview now; like a list, it waits for this gateway's own writes."""
        workers = await self.fleet.all_workers()
        figures = await run_figures(self.lists, tenant_filter=tenant_filter)
        active = [seen for seen in workers if seen.is_active]
        return Overview(
            runs=figures,
            queues=_queues(figures.waiting, active),
            fleet=_fleet(filter_workers(workers, WorkerQuery(include_inactive=True))),
            faults=await self.readiness.faults(),
        )


def _queues(waiting: Sequence[Waiting], active: Sequence[WorkerStatus]) -> list[TagQueue]:
    """The deepest queues, then the other tags that are served, by name; at most `MAX_TAGS`."""
    # A run without a tag waits for its start and is in no queue; one of foreign origin may have anything for a tag.
    by_tag = {queue.tag: queue for queue in waiting if is_tag(queue.tag)}
    serving: dict[str, list[WorkerStatus]] = {tag: [] for tag in by_tag}
    for seen in active:
        for tag in seen.record.tags:
            serving.setdefault(tag, []).append(seen)
    tags = [*by_tag, *sorted(serving.keys() - by_tag.keys())][:MAX_TAGS]
    return [_queue(tag, by_tag.get(tag), serving[tag]) for tag in tags]


def _queue(tag: str, waiting: Waiting | None, workers: Sequence[WorkerStatus]) -> TagQueue:
    slots = sum(seen.record.slots for seen in workers)
    return TagQueue(
        tag=tag,
        pending=waiting.runs if waiting else 0,
        since=waiting.since if waiting else None,
        workers=len(workers),
        slots=slots,
        slots_free=slots - sum(seen.busy for seen in workers),
    )


def _fleet(workers: Sequence[WorkerStatus]) -> Fleet:
    active = [seen for seen in workers if seen.is_active]
    return Fleet(
        states={state: sum(seen.state is state for seen in workers) for state in WorkerState},
        slots=sum(seen.record.slots for seen in active),
        slots_busy=sum(seen.busy for seen in active),
    )
