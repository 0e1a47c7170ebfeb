"""The stores that all gateways of a world share: the memory adapters, with ids and clocks that a seed can repeat.

What is stored is stored as the memory adapters do it, as bytes; only what was read from the same bytes before is not
read again, because that would be most of an interleaving's price.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from random import Random

import orjson

from pyoco_server.domain.auth.api_keys import KeyId
from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.snapshot import encode_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import CommitId, InstanceId, RunId
from pyoco_server.ports import LoadedSnapshot, SnapshotSeen
from pyoco_server.services.context import Stores
from pyoco_server.testing.dead_letters import MemoryDeadLetters
from pyoco_server.testing.event_log import MemoryEventLog
from pyoco_server.testing.feed import MemoryFeed
from pyoco_server.testing.graph_store import MemoryGraphStore
from pyoco_server.testing.idempotency import MemoryIdempotency
from pyoco_server.testing.job_queue import MemoryJobQueue
from pyoco_server.testing.log_store import MemoryLogStore
from pyoco_server.testing.registry import MemoryRegistry
from pyoco_server.testing.signals import MemorySignals
from pyoco_server.testing.snapshots import MemorySnapshots
from pyoco_server.testing.tickets import MemoryTickets
from pyoco_server.testing.wheel_history import MemoryWheelHistory
from pyoco_server.testing.wheel_store import MemoryWheelStore
from simulation.faulty_ports import Faults, Way
from simulation.loop import SeededLoop

# The calls that the code under test makes; what else a port can do is not reached from here.
_CALLS = {
    "events": ("append", "read"),
    "snapshots": ("load", "advance"),
    "idempotency": ("create", "get", "replace", "remove"),
    "graphs": ("get",),
    "signals": ("tell",),
    "queue": ("publish",),
}


class SeededLog(MemoryEventLog):
    """The memory log; commits that were read are kept beside their bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: dict[RunId, list[StoredCommit]] = {}
        self.on_stored.append(self._keep)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        commits = self.commits.get(run_id, [])
        return [stored for stored in commits if stored.sequence > after][:limit]

    def _keep(self, run_id: RunId, sequence: int, payload: bytes) -> None:
        stored = StoredCommit(sequence=sequence, commit=codec.decode(payload))
        self.commits.setdefault(run_id, []).append(stored)


class SeededSnapshots(MemorySnapshots):
    """The memory snapshots. As on JetStream, whoever stores one knows what is in it; whoever loads one reads it."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[RunId, LoadedSnapshot] = {}
        self._read: dict[RunId, LoadedSnapshot] = {}

    async def advance(
        self, execution: Execution, *, known: LoadedSnapshot | None = None, create: bool = False
    ) -> LoadedSnapshot | None:
        run_id = execution.execution_id
        stored = self._written.get(run_id)
        if stored is None and not create:
            return None
        if stored is not None and stored.execution.version >= execution.version:
            return stored
        value = encode_snapshot(execution, self._max_bytes, heartbeat_at=stored.heartbeat_at if stored else None)
        self._write(run_id, value)
        self._written[run_id] = LoadedSnapshot(
            execution=execution, revision=self._revisions[run_id], heartbeat_at=execution.updated_at, value=value
        )
        return self._written[run_id]

    async def load(self, run_id: RunId) -> LoadedSnapshot | None:
        return self.shown(run_id)

    def version(self, run_id: RunId) -> int:
        written = self._written.get(run_id)
        return 0 if written is None else written.execution.version

    def shown(self, run_id: RunId) -> LoadedSnapshot | None:
        """What is stored, read from its bytes, for those who look on."""
        written, read = self._written.get(run_id), self._read.get(run_id)
        if written is None or (read is not None and read.revision == written.revision):
            return read
        read = self._read[run_id] = LoadedSnapshot.read(written.value, written.revision)
        return read


class SeededFeed(MemoryFeed):
    """The memory feed; a snapshot that one gateway has read is not parsed again for the next."""

    def __init__(self, log: SeededLog, snapshots: SeededSnapshots) -> None:
        super().__init__(log, snapshots)
        self._parsed: dict[int, SnapshotSeen] = {}

    async def snapshots(self, *, after: int) -> AsyncIterator[Sequence[SnapshotSeen]]:
        async with aclosing(self._snapshots.follow(after)) as batches:
            async for batch in batches:
                yield [self._seen(sequence, change.run_id, change.value) for sequence, change in batch]

    def _seen(self, sequence: int, run_id: RunId, value: bytes | None) -> SnapshotSeen:
        seen = self._parsed.get(sequence)
        if seen is None:
            plain = None if value is None else orjson.loads(value)
            seen = self._parsed[sequence] = SnapshotSeen(sequence=sequence, run_id=run_id, plain=plain)
        return seen


class CountedIds:
    """Ids, one after the other: the same in every life of a seed."""

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
    """Clock. Clocks of machines differ by a bit: `ahead_sec`."""

    loop: SeededLoop
    ahead_sec: float = 0.0

    def now(self) -> float:
        return self.loop.time() + self.ahead_sec

    def monotonic(self) -> float:
        return self.loop.time()


class SharedStores:
    """What all gateways share and no crash takes away."""

    def __init__(self, loop: SeededLoop) -> None:
        self.log, self.snapshots = SeededLog(), SeededSnapshots()
        self.feed = SeededFeed(self.log, self.snapshots)
        clock = LoopClock(loop)
        self.truth = Stores(
            broker=Way(loop, Random(0), Faults(0.0)),
            events=self.log,
            run_logs=MemoryLogStore(),
            snapshots=self.snapshots,
            queue=MemoryJobQueue(ack_wait_sec=30.0, max_deliver=20),
            dead_letters=MemoryDeadLetters(),
            registry=MemoryRegistry(),
            signals=MemorySignals(),
            wheels=MemoryWheelStore(clock),
            wheel_history=MemoryWheelHistory(),
            graphs=MemoryGraphStore(),
            idempotency=MemoryIdempotency(),
            tickets=MemoryTickets(),
            clock=clock,
            ids=CountedIds(),
            durability="buffered",
        )

    def behind(self, way: Way, clock: LoopClock) -> Stores:
        """The same, reached by this way, by the time of this clock."""
        guarded = {name: way.guarded(getattr(self.truth, name), calls) for name, calls in _CALLS.items()}
        return replace(self.truth, broker=way, clock=clock, **guarded)
