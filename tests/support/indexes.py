"""Both kinds of index, and changes of a snapshot bucket to feed them with; plain examples, not edge cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import IndexPosition, SnapshotSeen
from pyoco_server.ports import RunIndex
from pyoco_server.testing.index import MemoryRunIndex

STREAM = "2024-05-01T00:00:00Z"
A, B, C, D = (RunId(f"0190000{n}-0000-7000-8000-000000000000") for n in range(4))


@contextmanager
def opened(kind: str) -> Iterator[RunIndex]:
    with TemporaryDirectory() as folder:
        index: RunIndex = MemoryRunIndex() if kind == "memory" else SqliteRunIndex.open(Path(folder) / "runs.db")
        try:
            yield index
        finally:
            index.close()


def seen(sequence: int, run_id: RunId, *, version: int | None = None, **fields: Any) -> SnapshotSeen:
    plain = {
        "run_id": run_id,
        "flow_name": "main",
        "status": "PENDING",
        "params": {},
        "tasks": {},
        "tag": "default",
        "tags": ["default"],
        "heartbeat_at": 100.0,
        "updated_at": 100.0 + sequence,
        "version": sequence if version is None else version,
    }
    return SnapshotSeen(sequence=sequence, run_id=run_id, plain=plain | fields)


def removed(sequence: int, run_id: RunId) -> SnapshotSeen:
    return SnapshotSeen(sequence=sequence, run_id=run_id, plain=None)


def at(sequence: int, last_key: str = "") -> IndexPosition:
    return IndexPosition(stream_created=STREAM, sequence=sequence, last_key=last_key)


def take_in(index: RunIndex, *changes: SnapshotSeen) -> None:
    index.apply(changes, at(max(change.sequence for change in changes), changes[-1].run_id))
