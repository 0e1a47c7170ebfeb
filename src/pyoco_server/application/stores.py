"""The stores that every use case works on, as one value; it knows promises only, never who keeps them."""

from __future__ import annotations

from dataclasses import dataclass

from pyoco_server.application.ports import (
    Broker,
    Clock,
    DeadLetters,
    Durability,
    EventLog,
    Ids,
    JobQueue,
    Signals,
    SnapshotStore,
    WorkerRegistry,
)
from pyoco_server.execution.events import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything shared between gateways and workers."""

    broker: Broker
    log: EventLog
    snapshots: SnapshotStore
    queue: JobQueue
    dead_letters: DeadLetters
    registry: WorkerRegistry
    signals: Signals
    clock: Clock
    ids: Ids
    durability: Durability


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who asks, and how the asking can be recognised later."""

    actor: Actor
    correlation_id: str | None = None
    idempotency_key: str | None = None


GATEWAY = Origin(actor=Actor(kind="gateway"))
