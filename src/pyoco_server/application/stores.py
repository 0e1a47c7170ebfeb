"""The stores that every use case works on, as one value; it knows promises only, never who keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyoco_server.application.ports import (
    Broker,
    Clock,
    DeadLetters,
    Durability,
    EventLog,
    GraphStore,
    Ids,
    JobQueue,
    LogStore,
    Signals,
    SnapshotStore,
    WheelHistory,
    WheelStore,
    WorkerRegistry,
)
from pyoco_server.execution.events import Actor


@dataclass(slots=True, kw_only=True)
class Happened:
    """What this process has met with since it began, for its metrics."""

    append_conflicts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything shared between gateways and workers."""

    broker: Broker
    log: EventLog
    logs: LogStore
    snapshots: SnapshotStore
    queue: JobQueue
    dead_letters: DeadLetters
    registry: WorkerRegistry
    signals: Signals
    wheels: WheelStore
    wheel_history: WheelHistory
    graphs: GraphStore
    clock: Clock
    ids: Ids
    durability: Durability
    happened: Happened = field(default_factory=Happened)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who asks, and how the asking can be recognised later."""

    actor: Actor
    correlation_id: str | None = None
    idempotency_key: str | None = None


GATEWAY = Origin(actor=Actor(kind="gateway"))
