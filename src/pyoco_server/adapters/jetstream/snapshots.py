"""Snapshots in a bucket, moved forward by compare-and-set; never back, and never back to life."""

from __future__ import annotations

import logging

import orjson

from pyoco_server.adapters.jetstream.bucket import Bucket, is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.reads import StoredMessage
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.snapshot import encode_snapshot
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import AppendConflict, RequestTooLarge, SnapshotTooLarge
from pyoco_server.ports import LoadedSnapshot

logger = logging.getLogger(__name__)

# Each lost race means that somebody else moved the snapshot on; so many in a row mean that something is wrong.
MAX_RACES = 20


class JetStreamSnapshots:
    """SnapshotStore. The key's revision is the sequence of its message."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._subjects = Subjects(config)
        self._bucket = Bucket(connection, self._subjects.runs_stream, facts)
        self._max_bytes = config.max_run_snapshot_bytes
        self._last_revision = 0

    @property
    def last_revision(self) -> int:
        return self._last_revision

    async def load(self, run_id: RunId) -> LoadedSnapshot | None:
        message = await self._bucket.get(self._subjects.run_key(run_id))
        return None if message is None else _decode(message)

    async def advance(
        self, execution: Execution, *, known: LoadedSnapshot | None = None, create: bool = False
    ) -> LoadedSnapshot | None:
        run_id = execution.execution_id
        if known is None and not create:
            known = await self.load(run_id)
            if known is None:
                return None
        for _ in range(MAX_RACES):
            if known is not None and known.execution.version >= execution.version:
                return known
            stored = await self._put(execution, known)
            if stored is not None:
                return stored
            known = await self.load(run_id)
            if known is None:
                return None  # removed, by retention or because its submit was undone: it stays removed
        raise AppendConflict(run_id=run_id)

    async def touch(self, run_id: RunId, heartbeat_at: float) -> LoadedSnapshot | None:
        known = await self.load(run_id)
        if known is None or known.heartbeat_at >= heartbeat_at:
            return known
        plain = {**known.plain, "heartbeat_at": heartbeat_at}
        stored = await self._store(known.execution, orjson.dumps(plain), heartbeat_at, revision=known.revision)
        return known if stored is None else stored

    async def claim(self, known: LoadedSnapshot) -> bool:
        stored = await self._store(known.execution, known.value, known.heartbeat_at, revision=known.revision)
        return stored is not None

    async def remove(self, run_id: RunId, revision: int | None = None) -> bool:
        key = self._subjects.run_key(run_id)
        marker = await self._bucket.purge(key, revision=revision)
        if marker is not None:
            self._last_revision = max(self._last_revision, marker)
            return True
        return await self.load(run_id) is None  # gone already, perhaps by a try of ours whose ack was lost

    async def _put(self, execution: Execution, known: LoadedSnapshot | None) -> LoadedSnapshot | None:
        heartbeat_at = max(execution.updated_at, known.heartbeat_at if known else 0.0)
        value = encode_snapshot(execution, self._max_bytes, heartbeat_at=heartbeat_at)
        return await self._store(execution, value, heartbeat_at, revision=known.revision if known else 0)

    async def _store(
        self, execution: Execution, value: bytes, heartbeat_at: float, *, revision: int
    ) -> LoadedSnapshot | None:
        run_id = execution.execution_id
        try:
            stored = await self._bucket.put(self._subjects.run_key(run_id), value, revision=revision)
        except RequestTooLarge as error:
            raise SnapshotTooLarge(f"the snapshot has {len(value)} bytes", run_id=run_id) from error
        if stored is None:
            return None
        self._last_revision = max(self._last_revision, stored)
        return LoadedSnapshot(execution=execution, revision=stored, heartbeat_at=heartbeat_at, value=value)


def _decode(message: StoredMessage) -> LoadedSnapshot | None:
    if is_marker(message):
        return None
    try:
        return LoadedSnapshot.read(message.data, message.sequence)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Somebody else's, or an older program's: what we cannot read we neither show nor overwrite.
        facts = {"subject": message.subject, "error": f"{type(error).__name__}: {error}"}
        logger.warning("snapshot cannot be read", extra=facts)
        return None
