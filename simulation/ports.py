"""The stores that all gateways share: the memory adapters, with repeatable ids and clocks.

They store bytes, as the memory adapters do. Decoded values are cached, because decoding would take most of the time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from random import Random

import orjson

from pyoco_server.domain.auth.api_keys import KeyId
from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import Commit, StoredCommit
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import CommitId, InstanceId, RunId
from pyoco_server.ports import Conflict, Entry, SnapshotSeen, Stored
from pyoco_server.services.context import Stores
from pyoco_server.stores import (
    DeadLetters,
    EventLog,
    Feed,
    GraphStore,
    IdempotencyStore,
    LoadedSnapshot,
    LogStore,
    SigningKeyStore,
    SnapshotStore,
    StrategyStore,
    TicketStore,
    WheelHistory,
    WorkerRegistry,
)
from pyoco_server.testing.artifacts import MemoryArtifactStore
from pyoco_server.testing.batch_engine import MemoryBatchEngine
from pyoco_server.testing.broker import MemoryKeyValue, MemorySubjectLog
from pyoco_server.testing.job_queue import MemoryJobQueue
from pyoco_server.testing.presence import MemoryPresence
from pyoco_server.testing.signals import MemorySignals
from pyoco_server.testing.wheel_store import MemoryWheelStore
from simulation.faulty_ports import Faults, Way
from simulation.loop import SeededLoop

# The calls that the code under test makes.
_CALLS = {
    "events": ("append", "read"),
    "snapshots": ("load", "advance"),
    "idempotency": ("create", "get", "replace"),
    "graphs": ("get",),
    "signals": ("tell",),
    "queue": ("publish",),
    "artifacts": ("put",),
}


class SeededLog(EventLog):
    """The event log in memory; parsed commits are cached."""

    def __init__(self, log: MemorySubjectLog) -> None:
        super().__init__(log)
        self.commits: dict[RunId, list[StoredCommit]] = {}

    async def append(self, run_id: RunId, commit: Commit, *, after: int) -> Stored | Conflict:
        stored = await super().append(run_id, commit, after=after)
        if isinstance(stored, Stored) and not stored.found:
            decoded = codec.decode(codec.encode(run_id, commit))
            self.commits.setdefault(run_id, []).append(StoredCommit(sequence=stored.version, commit=decoded))
        return stored

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        commits = self.commits.get(run_id, [])
        return [stored for stored in commits if stored.sequence > after][:limit]


class SeededSnapshots(SnapshotStore):
    """The snapshots in memory; stored bytes are parsed once."""

    def __init__(self, bucket: MemoryKeyValue) -> None:
        super().__init__(bucket)
        self._written: dict[RunId, LoadedSnapshot] = {}
        self._read: dict[RunId, LoadedSnapshot] = {}

    async def advance(
        self, execution: Execution, *, known: LoadedSnapshot | None = None, create: bool = False
    ) -> LoadedSnapshot | None:
        stored = await super().advance(execution, known=known, create=create)
        if stored is not None:
            self._written[execution.execution_id] = stored
        return stored

    async def load(self, run_id: RunId) -> LoadedSnapshot | None:
        return self.shown(run_id)

    def version(self, run_id: RunId) -> int:
        written = self._written.get(run_id)
        return 0 if written is None else written.execution.version

    def shown(self, run_id: RunId) -> LoadedSnapshot | None:
        """The stored snapshot, read from its bytes, without waiting."""
        written, read = self._written.get(run_id), self._read.get(run_id)
        if written is None or (read is not None and read.revision == written.revision):
            return read
        read = self._read[run_id] = LoadedSnapshot.read(written.value, written.revision)
        return read


class SeededFeed(Feed):
    """The feed in memory; a snapshot that one gateway has read is not parsed again for the next."""

    def __init__(self, snapshots: MemoryKeyValue, events: MemorySubjectLog) -> None:
        super().__init__(snapshots, events)
        self._parsed: dict[int, SnapshotSeen] = {}

    async def snapshots(self, *, after: int) -> AsyncGenerator[Sequence[SnapshotSeen], None]:
        async with aclosing(self._snapshots.follow(after=after)) as batches:
            async for batch in batches:
                yield [self._seen(entry) for entry in batch]

    def _seen(self, entry: Entry) -> SnapshotSeen:
        seen = self._parsed.get(entry.revision)
        if seen is None:
            plain = None if entry.value is None else orjson.loads(entry.value)
            seen = SnapshotSeen(sequence=entry.revision, run_id=RunId(entry.key), plain=plain)
            self._parsed[entry.revision] = seen
        return seen


class CountedIds:
    """Consecutive ids: the same each time a seed is played."""

    def __init__(self) -> None:
        self._next = count(1)

    def run_id(self) -> RunId:
        return RunId(f"00000000-0000-7000-8000-{next(self._next):012d}")

    def commit_id(self) -> CommitId:
        return CommitId(f"c{next(self._next)}")

    def instance_id(self) -> InstanceId:
        return InstanceId(f"i{next(self._next)}")

    def key_id(self) -> KeyId:
        return KeyId(f"k{next(self._next)}")

    def key_secret(self) -> str:
        return f"secret-{next(self._next)}"


@dataclass(frozen=True, slots=True)
class LoopClock:
    """Clock that is ahead of the others, as clocks of machines differ."""

    loop: SeededLoop
    ahead_sec: float = 0.0

    def now(self) -> float:
        return self.loop.time() + self.ahead_sec

    def monotonic(self) -> float:
        return self.loop.time()


class SharedStores:
    """The stores, which no crash affects."""

    def __init__(self, loop: SeededLoop) -> None:
        events, runs = MemorySubjectLog(), MemoryKeyValue(loop.time)
        self.log, self.snapshots = SeededLog(events), SeededSnapshots(runs)
        self.feed = SeededFeed(runs, events)
        self.engine = MemoryBatchEngine(concurrency=2)
        self.engine.poll_interval_sec = 0.2
        clock = LoopClock(loop)
        self.truth = Stores(
            broker=Way(loop, Random(0), Faults(0.0)),
            events=self.log,
            run_logs=LogStore(MemorySubjectLog()),
            snapshots=self.snapshots,
            queue=MemoryJobQueue(ack_wait_sec=30.0, max_deliver=20),
            dead_letters=DeadLetters(MemorySubjectLog()),
            registry=WorkerRegistry(MemoryKeyValue(loop.time)),
            signals=MemorySignals(),
            presence=MemoryPresence(),
            wheels=MemoryWheelStore(clock),
            wheel_history=WheelHistory(MemoryKeyValue(loop.time)),
            graphs=GraphStore(MemoryKeyValue(loop.time)),
            strategies=StrategyStore(MemoryKeyValue(loop.time)),
            idempotency=IdempotencyStore(MemoryKeyValue(loop.time)),
            tickets=TicketStore(MemoryKeyValue(loop.time)),
            artifacts=MemoryArtifactStore(),
            signing_keys=SigningKeyStore(MemoryKeyValue(loop.time)),
            clock=clock,
            ids=CountedIds(),
            durability="buffered",
        )

    def behind(self, way: Way, clock: LoopClock) -> Stores:
        """The stores as reached by this connection, with this clock."""
        guarded = {name: way.guarded(getattr(self.truth, name), calls) for name, calls in _CALLS.items()}
        return replace(self.truth, broker=way, clock=clock, **guarded)
