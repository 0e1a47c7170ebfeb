"""The latest state of each run, a projection of its event log: versions only rise, removed snapshots stay removed."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import orjson

from pyoco_server.domain.execution.snapshot import encode_snapshot, from_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import AppendConflict, RequestTooLarge, SnapshotTooLarge
from pyoco_server.ports.broker import Entry, KeyValue, RevisionConflict, Stored

logger = logging.getLogger(__name__)

# Each conflict means that another writer moved the snapshot on; this many in a row mean that something is wrong.
MAX_RETRIES = 20
DEFAULT_MAX_BYTES = 262_144


class LoadedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as stored: the execution it shows, the revision to compare-and-set on, and the bytes."""

    execution: Execution
    revision: int
    heartbeat_at: float
    value: bytes

    @classmethod
    def read(cls, value: bytes, revision: int) -> LoadedSnapshot:
        plain = orjson.loads(value)
        return cls(execution=from_snapshot(plain), revision=revision, heartbeat_at=plain["heartbeat_at"], value=value)

    @property
    def plain(self) -> dict[str, Any]:
        """The stored JSON, parsed on each access: most holders of a snapshot never need it."""
        parsed: dict[str, Any] = orjson.loads(self.value)
        return parsed


class SnapshotStore:
    def __init__(self, bucket: KeyValue, *, max_run_snapshot_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._bucket = bucket
        self._max_bytes = max_run_snapshot_bytes
        self._last_revision = 0

    @property
    def last_revision(self) -> int:
        """The newest revision that this process has written; 0 before the first."""
        return self._last_revision

    async def load(self, run_id: RunId) -> LoadedSnapshot | None:
        return _decode(await self._bucket.get(run_id))

    async def advance(
        self, execution: Execution, *, known: LoadedSnapshot | None = None, create: bool = False
    ) -> LoadedSnapshot | None:
        """Make the snapshot show at least this version; an older version never replaces a newer one.

        Returns what is stored now, for the next call's `known`; None when the snapshot was removed. A current `known`
        saves a read. A missing snapshot is created only with `create` (a new run): otherwise retention has removed it.
        """
        run_id = execution.execution_id
        if known is None and not create:
            known = await self.load(run_id)
            if known is None:
                return None
        for _ in range(MAX_RETRIES):
            if known is not None and known.execution.version >= execution.version:
                return known
            heartbeat_at = max(execution.updated_at, known.heartbeat_at if known else 0.0)
            value = encode_snapshot(execution, self._max_bytes, heartbeat_at=heartbeat_at)
            stored = await self._put(execution, value, heartbeat_at, revision=known.revision if known else 0)
            if isinstance(stored, LoadedSnapshot):
                return stored
            known = _decode(stored.entry)
            if known is None:
                return None  # removed by retention or by an undone submit
        raise AppendConflict(run_id=run_id)

    async def touch(self, run_id: RunId, heartbeat_at: float) -> LoadedSnapshot | None:
        """Renew `heartbeat_at` and nothing else; a conflict or a missing snapshot changes nothing.

        Returns the snapshot as stored, or as read when another writer was faster.
        """
        known = await self.load(run_id)
        if known is None or known.heartbeat_at >= heartbeat_at:
            return known
        value = orjson.dumps({**known.plain, "heartbeat_at": heartbeat_at})
        stored = await self._put(known.execution, value, heartbeat_at, revision=known.revision)
        return stored if isinstance(stored, LoadedSnapshot) else known

    async def end(self, execution: Execution, *, known: LoadedSnapshot) -> bool:
        """Store an end that no event can tell any more, under the same version; False when another writer was first."""
        value = encode_snapshot(execution, self._max_bytes, heartbeat_at=known.heartbeat_at)
        return isinstance(
            await self._put(execution, value, known.heartbeat_at, revision=known.revision), LoadedSnapshot
        )

    async def claim(self, known: LoadedSnapshot) -> bool:
        """Store the same value under a new revision: of all callers that know this one, a single one gets True."""
        stored = await self._bucket.put(known.execution.execution_id, known.value, revision=known.revision)
        # All callers write equal values, so one that was found is not known to be ours.
        if not isinstance(stored, Stored) or stored.found:
            return False
        self._last_revision = max(self._last_revision, stored.version)
        return True

    async def remove(self, run_id: RunId, revision: int | None = None) -> bool:
        """Remove the snapshot (if it still has that revision); False when it was changed meanwhile."""
        removal = await self._bucket.purge(run_id, revision=revision)
        if removal is None:
            return await self.load(run_id) is None  # removed already, perhaps by an attempt of ours whose ack was lost
        self._last_revision = max(self._last_revision, removal)
        return True

    async def _put(
        self, execution: Execution, value: bytes, heartbeat_at: float, *, revision: int
    ) -> LoadedSnapshot | RevisionConflict:
        run_id = execution.execution_id
        try:
            stored = await self._bucket.put(run_id, value, revision=revision)
        except RequestTooLarge as error:
            raise SnapshotTooLarge(f"the snapshot has {len(value)} bytes", run_id=run_id) from error
        if isinstance(stored, RevisionConflict):
            return stored
        self._last_revision = max(self._last_revision, stored.version)
        return LoadedSnapshot(execution=execution, revision=stored.version, heartbeat_at=heartbeat_at, value=value)


def _decode(entry: Entry | None) -> LoadedSnapshot | None:
    if entry is None or entry.value is None:
        return None
    try:
        return LoadedSnapshot.read(entry.value, entry.revision)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # A foreign or older program's: neither shown nor overwritten.
        logger.warning("unreadable snapshot", extra={"run_id": entry.key, "error": f"{type(error).__name__}: {error}"})
        return None
