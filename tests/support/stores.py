"""All stores, in memory or on a real JetStream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.adapters.system import SystemClock, SystemIds
from pyoco_server.bootstrap import api_keys_on, feed_on, stores_on
from pyoco_server.config import NatsBackendConfig
from pyoco_server.services.context import Stores
from pyoco_server.stores import (
    DeadLetters,
    EventLog,
    Feed,
    GraphStore,
    IdempotencyStore,
    KeyStore,
    LogStore,
    SigningKeyStore,
    SnapshotStore,
    StrategyStore,
    TicketStore,
    WheelHistory,
    WorkerRegistry,
)
from pyoco_server.testing.artifacts import MemoryArtifactStore
from pyoco_server.testing.broker import MemoryKeyValue, MemorySubjectLog
from pyoco_server.testing.job_queue import MemoryJobQueue
from pyoco_server.testing.presence import MemoryPresence
from pyoco_server.testing.signals import MemorySignals
from pyoco_server.testing.wheel_store import MemoryWheelStore

# Short, because tests wait for a redelivery.
ACK_WAIT_SEC = 0.5
MAX_DELIVER = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports(Stores):
    """The stores of a gateway, and what only some processes open."""

    feed: Feed
    keys: KeyStore


class AlwaysConnected:
    """Broker."""

    connected = True


def memory_ports(events: MemorySubjectLog | None = None) -> Ports:
    events, runs = events or MemorySubjectLog(), MemoryKeyValue()
    return Ports(
        broker=AlwaysConnected(),
        events=EventLog(events),
        run_logs=LogStore(MemorySubjectLog()),
        snapshots=SnapshotStore(runs),
        queue=MemoryJobQueue(ack_wait_sec=ACK_WAIT_SEC, max_deliver=MAX_DELIVER),
        dead_letters=DeadLetters(MemorySubjectLog()),
        registry=WorkerRegistry(MemoryKeyValue()),
        signals=MemorySignals(),
        presence=MemoryPresence(),
        wheels=MemoryWheelStore(SystemClock()),
        wheel_history=WheelHistory(MemoryKeyValue()),
        graphs=GraphStore(MemoryKeyValue()),
        strategies=StrategyStore(MemoryKeyValue()),
        idempotency=IdempotencyStore(MemoryKeyValue()),
        tickets=TicketStore(MemoryKeyValue()),
        artifacts=MemoryArtifactStore(),
        signing_keys=SigningKeyStore(MemoryKeyValue()),
        clock=SystemClock(),
        ids=SystemIds(),
        durability="buffered",
        feed=Feed(runs, events),
        keys=KeyStore(MemoryKeyValue()),
    )


def settings(url: str, **changed: object) -> NatsBackendConfig:
    """The settings of the tests of the stores."""
    values: dict[str, object] = {
        "consumer_ack_wait_sec": ACK_WAIT_SEC,
        "ack_progress_interval_sec": 0.1,
        "consumer_max_deliver": MAX_DELIVER,
    }
    return NatsBackendConfig(nats_url=url, **values | changed)  # type: ignore[arg-type]


async def jetstream_ports(connection: Connection, config: NatsBackendConfig) -> Ports:
    facts = await ensure_resources(connection, config)
    stores = stores_on(connection, facts, config)
    values: dict[str, Any] = {field.name: getattr(stores, field.name) for field in fields(stores)}
    return Ports(**values, feed=feed_on(connection, facts, config), keys=api_keys_on(connection, facts, config))


@asynccontextmanager
async def opened_ports(url: str, **changed: object) -> AsyncIterator[Ports]:
    """Ports on a connection of their own, as another process would have them."""
    config = settings(url, **changed)
    async with await Connection.open(config) as connection:
        yield await jetstream_ports(connection, config)
