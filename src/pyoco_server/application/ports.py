"""The promises that adapters keep. Each has one contract suite, run against memory and the real thing.

Adapters raise errors of our catalogue only: `NatsUnavailable` when the store does not answer in time, and whatever a
method's docstring names. Nothing else may come out of a port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import orjson

from pyoco_server.access.api_keys import ApiKey, KeyId
from pyoco_server.execution.events import Commit, StoredCommit
from pyoco_server.execution.ids import CommitId, InstanceId, RunId, WorkerId
from pyoco_server.execution.snapshot import from_snapshot
from pyoco_server.execution.state import Execution
from pyoco_server.fleet.queues import QueueState as QueueState
from pyoco_server.fleet.records import WorkerRecord
from pyoco_server.graphfile.stored import StoredGraph as StoredGraph
from pyoco_server.idempotency.keys import RecordKey
from pyoco_server.idempotency.record import Record
from pyoco_server.readmodel.query import IndexPosition as IndexPosition
from pyoco_server.readmodel.query import Listed as Listed
from pyoco_server.readmodel.query import RunQuery as RunQuery
from pyoco_server.readmodel.query import SnapshotSeen as SnapshotSeen
from pyoco_server.readmodel.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery
from pyoco_server.readmodel.tallies import Tallies, Waiting
from pyoco_server.runlog.lines import LogChunk
from pyoco_server.wheelhouse.history import WheelAction, WheelEvent
from pyoco_server.wheelhouse.wheel import Wheel

Durability = Literal["fsynced", "replicated", "buffered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The commit is in the log under this sequence: now, or (`found`) since a try whose ack was lost.

    That try may have been a twin's, who used the same commit id: what it decided need not be what we did.
    """

    version: int
    found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Somebody else wrote first, or the log is gone; nothing of ours is in it."""


class EventLog(Protocol):
    """The truth: per run, an ordered list of commits."""

    async def append(self, run_id: RunId, commit: Commit, *, after: int) -> Stored | Conflict:
        """Add a commit behind the one with sequence `after` (0: as the first).

        On a lost ack or a conflict the log is searched for our own commit id before the answer is given: whatever comes
        back is about the truth.
        """

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        """The commits behind `after`, in order, the first `limit` of them; empty when there are none."""

    async def purge(self, run_id: RunId) -> None:
        """Forget the run's commits (retention only: a purged log would accept a first commit again)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A chunk of a run's log, and the sequence under which it is stored."""

    sequence: int
    chunk: LogChunk


class LogStore(Protocol):
    """What runs have written: per run, an ordered list of chunks."""

    async def append(self, run_id: RunId, chunk: LogChunk, *, after: int) -> Stored | Conflict:
        """Add a chunk behind the one with sequence `after` (0: as the first); `RequestTooLarge` when it is too large.

        The same chunk again (of the same attempt, with the same first line) is found, not stored twice: the answer is
        about the truth, as that of the event log.
        """

    async def last(self, run_id: RunId) -> StoredChunk | None:
        """The newest chunk, however long the log is."""

    async def next(self, run_id: RunId, *, after: int) -> StoredChunk | None:
        """The first chunk behind a sequence (any sequence, not only one of this run's)."""

    async def at(self, run_id: RunId, sequence: int) -> StoredChunk | None:
        """The chunk with exactly this sequence, None where it is not one of this run's."""

    async def listen(self, run_id: RunId, heard: Callable[[], None]) -> Callable[[], None]:
        """Call `heard` when chunks of the run were stored or may have been missed; the returned function ends that.

        A hint, never the truth: whoever listens reads afterwards.
        """

    async def purge(self, run_id: RunId) -> None:
        """Forget what the run has written (retention only)."""


class Broker(Protocol):
    """Whether the stores can be reached at all."""

    @property
    def connected(self) -> bool: ...


class Signals(Protocol):
    """A tap on the shoulder of one worker instance, lost when nobody listens: a hint, never the truth."""

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        """Say that something happened to the run which its holder should look at now."""

    async def answers(self, instance_id: InstanceId) -> bool:
        """Whether that instance listens right now."""

    async def holds(self, instance_id: InstanceId, run_id: RunId) -> bool:
        """Whether that instance listens and says that it works on the run."""

    async def listen(
        self, instance_id: InstanceId, heard: Callable[[RunId], None], holds: Callable[[RunId], bool]
    ) -> None:
        """Call `heard` for every tap and `holds` for every question, from now on and across reconnects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHeard:
    """A commit of a run was stored, perhaps with the run's end in it; without a sequence: some may have been missed."""

    sequence: int | None = None
    may_end: bool = False


class LiveCommits(Protocol):
    """Word of commits as they are stored; lost while the broker is away: a hint, never the truth."""

    async def listen(self, run_id: RunId, heard: Callable[[CommitHeard], None]) -> Callable[[], None]:
        """Call `heard` for every commit of the run that is stored from now on; the returned function ends that.

        What was appended before this returns may be heard or not: whoever listens reads the log afterwards.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSnapshot:
    """A snapshot as stored: the execution it shows, the revision to compare-and-set on, and the bytes."""

    execution: Execution
    revision: int
    heartbeat_at: float
    value: bytes

    @classmethod
    def read(cls, value: bytes, revision: int) -> LoadedSnapshot:
        """What these stored bytes show."""
        plain = orjson.loads(value)
        return cls(execution=from_snapshot(plain), revision=revision, heartbeat_at=plain["heartbeat_at"], value=value)

    @property
    def plain(self) -> dict[str, Any]:
        """The stored JSON, parsed anew each time: most who hold a snapshot never ask for it."""
        parsed: dict[str, Any] = orjson.loads(self.value)
        return parsed


class SnapshotStore(Protocol):
    """The latest state of each run, a projection of its log."""

    @property
    def last_revision(self) -> int:
        """The newest revision that this process has written; 0 before the first."""

    async def load(self, run_id: RunId) -> LoadedSnapshot | None:
        """The stored snapshot, or None."""

    async def advance(
        self, execution: Execution, *, known: LoadedSnapshot | None = None, create: bool = False
    ) -> LoadedSnapshot | None:
        """Make the snapshot show at least this version; an older version never replaces a newer one.

        Returns what is stored now, for the next call's `known`; None when the key was removed.

        `known` saves a read when it is still current. A missing key is created only with `create` (a new run):
        otherwise retention has removed it, and it stays removed.
        """

    async def touch(self, run_id: RunId, heartbeat_at: float) -> LoadedSnapshot | None:
        """Renew `heartbeat_at` and nothing else; a lost race or a missing key changes nothing. Returns what it read."""

    async def claim(self, known: LoadedSnapshot) -> bool:
        """Store the same once more under a new revision: of all who know this one, a single caller gets a yes."""

    async def remove(self, run_id: RunId, revision: int | None = None) -> bool:
        """Remove the snapshot (if it still has that revision); False when it was changed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is put into the queue for a worker (contract, appendix E)."""

    run_id: RunId
    flow_name: str
    tag: str
    submitted_at: float
    tags: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    workflow_yaml: str | None = None
    timeout_sec: float | None = None
    correlation_id: str | None = None  # what the asking is recognised by, in the worker's events and log lines too


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job as it lies in the queue, seen by somebody who does not take it; `sequence` is its place there."""

    sequence: int
    tag: str
    subject: str
    payload: bytes
    created_sequence: int | None


class Delivery(Protocol):
    """One job in a worker's hands. Exactly one of ack, nak, term — or nothing, when it is somebody else's now."""

    @property
    def payload(self) -> bytes: ...
    @property
    def tag(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def num_delivered(self) -> int: ...
    @property
    def created_sequence(self) -> int | None:
        """The sequence of EXECUTION_CREATED as the submitter saw it; None for a foreign producer's job."""

    @property
    def return_to(self) -> str:
        """Where anybody can give this job back, should the worker be lost that has it."""

    async def ack(self) -> None: ...
    async def nak(self, delay_sec: float) -> None: ...
    async def term(self) -> None: ...
    async def in_progress(self) -> None: ...


class TagQueue(Protocol):
    """One tag's jobs, as one worker pulls them."""

    @property
    def ack_wait_sec(self) -> float:
        """What the real consumer has, which may be older than our settings."""

    async def receive(self, credit: int) -> Sequence[Delivery]:
        """Ask for up to `credit` jobs in all that were not handed out yet, wait for at least one, return those here.

        Safe to cancel: a job that arrives meanwhile waits for the next call.
        """

    async def close(self) -> None:
        """Ask for no more, and give back what arrived and was not handed out."""


class JobQueue(Protocol):
    """Work waiting for workers, by tag."""

    async def publish(self, job: Job, *, created_sequence: int, nth: int = 1) -> None:
        """Put the job in; `nth` rises with each deliberate re-publish of a run, the repeat of one is swallowed."""

    async def open(self, tag: str) -> TagQueue:
        """Start to pull a tag (makes its durable consumer where there is none, respects one that is there)."""

    async def depth(self, tag: str) -> int:
        """How many jobs of the tag are stored: waiting or in work."""

    async def state(self, tag: str) -> QueueState:
        """How the jobs of the tag stand, also of one that nobody has pulled yet."""

    async def give_back(self, return_to: str) -> None:
        """Have a job delivered again at once that somebody has in hand; one that is gone stays gone."""

    async def take_back(self, jobs: Sequence[StoredJob], *, like: str) -> None:
        """Have those of these jobs delivered again at once that somebody has in hand, whoever that is.

        `like` is the `return_to` of another job of their tag. Those that wait or are gone are left alone.
        """

    async def tags(self) -> Sequence[str]:
        """The tags that have jobs stored, waiting or in work; what is no tag is left out, whoever put it there."""

    async def stored(
        self, tag: str, *, after: int = 0, upto: int | None = None, limit: int = 100
    ) -> Sequence[StoredJob]:
        """The jobs of the tag behind a place (and up to another), in order, taking none of them."""

    async def discard(self, job: StoredJob) -> None:
        """Take the job out of the queue, whoever has it; one that is gone already is no error."""

    async def on_given_up(self, heard: Callable[[], None]) -> None:
        """Call `heard` when the queue gives a job up, from now on and across reconnects: a hint, never the truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A job that went wrong, for diagnosis (contract: DlqMessage)."""

    timestamp: float
    reason: str
    error: str | None = None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    tags: tuple[str, ...] | None = None
    worker_id: str | None = None
    num_delivered: int | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FiledLetter:
    """A letter and the number under which it is kept."""

    seq: int
    letter: DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterStretch:
    """The letters of a bounded stretch, newest first; older ones are behind `before` (None: there are none)."""

    letters: tuple[FiledLetter, ...]
    before: int | None


class DeadLetters(Protocol):
    """Where jobs that went wrong are told of. The truth about a run is in its log, not here."""

    async def publish(self, letter: DeadLetter) -> None: ...
    async def recent(self, limit: int = 100) -> Sequence[DeadLetter]:
        """The last letters, newest first."""

    async def stretch(self, *, before: int | None = None, tag: str | None = None) -> LetterStretch:
        """The letters (of a tag) of the next stretch that is older than the number `before` (None: the newest)."""

    async def get(self, seq: int) -> DeadLetter | None:
        """One letter; None when there is none, or none any more."""

    async def count(self) -> int:
        """How many are kept; none is read for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """One change of the registry; `record` is None when it was removed, or is nobody's word.

    `age_sec` says how long ago the worker spoke, by the store's own clock; None where the store cannot tell.
    """

    sequence: int
    worker_id: WorkerId
    record: WorkerRecord | None
    age_sec: float | None = 0.0


class WorkerRegistry(Protocol):
    """What the workers last said of themselves."""

    async def put(self, record: WorkerRecord) -> None:
        """Store the worker's own word; `hidden`, which is an operator's, is kept as it is stored."""

    async def succeed(self, other: WorkerRecord | None, record: WorkerRecord) -> bool:
        """Store a worker's first word in place of that one; False when there is another by now: of two, one gets in."""

    async def get(self, worker_id: WorkerId) -> WorkerRecord | None: ...
    async def all(self) -> Sequence[WorkerRecord]: ...
    async def set_hidden(self, worker_id: WorkerId, hidden: bool, *, at: float) -> WorkerSeen | None:
        """Store an operator's wish and change nothing else, whatever the worker says meanwhile; None: no such worker.

        It is no sign of life of the worker.
        """

    async def remove(self, record: WorkerRecord) -> bool:
        """Remove the worker, unless it has spoken since it said this."""

    def follow(self) -> AsyncIterator[Sequence[WorkerSeen]]:
        """What is stored, then one empty batch, then every change as it comes, for ever and across reconnects.

        Ends with `NatsUnavailable` when the store was made anew: begin again, and forget what was told before.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPosition:
    """What the store of API keys looked like: as long as it looks the same, it holds the same."""

    created: str
    last_sequence: int
    messages: int


class KeyStore(Protocol):
    """The API keys there are; each holds a digest, never the key."""

    async def create(self, record: ApiKey) -> bool:
        """Store a new record; False when that key id is or was taken."""

    async def revoke(self, key_id: KeyId, revoked_at: float) -> ApiKey | None:
        """End a key and return its record; one that was revoked before keeps its time, an unknown one is None."""

    async def all(self) -> Sequence[ApiKey]:
        """Every record, the revoked ones too."""

    async def position(self) -> KeysPosition:
        """What the store looks like now, by the word of the broker and not of a cache."""


class GraphStore(Protocol):
    """The graphs of tenants (None: of nobody), by id. What is stored there and is no graph is not there."""

    async def get(self, tenant_id: str | None, graph_id: str) -> StoredGraph | None: ...
    async def put(self, tenant_id: str | None, graph: StoredGraph) -> StoredGraph | None:
        """Store the graph in place of the one with its revision (0: where there is none).

        Returns it with its new revision; None when another was stored meanwhile, and then nothing has changed.
        """

    async def all(self, tenant_id: str | None) -> Sequence[StoredGraph]:
        """Every graph of the tenant, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """What is kept of a request with a key, and the revision to compare-and-set on."""

    record: Record
    revision: int


class IdempotencyStore(Protocol):
    """Requests that carry a key, each under a key of its own; forgotten when they are old enough."""

    async def create(self, key: RecordKey, record: Record) -> StoredRecord | None:
        """Store the first record of a key; None when there is one. The same record again is the same creation."""

    async def get(self, key: RecordKey) -> StoredRecord | None:
        """What is stored; `InternalError` for what nobody can read, because to forget it would be to do it twice."""

    async def replace(self, key: RecordKey, record: Record, *, revision: int) -> StoredRecord | None:
        """Store in place of that revision; None when it is another by now, or gone.

        Where the same record is stored already, an earlier try was ours and its answer was lost: that is success.
        """

    async def remove(self, key: RecordKey, *, revision: int) -> bool:
        """Forget that revision; False when it is another by now, or gone."""


class WheelStore(Protocol):
    """The wheels there are, and their bytes in pieces: no method holds a whole wheel in memory."""

    async def all(self) -> Sequence[Wheel]:
        """Every wheel that is there, by name."""

    async def get(self, name: str) -> Wheel | None: ...
    async def put(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        *,
        tags: Sequence[str],
        admit: Callable[[Sequence[Wheel]], None] | None = None,
    ) -> Wheel:
        """Store the bytes under this name, in place of what was there; what was there stays when `chunks` raises.

        `admit` is asked with all wheels there are, at the very moment: between its word and the new wheel nobody else's
        is added, changed or removed. What it raises is raised here, and nothing has changed.
        """

    def read(self, wheel: Wheel) -> AsyncIterator[bytes]:
        """The bytes of exactly this upload, in order; `WheelNotFound` when it was deleted or replaced meanwhile.

        Ends with `WheelCorrupt` instead of the last piece when the bytes are not those that were stored.
        """

    async def delete(self, wheel: Wheel) -> bool:
        """Remove exactly this upload; False when it was gone already."""


class WheelHistory(Protocol):
    """What was done to wheels, and by whom; forgotten when it is old enough."""

    async def add(self, event: WheelEvent) -> None:
        """Remember it; the repeat of an event changes nothing."""

    async def recent(
        self, limit: int, *, wheel_name: str | None = None, action: WheelAction | None = None
    ) -> Sequence[WheelEvent]:
        """The last events that fit, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSeen:
    """One commit of any run, seen passing by: its run and its sequence, not its content."""

    sequence: int
    run_id: RunId


class Feed(Protocol):
    """Everything that is stored, in order, without gaps, across reconnects and broker restarts; for gateways."""

    async def snapshot_stream(self) -> tuple[str, int]:
        """When the snapshot stream was created, and its last sequence."""

    async def snapshot_key_at(self, sequence: int) -> str | None:
        """The key stored under this sequence, None when it was replaced since."""

    def snapshots(self, *, after: int) -> AsyncIterator[Sequence[SnapshotSeen]]:
        """Batches of changes of the snapshot bucket behind `after`, then live, for ever.

        An empty batch says that nothing is pending: the last sequence of a stream may be one that nobody will ever see
        (the marker of a removal expires), so a follower cannot tell from sequences alone that it has caught up.
        """

    async def last_commit(self) -> int:
        """The last sequence of the event log."""

    def commits(self, *, after: int) -> AsyncIterator[Sequence[LogSeen]]:
        """Batches of commits of all runs behind the sequence `after`, then live, for ever."""


class RunIndex(Protocol):
    """Rows of all snapshots, for lists and counts: a cache that can be deleted and comes back. Synchronous, local."""

    def position(self) -> IndexPosition | None: ...
    def reset(self, *, lived_after: int = 0) -> None:
        """Forget everything. What the bucket held up to `lived_after` will be listed, but adds nothing to the tallies:
        it happened before this index was there to see it.
        """

    def apply(self, changes: Sequence[SnapshotSeen], position: IndexPosition) -> None:
        """Take in changes and the position behind them in one transaction; older positions of a run change nothing."""

    def rows(self, query: RunQuery) -> Sequence[Listed]:
        """The runs asked for, newest `updated_at` first; of the same moment the greater id first."""

    def changed(self, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
        """The runs asked for that changed behind the sequence `since`, by id, of those behind `after` and up to `upto`.

        A heartbeat is no change, but may be taken for one: after a rebuild nobody can tell them apart.
        """

    def last_run_id(self) -> str:
        """The greatest id of all runs; empty when there are none."""

    def summaries(self, query: RunQuery) -> Sequence[bytes]:
        """The JSON summaries of `rows`."""

    def run_ids(self, query: RunQuery) -> Sequence[RunId]:
        """The ids of `rows`."""

    def known(self, run_ids: Sequence[RunId]) -> Mapping[RunId, tuple[int, str]]:
        """Version and status that each of these runs has here; runs it does not know are left out."""

    def tenants(self, run_ids: Sequence[RunId]) -> Mapping[RunId, str]:
        """Whose each of these runs is (empty: nobody's); runs it does not know are left out."""

    def mark(self, name: str) -> int:
        """A number kept beside the rows (0 until it was set): how far another reader of the streams has come."""

    def set_mark(self, name: str, value: int) -> None: ...
    def counts(self, tenant_id: str | None = None) -> Mapping[str, int]:
        """How many runs per status (of one tenant)."""

    def waiting(self, tenant_id: str | None = None, *, limit: int) -> Sequence[Waiting]:
        """The tags with the most PENDING runs (of one tenant), the deepest queue first; no run is looked at for it."""

    def tallies(self, tenant_id: str | None = None) -> Tallies:
        """What has happened to runs (of one tenant) since the index was begun; removing a run takes nothing back."""

    def finished_before(self, ended_at: float, limit: int) -> Sequence[RunId]:
        """Finished runs whose end is older, oldest first: what retention removes."""

    def at_work(self, limit: int) -> Mapping[RunId, int]:
        """Runs that somebody may be working on, with the revision of their snapshot: every heartbeat raises it."""

    def unfinished(self, *, status: str, tag: str, updated_before: float, limit: int) -> Sequence[RunId]:
        """Runs of an unfinished status and a tag that have not changed since then, oldest first."""

    def claimable(
        self, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
    ) -> Sequence[ClaimableNode]:
        """Nodes of these graphs (of one tenant) that can be taken: ready, or with a lease that has ended.

        The oldest execution first (its id begins with its time), its nodes in their order. The cost is that of the
        limit, however many are ready.
        """

    def next_lease_end(self, graph_ids: Collection[str], *, tenant_id: str | None) -> float | None:
        """When the first lease ends, or has ended, after which a node of these graphs (of one tenant) can be taken."""

    def waits(self, query: WaitQuery) -> Sequence[WaitingNode]:
        """Nodes that wait for somebody, by (since, run id, place): the longest wait first."""

    def due(self, *, before: float, limit: int) -> Sequence[DueNode]:
        """Nodes whose wait, or whose last lease, is over at `before`, the earliest first."""

    def steps_count(self) -> Mapping[StepKind, int]:
        """How many steps of each kind there are; no step is looked at for it."""

    def close(self) -> None: ...


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> float:
        """Unix seconds."""

    def monotonic(self) -> float: ...


class Ids(Protocol):
    """The only source of names for new things."""

    def run_id(self) -> RunId: ...
    def commit_id(self) -> CommitId: ...
    def instance_id(self) -> InstanceId: ...
    def key_id(self) -> KeyId: ...
    def key_secret(self) -> str:
        """256 bits that nobody can guess, as 43 characters of base64url."""
