"""Both implementations of the index, and plain changes of a snapshot bucket as their input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import IndexPosition, RunQuery, SnapshotSeen
from pyoco_server.domain.queries.rows import Change, Removed, RunRow, change_of
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


def plain(**fields: Any) -> dict[str, Any]:
    """A readable snapshot of a PENDING run."""
    known = {
        "run_id": A,
        "status": "PENDING",
        "flow_name": "main",
        "tag": "default",
        "tags": ["default"],
        "params": {},
        "tasks": {},
        "task_records": {},
        "task_records_truncated": False,
        "submitted_at": 50.0,
        "start_time": None,
        "end_time": None,
        "updated_at": 100.0,
        "heartbeat_at": 100.0,
        "version": 1,
        "state": {"status": "ACTIVE", "nodes": []},
    }
    return known | fields


def row(sequence: int, run_id: RunId, **fields: Any) -> RunRow:
    change = change_of(SnapshotSeen(sequence=sequence, run_id=run_id, plain=plain(**fields)))
    assert isinstance(change, RunRow)
    return change


def seen(sequence: int, run_id: RunId, **fields: Any) -> RunRow:
    """The same with its own update time and version."""
    return row(sequence, run_id, **{"updated_at": 100.0 + sequence, "version": sequence} | fields)


def removed(sequence: int, run_id: RunId) -> Removed:
    return Removed(run_id=run_id, revision=sequence)


def at(sequence: int, last_key: str = "") -> IndexPosition:
    return IndexPosition(stream_created=STREAM, sequence=sequence, last_key=last_key)


def take_in(index: RunIndex, *changes: Change) -> None:
    index.apply(changes, at(max(change.revision for change in changes), changes[-1].run_id))


def run_ids(index: RunIndex, query: RunQuery | None = None) -> list[RunId]:
    return [run.run_id for run in index.rows(query or RunQuery())]


def summaries(index: RunIndex, query: RunQuery | None = None) -> list[dict[str, Any]]:
    return [orjson.loads(run.summary) for run in index.rows(query or RunQuery())]
