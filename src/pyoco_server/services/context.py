"""The stores that every use case works on, as one value; it knows promises only, never who keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.ids import CommitId
from pyoco_server.ports import Broker, Clock, Durability, Ids, JobQueue, Signals, WheelStore
from pyoco_server.stores import (
    DeadLetters,
    EventLog,
    GraphStore,
    IdempotencyStore,
    LogStore,
    SnapshotStore,
    TicketStore,
    WheelHistory,
    WorkerRegistry,
)


@dataclass(slots=True, kw_only=True)
class Counters:
    """What this process has met with since it began, for its metrics."""

    append_conflicts: int = 0


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
    wheels: WheelStore
    wheel_history: WheelHistory
    graphs: GraphStore
    idempotency: IdempotencyStore
    tickets: TicketStore
    clock: Clock
    ids: Ids
    durability: Durability
    counters: Counters = field(default_factory=Counters)


class IdempotencyLease(Protocol):
    """A request with an idempotency key while it is done; see `application.idempotency`."""

    async def overtaken(self) -> bool:
        """Whether somebody else has begun to carry on with it: a run that is read before this is asked, and not
        overtaken, has nothing of theirs in it."""

    def emitted(self, commit_id: CommitId, events: int) -> None:
        """Remember that it has brought about the events of this commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Who asks, and how the asking can be recognised later.

    A request with an idempotency key also brings the id for its one commit to a run. Whoever carries on with it uses
    the same id, so `resumed` says to look for it in the log first, and `hold` tells what others have done meanwhile.
    The id of one that is not resumed was made up at `begun_at`, by the monotonic clock: nothing older can have it.
    """

    actor: Actor
    correlation_id: str | None = None
    idempotency_key: str | None = None
    commit_id: CommitId | None = None
    resumed: bool = False
    begun_at: float = float("-inf")
    hold: IdempotencyLease | None = None


GATEWAY = CommandContext(actor=Actor(kind="gateway"))
