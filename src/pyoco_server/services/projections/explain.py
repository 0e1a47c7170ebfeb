"""Gathers what explains a run: its snapshot, the fleet as seen here, its queue, its dead letter. Never by a scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from pyoco_server.domain.execution.snapshot import from_snapshot, run_status
from pyoco_server.domain.execution.state import Execution, Status
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.explain import (
    Evidence,
    Reason,
    ServedTag,
    explain,
    holder_status,
    is_holder_alive,
    served_tags,
)
from pyoco_server.services.executions.cancel import UNCONFIRMED_AFTER_GRACE_SEC
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.maintenance.lost_events import has_lost_events
from pyoco_server.services.maintenance.lost_workers import stray_silence_sec
from pyoco_server.services.projections.lists import ListService

MAX_AHEAD = 1_000
RECENT_DEAD_LETTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQueue:
    """The queue of the run's tag: jobs never handed out, handed out, and handed out more than once.

    `ahead`: runs of the tag that wait longer.
    """

    tag: str
    waiting_sec: float | None
    ahead: int | None
    ahead_is_a_minimum: bool
    waiting: int
    in_work: int
    redelivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHolder:
    """The worker that has or had the run; `state` is null when this instance of it is no longer registered."""

    worker_id: str
    instance_id: str | None
    attempt: int
    alive: bool
    state: str | None
    silent_sec: float | None
    last_seen_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The facts; `domain.queries.explain_texts` has the texts."""

    run_id: RunId
    status: str
    reasons: Sequence[Reason]
    queue: RunQueue | None
    worker: RunHolder | None
    served_tags: Sequence[ServedTag]
    dead_letter: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainService:
    """Explains the state of runs."""

    executions: ExecutionService
    lists: ListService
    fleet: FleetView

    async def explain(self, run_id: RunId, *, tenant_filter: str | None) -> Explanation:
        """Why the run is in its state: reads its snapshot, its last event and at most one of queue or dead letters."""
        snapshot = await self.executions.get_snapshot(run_id, tenant_filter=tenant_filter)
        execution, stores, config = from_snapshot(snapshot), self.executions.stores, self.executions.config
        is_queued = not execution.status.is_terminal and execution.is_queued
        evidence = Evidence(
            now=stores.clock.now(),
            heartbeat_at=snapshot["heartbeat_at"],
            fleet=await self.fleet.all_workers(),
            alive_within_sec=config.workers_kv_ttl_sec,
            run_heartbeat_sec=config.run_heartbeat_interval_sec,
            ack_wait_sec=config.consumer_ack_wait_sec,
            max_attempts=config.consumer_max_deliver,
            cancel_grace_sec=config.cancel_grace_period_sec,
            requeue_after_sec=stray_silence_sec(config),
            confirm_after_grace_sec=UNCONFIRMED_AFTER_GRACE_SEC,
            queue=await stores.queue.state(execution.request.tag) if is_queued else None,
            ahead=await self._ahead(execution) if is_queued and run_status(execution) == "PENDING" else 0,
            events_lost=await has_lost_events(stores, run_id, execution.version),
        )
        return Explanation(
            run_id=run_id,
            status=run_status(execution),
            reasons=explain(execution, evidence),
            queue=_queue(execution, evidence),
            worker=_holder(execution, evidence),
            served_tags=served_tags(evidence.fleet) if is_queued else [],
            dead_letter=await self._dead_letter(run_id) if execution.status is Status.FAILED else None,
        )

    async def _ahead(self, execution: Execution) -> int:
        await self.lists.fresh()  # an index that is being filled would show no queue
        older = self.lists.index.oldest(
            "PENDING", tag=execution.request.tag, updated_before=execution.updated_at, limit=MAX_AHEAD
        )
        return len(older)

    async def _dead_letter(self, run_id: RunId) -> Mapping[str, Any] | None:
        for letter in await self.executions.stores.dead_letters.recent(RECENT_DEAD_LETTERS):
            if letter.run_id == run_id:
                return {
                    name: value for name, value in asdict(letter).items() if name not in ("error", "tags", "run_id")
                }
        return None


def _queue(execution: Execution, evidence: Evidence) -> RunQueue | None:
    queue, is_pending = evidence.queue, execution.started_at is None
    if queue is None:
        return None
    return RunQueue(
        tag=execution.request.tag,
        waiting_sec=round(evidence.since(execution.created_at), 3) if is_pending else None,
        ahead=evidence.ahead if is_pending else None,
        ahead_is_a_minimum=evidence.ahead >= MAX_AHEAD,
        waiting=queue.waiting,
        in_work=queue.in_work,
        redelivered=queue.redelivered,
    )


def _holder(execution: Execution, evidence: Evidence) -> RunHolder | None:
    holder, seen = execution.holder, holder_status(execution, evidence)
    if holder is None or holder.worker_id is None:
        return None
    return RunHolder(
        worker_id=holder.worker_id,
        instance_id=holder.instance_id,
        attempt=holder.attempt,
        alive=is_holder_alive(execution, evidence),
        state=seen.state.value if seen else None,
        silent_sec=round(seen.silent_sec, 3) if seen else None,
        last_seen_at=seen.record.last_seen_at if seen else None,
    )
