"""Snapshots in memory: the same promises, kept by a dictionary; a removed key stays removed."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from pyoco_server.domain.execution.snapshot import encode_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import LoadedSnapshot
from pyoco_server.testing.stream import MemoryStream


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write of the bucket; no value: the key was removed."""

    run_id: RunId
    value: bytes | None


class MemorySnapshots:
    """SnapshotStore."""

    def __init__(self, max_run_snapshot_bytes: int = 262_144) -> None:
        self.stream: MemoryStream[Change] = MemoryStream()
        self._max_bytes = max_run_snapshot_bytes
        self._revisions: dict[RunId, int] = {}

    @property
    def last_revision(self) -> int:
        return self.stream.last_sequence

    async def load(self, run_id: RunId) -> LoadedSnapshot | None:
        revision = self._revisions.get(run_id, 0)
        change = self.stream.get(revision)
        if change is None or change.value is None:
            return None
        return LoadedSnapshot.read(change.value, revision)

    async def advance(
        self, execution: Execution, *, known: LoadedSnapshot | None = None, create: bool = False
    ) -> LoadedSnapshot | None:
        run_id = execution.execution_id
        stored = await self.load(run_id)
        if stored is None and (run_id in self._revisions or not create):
            return None
        if stored is not None and stored.execution.version >= execution.version:
            return stored
        heartbeat_at = stored.heartbeat_at if stored else None
        self._write(run_id, encode_snapshot(execution, self._max_bytes, heartbeat_at=heartbeat_at))
        return await self.load(run_id)

    async def touch(self, run_id: RunId, heartbeat_at: float) -> LoadedSnapshot | None:
        stored = await self.load(run_id)
        if stored is None or stored.heartbeat_at >= heartbeat_at:
            return stored
        self._write(run_id, orjson.dumps({**stored.plain, "heartbeat_at": heartbeat_at}))
        return await self.load(run_id)

    async def claim(self, known: LoadedSnapshot) -> bool:
        run_id = known.execution.execution_id
        if self._revisions.get(run_id) != known.revision:
            return False
        self._write(run_id, known.value)
        return True

    async def remove(self, run_id: RunId, revision: int | None = None) -> bool:
        stored = await self.load(run_id)
        if stored is not None and revision not in (None, stored.revision):
            return False
        self._write(run_id, None)
        return True

    def _write(self, run_id: RunId, value: bytes | None) -> None:
        self.stream.remove(self._revisions.get(run_id, 0))
        self._revisions[run_id] = self.stream.append(Change(run_id=run_id, value=value))
