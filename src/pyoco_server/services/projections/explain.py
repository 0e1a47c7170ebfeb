"""Gathers what explains a run: its snapshot, the fleet as seen here, its queue, its dead letter. Never by a scan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.snapshot import from_snapshot, run_status
from pyoco_server.domain.execution.state import Execution, Status
from pyoco_server.domain.fleet.worker_status import QueueState
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.explain import (
    Evidence,
    Reason,
    Rules,
    explain,
    holder_status,
    is_holder_alive,
    served_tags,
)
from pyoco_server.services.executions.service import UNCONFIRMED_AFTER_GRACE_SEC, ExecutionService
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.maintenance.lost_workers import stray_silence_sec
from pyoco_server.services.projections.lists import ListService
from pyoco_server.stores import DeadLetter

MAX_AHEAD = 1_000
RECENT_DEAD_LETTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The facts; `domain.queries.explain_texts` has the texts."""

    run_id: RunId
    status: str
    reasons: tuple[Reason, ...]
    queue: Mapping[str, Any] | None
    worker: Mapping[str, Any] | None
    served_tags: list[dict[str, Any]]
    dead_letter: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainService:
    """Explains the state of runs."""

    executions: ExecutionService
    lists: ListService
    fleet: FleetView

    async def explain(self, run_id: RunId, *, tenant_filter: str | None) -> Explanation:
        """Why the run is in its state: one read of its snapshot, at most one of the queue or the dead letters."""
        snapshot = await self.executions.get_snapshot(run_id, tenant_filter=tenant_filter)
        execution, stores = from_snapshot(snapshot), self.executions.stores
        is_queued = not execution.status.is_terminal and execution.is_queued
        evidence = Evidence(
            now=stores.clock.now(),
            heartbeat_at=snapshot["heartbeat_at"],
            fleet=await self.fleet.all_workers(),
            rules=_rules(self.executions.config),
            queue=await stores.queue.state(execution.request.tag) if is_queued else None,
            ahead=await self._ahead(execution) if is_queued and run_status(execution) == "PENDING" else 0,
        )
        dead_letter = await self._dead_letter(run_id) if execution.status is Status.FAILED else None
        return Explanation(
            run_id=run_id,
            status=run_status(execution),
            reasons=explain(execution, evidence),
            queue=_queue(execution, evidence, evidence.queue) if evidence.queue else None,
            worker=_worker(execution, evidence),
            served_tags=served_tags(evidence.fleet) if is_queued else [],
            dead_letter=None if dead_letter is None else _shown(dead_letter),
        )

    async def _ahead(self, execution: Execution) -> int:
        await self.lists.fresh()  # an index that is being filled would show no queue
        older = self.lists.index.oldest(
            "PENDING", tag=execution.request.tag, updated_before=execution.updated_at, limit=MAX_AHEAD
        )
        return len(older)

    async def _dead_letter(self, run_id: RunId) -> DeadLetter | None:
        recent = await self.executions.stores.dead_letters.recent(RECENT_DEAD_LETTERS)
        return next((found for found in recent if found.run_id == run_id), None)


def _rules(config: NatsBackendConfig) -> Rules:
    return Rules(
        alive_within_sec=config.workers_kv_ttl_sec,
        run_heartbeat_sec=config.run_heartbeat_interval_sec,
        ack_wait_sec=config.consumer_ack_wait_sec,
        requeue_after_sec=stray_silence_sec(config),
        max_attempts=config.consumer_max_deliver,
        cancel_grace_sec=config.cancel_grace_period_sec,
        confirm_after_grace_sec=UNCONFIRMED_AFTER_GRACE_SEC,
    )


def _shown(dead_letter: DeadLetter) -> dict[str, Any]:
    return {name: value for name, value in asdict(dead_letter).items() if name not in ("error", "tags", "run_id")}


def _queue(execution: Execution, evidence: Evidence, queue: QueueState) -> dict[str, Any]:
    pending = execution.started_at is None
    return {
        "tag": execution.request.tag,
        "waiting_sec": round(evidence.since(execution.created_at), 3) if pending else None,
        "ahead": evidence.ahead if pending else None,
        "ahead_is_a_minimum": evidence.ahead >= MAX_AHEAD,
        "waiting": queue.waiting,
        "in_work": queue.in_work,
        "redelivered": queue.redelivered,
    }


def _worker(execution: Execution, evidence: Evidence) -> dict[str, Any] | None:
    holder = execution.holder
    if holder is None or holder.worker_id is None:
        return None
    seen = holder_status(execution, evidence)
    return {
        "worker_id": holder.worker_id,
        "instance_id": holder.instance_id,
        "attempt": holder.attempt,
        "alive": is_holder_alive(execution, evidence),
        "state": seen.state.value if seen else None,
        "silent_sec": round(seen.silent_sec, 3) if seen else None,
        "last_seen_at": seen.record.last_seen_at if seen else None,
    }
