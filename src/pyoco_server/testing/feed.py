"""The feed in memory: follows the memory log and the memory snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import orjson

from pyoco_server.ports import LogSeen, SnapshotSeen
from pyoco_server.testing.event_log import MemoryEventLog
from pyoco_server.testing.snapshots import MemorySnapshots


class MemoryFeed:
    """Feed."""

    def __init__(self, log: MemoryEventLog, snapshots: MemorySnapshots) -> None:
        self._commits = log.stream
        self._snapshots = snapshots.stream
        self.commits_created = "1970-01-01T00:00:00Z"

    async def snapshot_stream(self) -> tuple[str, int]:
        return "1970-01-01T00:00:00Z", self._snapshots.last_sequence

    async def snapshot_key_at(self, sequence: int) -> str | None:
        change = self._snapshots.get(sequence)
        return None if change is None else change.run_id

    async def snapshots(self, *, after: int) -> AsyncIterator[Sequence[SnapshotSeen]]:
        async with aclosing(self._snapshots.follow(after)) as batches:
            async for batch in batches:
                yield [
                    SnapshotSeen(
                        sequence=sequence,
                        run_id=change.run_id,
                        plain=None if change.value is None else orjson.loads(change.value),
                    )
                    for sequence, change in batch
                ]

    async def commit_stream(self) -> tuple[str, int]:
        return self.commits_created, self._commits.last_sequence

    async def commits(self, *, after: int) -> AsyncIterator[Sequence[LogSeen]]:
        async with aclosing(self._commits.follow(after)) as batches:
            async for batch in batches:
                yield [LogSeen(sequence=sequence, run_id=run_id) for sequence, run_id in batch]
