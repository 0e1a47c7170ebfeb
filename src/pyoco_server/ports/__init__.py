"""The protocols that adapters implement; each has one contract suite, run against memory and the real implementation.

Adapters raise errors of our catalogue only: `BrokerUnavailable` when the broker does not answer in time, and the errors
named by a method's docstring.
"""

from __future__ import annotations

from pyoco_server.domain.fleet.worker_status import QueueState as QueueState
from pyoco_server.domain.graphs import StoredGraph as StoredGraph
from pyoco_server.domain.queries.jobs import JobPage as JobPage
from pyoco_server.domain.queries.jobs import JobQuery as JobQuery
from pyoco_server.domain.queries.jobs import LabelCount as LabelCount
from pyoco_server.domain.queries.jobs import LabelQuery as LabelQuery
from pyoco_server.domain.queries.query import IndexPosition as IndexPosition
from pyoco_server.domain.queries.query import Listed as Listed
from pyoco_server.domain.queries.query import RunQuery as RunQuery
from pyoco_server.domain.queries.query import SearchPage as SearchPage
from pyoco_server.domain.queries.query import SnapshotSeen as SnapshotSeen
from pyoco_server.ports.audit import AuditIndex as AuditIndex
from pyoco_server.ports.audit import AuditPosition as AuditPosition
from pyoco_server.ports.broker import Broker as Broker
from pyoco_server.ports.broker import Conflict as Conflict
from pyoco_server.ports.broker import Durability as Durability
from pyoco_server.ports.broker import Entry as Entry
from pyoco_server.ports.broker import KeyValue as KeyValue
from pyoco_server.ports.broker import LogMessage as LogMessage
from pyoco_server.ports.broker import RevisionConflict as RevisionConflict
from pyoco_server.ports.broker import Stored as Stored
from pyoco_server.ports.broker import StreamState as StreamState
from pyoco_server.ports.broker import SubjectLog as SubjectLog
from pyoco_server.ports.index import RunIndex as RunIndex
from pyoco_server.ports.job_queue import Delivery as Delivery
from pyoco_server.ports.job_queue import Job as Job
from pyoco_server.ports.job_queue import JobQueue as JobQueue
from pyoco_server.ports.job_queue import StoredJob as StoredJob
from pyoco_server.ports.job_queue import TagQueue as TagQueue
from pyoco_server.ports.object_store import WheelStore as WheelStore
from pyoco_server.ports.presence import Presence as Presence
from pyoco_server.ports.presence import PresenceNews as PresenceNews
from pyoco_server.ports.signals import Signals as Signals
from pyoco_server.ports.strategy_results import StrategyResults as StrategyResults
from pyoco_server.ports.system import Clock as Clock
from pyoco_server.ports.system import Ids as Ids
