"""The event log in memory: the same promises, kept by a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import Commit, StoredCommit
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import Conflict, Stored
from pyoco_server.testing.stream import MemoryStream


class MemoryEventLog:
    """EventLog. Commits are kept as bytes, so that what cannot be stored cannot be stored here either."""

    def __init__(self) -> None:
        self.stream: MemoryStream[RunId] = MemoryStream()
        self.on_stored: list[Callable[[RunId, int, bytes], None]] = []
        self._logs: dict[RunId, dict[int, bytes]] = {}

    async def append(self, run_id: RunId, commit: Commit, *, after: int) -> Stored | Conflict:
        log = self._logs.get(run_id, {})
        if max(log, default=0) != after:
            for stored in await self.read(run_id, after=after):
                if stored.commit.commit_id == commit.commit_id:
                    return Stored(version=stored.sequence, found=True)
            return Conflict()
        payload = codec.encode(run_id, commit)
        sequence = self.stream.append(run_id)
        self._logs.setdefault(run_id, {})[sequence] = payload
        for tell in self.on_stored:
            tell(run_id, sequence, payload)
        return Stored(version=sequence)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        found = [(sequence, payload) for sequence, payload in self._logs.get(run_id, {}).items() if sequence > after]
        return [StoredCommit(sequence=sequence, commit=codec.decode(payload)) for sequence, payload in found[:limit]]

    async def purge(self, run_id: RunId) -> None:
        for sequence in self._logs.pop(run_id, {}):
            self.stream.remove(sequence)
