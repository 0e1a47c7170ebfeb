"""The promises that adapters keep. Each has one contract suite, run against memory and the real thing.

Adapters raise errors of our catalogue only: `NatsUnavailable` when the store does not answer in time, and whatever a
method's docstring names. Nothing else may come out of a port.
"""

from __future__ import annotations

from pyoco_server.domain.fleet.worker_status import QueueState as QueueState
from pyoco_server.domain.graphs.codec import StoredGraph as StoredGraph
from pyoco_server.domain.queries.jobs import JobPage as JobPage
from pyoco_server.domain.queries.jobs import JobQuery as JobQuery
from pyoco_server.domain.queries.jobs import LabelCount as LabelCount
from pyoco_server.domain.queries.jobs import LabelQuery as LabelQuery
from pyoco_server.domain.queries.query import IndexPosition as IndexPosition
from pyoco_server.domain.queries.query import Listed as Listed
from pyoco_server.domain.queries.query import RunQuery as RunQuery
from pyoco_server.domain.queries.query import SnapshotSeen as SnapshotSeen
from pyoco_server.ports.fleet import Signals as Signals
from pyoco_server.ports.fleet import WorkerRegistry as WorkerRegistry
from pyoco_server.ports.fleet import WorkerSeen as WorkerSeen
from pyoco_server.ports.index import RunIndex as RunIndex
from pyoco_server.ports.registries import GraphStore as GraphStore
from pyoco_server.ports.registries import IdempotencyStore as IdempotencyStore
from pyoco_server.ports.registries import KeysPosition as KeysPosition
from pyoco_server.ports.registries import KeyStore as KeyStore
from pyoco_server.ports.registries import StoredRecord as StoredRecord
from pyoco_server.ports.registries import TicketStore as TicketStore
from pyoco_server.ports.registries import WheelHistory as WheelHistory
from pyoco_server.ports.registries import WheelStore as WheelStore
from pyoco_server.ports.runs import CommitHeard as CommitHeard
from pyoco_server.ports.runs import Conflict as Conflict
from pyoco_server.ports.runs import EventLog as EventLog
from pyoco_server.ports.runs import Feed as Feed
from pyoco_server.ports.runs import LiveCommits as LiveCommits
from pyoco_server.ports.runs import LoadedSnapshot as LoadedSnapshot
from pyoco_server.ports.runs import LogSeen as LogSeen
from pyoco_server.ports.runs import LogStore as LogStore
from pyoco_server.ports.runs import SnapshotStore as SnapshotStore
from pyoco_server.ports.runs import Stored as Stored
from pyoco_server.ports.runs import StoredChunk as StoredChunk
from pyoco_server.ports.system import Broker as Broker
from pyoco_server.ports.system import Clock as Clock
from pyoco_server.ports.system import Durability as Durability
from pyoco_server.ports.system import Ids as Ids
from pyoco_server.ports.work import DeadLetter as DeadLetter
from pyoco_server.ports.work import DeadLetterBatch as DeadLetterBatch
from pyoco_server.ports.work import DeadLetters as DeadLetters
from pyoco_server.ports.work import Delivery as Delivery
from pyoco_server.ports.work import Job as Job
from pyoco_server.ports.work import JobQueue as JobQueue
from pyoco_server.ports.work import StoredDeadLetter as StoredDeadLetter
from pyoco_server.ports.work import StoredJob as StoredJob
from pyoco_server.ports.work import TagQueue as TagQueue
