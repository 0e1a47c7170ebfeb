"""Every store at once, in memory or on a real JetStream; fakes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.adapters.system import SystemClock
from pyoco_server.bootstrap import api_keys_on, feed_on, stores_on
from pyoco_server.config import NatsBackendConfig
from pyoco_server.ports import JobQueue, Signals, WheelStore
from pyoco_server.stores import (
    DeadLetters,
    EventLog,
    Feed,
    GraphStore,
    IdempotencyStore,
    KeyStore,
    LogStore,
    SnapshotStore,
    TicketStore,
    WheelHistory,
    WorkerRegistry,
)
from pyoco_server.testing.broker import MemoryKeyValue, MemorySubjectLog
from pyoco_server.testing.job_queue import MemoryJobQueue
from pyoco_server.testing.signals import MemorySignals
from pyoco_server.testing.wheel_store import MemoryWheelStore

# Short, so that a redelivery can be waited for.
ACK_WAIT_SEC = 0.5
MAX_DELIVER = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """One of each, on the same broker."""

    log: EventLog
    logs: LogStore
    snapshots: SnapshotStore
    queue: JobQueue
    dead_letters: DeadLetters
    registry: WorkerRegistry
    signals: Signals
    feed: Feed
    keys: KeyStore
    wheels: WheelStore
    wheel_history: WheelHistory
    graphs: GraphStore
    idempotency: IdempotencyStore
    tickets: TicketStore


def memory_ports(events: MemorySubjectLog | None = None) -> Ports:
    events, runs = events or MemorySubjectLog(), MemoryKeyValue()
    return Ports(
        log=EventLog(events),
        logs=LogStore(MemorySubjectLog()),
        snapshots=SnapshotStore(runs),
        queue=MemoryJobQueue(ack_wait_sec=ACK_WAIT_SEC, max_deliver=MAX_DELIVER),
        dead_letters=DeadLetters(MemorySubjectLog()),
        registry=WorkerRegistry(MemoryKeyValue()),
        signals=MemorySignals(),
        feed=Feed(runs, events),
        keys=KeyStore(MemoryKeyValue()),
        wheels=MemoryWheelStore(SystemClock()),
        wheel_history=WheelHistory(MemoryKeyValue()),
        graphs=GraphStore(MemoryKeyValue()),
        idempotency=IdempotencyStore(MemoryKeyValue()),
        tickets=TicketStore(MemoryKeyValue()),
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
    stores = stores_on(connection, facts, config)
    return Ports(
        log=stores.events,
        logs=stores.run_logs,
        snapshots=stores.snapshots,
        queue=stores.queue,
        dead_letters=stores.dead_letters,
        registry=stores.registry,
        signals=stores.signals,
        feed=feed_on(connection, facts, config),
        keys=api_keys_on(connection, facts, config),
        wheels=stores.wheels,
        wheel_history=stores.wheel_history,
        graphs=stores.graphs,
        idempotency=stores.idempotency,
        tickets=stores.tickets,
    )


@asynccontextmanager
async def opened_ports(url: str, **changed: object) -> AsyncIterator[Ports]:
    """Ports on a connection of their own, as another process would have them."""
    config = settings(url, **changed)
    async with await Connection.open(config) as connection:
        yield await jetstream_ports(connection, config)
