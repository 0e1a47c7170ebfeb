"""Typed stores, written once on the broker ports: they encode, decode and compare-and-set, and know no broker."""

from __future__ import annotations

from pyoco_server.stores.credentials import KeyStore as KeyStore
from pyoco_server.stores.credentials import TicketStore as TicketStore
from pyoco_server.stores.dead_letters import DeadLetter as DeadLetter
from pyoco_server.stores.dead_letters import DeadLetterBatch as DeadLetterBatch
from pyoco_server.stores.dead_letters import DeadLetters as DeadLetters
from pyoco_server.stores.dead_letters import StoredDeadLetter as StoredDeadLetter
from pyoco_server.stores.events import CommitHeard as CommitHeard
from pyoco_server.stores.events import EventLog as EventLog
from pyoco_server.stores.feed import Feed as Feed
from pyoco_server.stores.feed import LogSeen as LogSeen
from pyoco_server.stores.graphs import GraphStore as GraphStore
from pyoco_server.stores.idempotency import IdempotencyStore as IdempotencyStore
from pyoco_server.stores.idempotency import StoredRecord as StoredRecord
from pyoco_server.stores.run_logs import LogStore as LogStore
from pyoco_server.stores.run_logs import StoredChunk as StoredChunk
from pyoco_server.stores.signing_keys import SigningKeyStore as SigningKeyStore
from pyoco_server.stores.snapshots import LoadedSnapshot as LoadedSnapshot
from pyoco_server.stores.snapshots import SnapshotStore as SnapshotStore
from pyoco_server.stores.strategies import StrategyStore as StrategyStore
from pyoco_server.stores.wheel_history import WheelHistory as WheelHistory
from pyoco_server.stores.workers import WorkerRegistry as WorkerRegistry
from pyoco_server.stores.workers import WorkerSeen as WorkerSeen
