"""Every port at once, in memory or on a real JetStream; fakes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.dead_letters import JetStreamDeadLetters
from pyoco_server.adapters.jetstream.event_log import JetStreamEventLog
from pyoco_server.adapters.jetstream.feed import JetStreamFeed
from pyoco_server.adapters.jetstream.graph_store import JetStreamGraphStore
from pyoco_server.adapters.jetstream.idempotency import JetStreamIdempotency
from pyoco_server.adapters.jetstream.job_queue import JetStreamJobQueue
from pyoco_server.adapters.jetstream.key_store import JetStreamKeyStore
from pyoco_server.adapters.jetstream.live_commits import JetStreamLiveCommits
from pyoco_server.adapters.jetstream.log_store import JetStreamLogStore
from pyoco_server.adapters.jetstream.registry import JetStreamRegistry
from pyoco_server.adapters.jetstream.signals import JetStreamSignals
from pyoco_server.adapters.jetstream.snapshots import JetStreamSnapshots
from pyoco_server.adapters.jetstream.tickets import JetStreamTickets
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.adapters.jetstream.wheel_history import JetStreamWheelHistory
from pyoco_server.adapters.jetstream.wheel_store import JetStreamWheelStore
from pyoco_server.adapters.system import SystemClock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.ports import (
    DeadLetters,
    EventLog,
    Feed,
    GraphStore,
    IdempotencyStore,
    JobQueue,
    KeyStore,
    LiveCommits,
    LogStore,
    Signals,
    SnapshotStore,
    TicketStore,
    WheelHistory,
    WheelStore,
    WorkerRegistry,
)
from pyoco_server.testing.dead_letters import MemoryDeadLetters
from pyoco_server.testing.event_log import MemoryEventLog
from pyoco_server.testing.feed import MemoryFeed
from pyoco_server.testing.graph_store import MemoryGraphStore
from pyoco_server.testing.idempotency import MemoryIdempotency
from pyoco_server.testing.job_queue import MemoryJobQueue
from pyoco_server.testing.key_store import MemoryKeyStore
from pyoco_server.testing.live_commits import MemoryLiveCommits
from pyoco_server.testing.log_store import MemoryLogStore
from pyoco_server.testing.registry import MemoryRegistry
from pyoco_server.testing.signals import MemorySignals
from pyoco_server.testing.snapshots import MemorySnapshots
from pyoco_server.testing.tickets import MemoryTickets
from pyoco_server.testing.wheel_history import MemoryWheelHistory
from pyoco_server.testing.wheel_store import MemoryWheelStore

# Short, so that a redelivery can be waited for.
ACK_WAIT_SEC = 0.5
MAX_DELIVER = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """One of each, on the same store."""

    log: EventLog
    logs: LogStore
    snapshots: SnapshotStore
    queue: JobQueue
    dead_letters: DeadLetters
    registry: WorkerRegistry
    signals: Signals
    live: LiveCommits
    feed: Feed
    keys: KeyStore
    wheels: WheelStore
    wheel_history: WheelHistory
    graphs: GraphStore
    idempotency: IdempotencyStore
    tickets: TicketStore


def memory_ports() -> Ports:
    log, snapshots = MemoryEventLog(), MemorySnapshots()
    return Ports(
        log=log,
        logs=MemoryLogStore(),
        snapshots=snapshots,
        queue=MemoryJobQueue(ack_wait_sec=ACK_WAIT_SEC, max_deliver=MAX_DELIVER),
        dead_letters=MemoryDeadLetters(),
        registry=MemoryRegistry(),
        signals=MemorySignals(),
        live=MemoryLiveCommits(log),
        feed=MemoryFeed(log, snapshots),
        keys=MemoryKeyStore(),
        wheels=MemoryWheelStore(SystemClock()),
        wheel_history=MemoryWheelHistory(),
        graphs=MemoryGraphStore(),
        idempotency=MemoryIdempotency(),
        tickets=MemoryTickets(),
    )


def settings(url: str, **changed: object) -> NatsBackendConfig:
    """The settings that the tests of the stores use."""
    values: dict[str, object] = {
        "consumer_ack_wait_sec": ACK_WAIT_SEC,
        "ack_progress_interval_sec": 0.1,
        "consumer_max_deliver": MAX_DELIVER,
    }
    return NatsBackendConfig(nats_url=url, **values | changed)  # type: ignore[arg-type]


async def jetstream_ports(connection: Connection, config: NatsBackendConfig) -> Ports:
    facts = await ensure_resources(connection, config)
    return Ports(
        log=JetStreamEventLog(connection, config, facts),
        logs=JetStreamLogStore(connection, config, facts),
        snapshots=JetStreamSnapshots(connection, config, facts),
        queue=JetStreamJobQueue(connection, config),
        dead_letters=JetStreamDeadLetters(connection, config),
        registry=JetStreamRegistry(connection, config, facts),
        signals=JetStreamSignals(connection),
        live=JetStreamLiveCommits(connection, config),
        feed=JetStreamFeed(connection, config, facts),
        keys=JetStreamKeyStore(connection, config, facts),
        wheels=JetStreamWheelStore(connection, config, facts, SystemClock()),
        wheel_history=JetStreamWheelHistory(connection, config, facts),
        graphs=JetStreamGraphStore(connection, config, facts),
        idempotency=JetStreamIdempotency(connection, config, facts),
        tickets=JetStreamTickets(connection, config, facts),
    )


@asynccontextmanager
async def opened_ports(url: str, **changed: object) -> AsyncIterator[Ports]:
    """Ports on a connection of their own, as another process would have them."""
    config = settings(url, **changed)
    async with await Connection.open(config) as connection:
        yield await jetstream_ports(connection, config)
