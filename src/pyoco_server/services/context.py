"""The stores that use cases work on, and the context of a command."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.ids import CommitId
from pyoco_server.ports import Broker, Clock, Durability, Ids, JobQueue, Presence, Signals, WheelStore
from pyoco_server.ports.pdca import ArtifactStore
from pyoco_server.stores import (
    DeadLetters,
    EventLog,
    GraphStore,
    IdempotencyStore,
    LogStore,
    SigningKeyStore,
    SnapshotStore,
    StrategyStore,
    TicketStore,
    WheelHistory,
    WorkerRegistry,
)


@dataclass(slots=True, kw_only=True)
class Counters:
    """Counters of this process, for its metrics."""

    append_conflicts: int = 0
    stale_lists: int = 0
    runs_with_lost_events: int = 0
    lost_event_bytes: int = 0
    # Requests to Airflow by endpoint and outcome, and the state of their circuit breaker; empty without Airflow.
    airflow_requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    airflow_circuit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything shared between gateways and workers."""

    broker: Broker
    events: EventLog
    run_logs: LogStore
    snapshots: SnapshotStore
    queue: JobQueue
    dead_letters: DeadLetters
    registry: WorkerRegistry
    signals: Signals
    presence: Presence
    wheels: WheelStore
    wheel_history: WheelHistory
    graphs: GraphStore
    strategies: StrategyStore
    idempotency: IdempotencyStore
    tickets: TicketStore
    artifacts: ArtifactStore
    signing_keys: SigningKeyStore
    clock: Clock
    ids: Ids
    durability: Durability
    counters: Counters = field(default_factory=Counters)


class IdempotencyLease(Protocol):
    """The lease of a request with an idempotency key; see `services.idempotency`."""

    async def overtaken(self) -> bool:
        """Whether another attempt has taken over. A run read before a False contains nothing of another attempt."""

    def emitted(self, commit_id: CommitId, events: int) -> None:
        """Record that the request has caused the events of this commit."""


class CommandContext(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a command, which tenant's executions exist for it (None: all), and how to recognise a retry.

    A request with an idempotency key has one commit id for all its attempts. `resumed`: an earlier attempt may have
    stored it, so the log is searched first; `hold` says whether another attempt has taken over. The id of a request
    that is not resumed was generated at `begun_at` (monotonic): nothing older can contain it.
    """

    actor: Actor
    tenant_filter: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    commit_id: CommitId | None = None
    resumed: bool = False
    begun_at: float = float("-inf")
    hold: IdempotencyLease | None = None


GATEWAY = CommandContext(actor=Actor(kind="gateway"))
