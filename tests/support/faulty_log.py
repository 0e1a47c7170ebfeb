"""A log and a snapshot store in memory with planned faults.

Each call yields to other writers as often as `Turns` says, so that one list of numbers is one interleaving. They lose
responses, never stored values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from pyoco_server.domain.execution.codec import decode, encode
from pyoco_server.domain.execution.events import Commit, StoredCommit
from pyoco_server.domain.execution.snapshot import encode_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.ports import Conflict, Stored
from pyoco_server.stores import EventLog, LoadedSnapshot, SnapshotStore


class Fault(Enum):
    """What goes wrong with one append or one advance."""

    NONE = "nothing"
    LOST_ACK = "the commit is stored, but its first answer is lost"
    SLIPPED_IN = "another writer's commit is stored just before ours"
    WRITER_DIED = "the writer is gone between append and advance"


class WriterDied(Exception):
    """The process that was about to advance the snapshot has died."""


class Turns:
    """How often to yield at each point where another writer could interleave."""

    def __init__(self, pauses: Iterable[int]) -> None:
        self._pauses = iter(pauses)

    async def give_way(self) -> None:
        for _ in range(next(self._pauses, 0)):
            await asyncio.sleep(0)


class FaultyLog(EventLog):
    """`slip_in` makes the commit of the interleaving writer."""

    def __init__(self, turns: Turns, faults: Iterable[Fault], slip_in: Callable[[], Commit | None]) -> None:
        self._turns = turns
        self._faults = iter(faults)
        self._slip_in = slip_in
        self._stored: dict[RunId, list[tuple[int, bytes]]] = {}
        self._sequence = 0

    async def append(self, run_id: RunId, commit: Commit, *, after: int) -> Stored | Conflict:
        await self._turns.give_way()
        fault = next(self._faults, Fault.NONE)
        if fault is Fault.SLIPPED_IN and (rival := self._slip_in()) is not None:
            self._store(run_id, rival, after=self._last(run_id))
        stored = self._store(run_id, commit, after=after)
        if stored is not None and fault is not Fault.LOST_ACK:
            return Stored(version=stored)
        # Rejected or unanswered: the log decides.
        await self._turns.give_way()
        return self._found(run_id, commit.commit_id, after=after)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        await self._turns.give_way()
        return self.commits(run_id, after=after)[:limit]

    async def purge(self, run_id: RunId) -> None:
        self._stored.pop(run_id, None)

    def commits(self, run_id: RunId, *, after: int = 0) -> list[StoredCommit]:
        """The stored commits, without waiting."""
        kept = self._stored.get(run_id, [])
        return [StoredCommit(sequence=sequence, commit=decode(data)) for sequence, data in kept if sequence > after]

    def _last(self, run_id: RunId) -> int:
        kept = self._stored.get(run_id)
        return kept[-1][0] if kept else 0

    def _store(self, run_id: RunId, commit: Commit, *, after: int) -> int | None:
        if self._last(run_id) != after:
            return None
        # Other runs share the stream: the sequences of one run have gaps.
        self._sequence += 1 + self._sequence % 3
        self._stored.setdefault(run_id, []).append((self._sequence, encode(run_id, commit)))
        return self._sequence

    def _found(self, run_id: RunId, commit_id: CommitId, *, after: int) -> Stored | Conflict:
        for stored in self.commits(run_id, after=after):
            if stored.commit.commit_id == commit_id:
                return Stored(version=stored.sequence, found=True)
        return Conflict()


@dataclass(slots=True)
class _Kept:
    data: bytes
    revision: int


class FaultySnapshots(SnapshotStore):
    """An advance may fail because its writer has died."""

    def __init__(self, turns: Turns, faults: Iterable[Fault] = (), max_public_bytes: int = 1_000_000) -> None:
        self._turns = turns
        self._faults = iter(faults)
        self._max_public_bytes = max_public_bytes
        self._kept: dict[RunId, _Kept] = {}

    @property
    def last_revision(self) -> int:
        return max((kept.revision for kept in self._kept.values()), default=0)

    async def load(self, run_id: RunId) -> LoadedSnapshot | None:
        await self._turns.give_way()
        return self.shown(run_id)

    def shown(self, run_id: RunId) -> LoadedSnapshot | None:
        """The stored snapshot, without waiting."""
        kept = self._kept.get(run_id)
        if kept is None:
            return None
        return LoadedSnapshot.read(kept.data, kept.revision)

    async def advance(
        self, execution: Execution, *, known: LoadedSnapshot | None = None, create: bool = False
    ) -> LoadedSnapshot | None:
        if next(self._faults, Fault.NONE) is Fault.WRITER_DIED:
            raise WriterDied
        run_id = execution.execution_id
        while True:
            current = known if known is not None else await self.load(run_id)
            if current is None and not create:
                return None
            if current is not None and current.execution.version >= execution.version:
                return current
            await self._turns.give_way()
            if self._replace(run_id, execution, current.revision if current else 0):
                return self.shown(run_id)
            known = None

    async def touch(self, run_id: RunId, heartbeat_at: float) -> LoadedSnapshot | None:
        loaded = await self.load(run_id)
        if loaded is not None:
            kept = self._kept[run_id]
            data = encode_snapshot(loaded.execution, self._max_public_bytes, heartbeat_at=heartbeat_at)
            self._kept[run_id] = _Kept(data=data, revision=kept.revision + 1)
        return loaded

    async def claim(self, known: LoadedSnapshot) -> bool:
        await self._turns.give_way()
        return self._replace(known.execution.execution_id, known.execution, known.revision)

    async def remove(self, run_id: RunId, revision: int | None = None) -> bool:
        kept = self._kept.get(run_id)
        if kept is None or revision not in (None, kept.revision):
            return False
        del self._kept[run_id]
        return True

    def _replace(self, run_id: RunId, execution: Execution, revision: int) -> bool:
        kept = self._kept.get(run_id)
        if (kept.revision if kept else 0) != revision:
            return False
        data = encode_snapshot(execution, self._max_public_bytes)
        self._kept[run_id] = _Kept(data=data, revision=revision + 1)
        return True
