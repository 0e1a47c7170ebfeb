"""What is true of runs: their events, their snapshots, what they wrote, and word of it as it is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from pyoco_server.domain.execution.events import Commit, StoredCommit
from pyoco_server.domain.execution.snapshot import from_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.domain.run_logs.lines import LogChunk


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

    async def commit_stream(self) -> tuple[str, int]:
        """When the event stream was created, and its last sequence."""

    def commits(self, *, after: int) -> AsyncIterator[Sequence[LogSeen]]:
        """Batches of commits of all runs behind the sequence `after`, then live, for ever."""
