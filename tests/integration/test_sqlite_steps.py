"""Steps in SQLite: the rows that a change writes, and their removal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.execution.state import Node
from pyoco_server.domain.queries.steps import StepKind
from support.indexes import A, B, removed, seen, take_in
from support.steps import done, leased, ready, shown, waiting


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SqliteRunIndex]:
    with closing(SqliteRunIndex.open(tmp_path / "index.db")) as index:
        yield index


def rows_of(index: SqliteRunIndex, table: str) -> int:
    return int(index._file._reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def written_by(index: SqliteRunIndex, sequence: int, *nodes: Node) -> int:
    before = index._file._writer.total_changes
    take_in(index, shown(sequence, A, *nodes))
    return index._file._writer.total_changes - before


def test_only_a_changed_node_is_written(index: SqliteRunIndex) -> None:
    many = [ready(f"n{place}") for place in range(500)]
    one_more = written_by(index, 1, *many) - len(many)

    moved = written_by(index, 2, leased("n0", 50.0), *many[1:])
    renewed = written_by(index, 3, leased("n0", 60.0), *many[1:])
    ended = written_by(index, 4, done("n0"), *many[1:])

    assert max(moved, renewed, ended) < one_more + 10
    assert rows_of(index, "steps") == 499


def test_a_run_without_steps_writes_no_steps(index: SqliteRunIndex) -> None:
    statements: list[str] = []
    index._file._writer.set_trace_callback(statements.append)

    take_in(index, seen(1, A), seen(2, B, status="RUNNING"))
    take_in(index, seen(3, A, status="RUNNING"), seen(4, B, status="COMPLETED"))
    take_in(index, removed(5, A))

    assert any("INTO runs" in sql for sql in statements)
    assert not any("FROM steps" in sql or "INTO steps" in sql or "step_queues" in sql for sql in statements)


def test_a_step_queue_is_removed_with_its_last_step(index: SqliteRunIndex) -> None:
    take_in(index, shown(1, A, ready("a"), waiting("b")), shown(2, B, ready("a"), flow="f", tenant_id="acme"))
    assert rows_of(index, "step_queues") == 3

    take_in(index, shown(3, A, done("a"), waiting("b")), removed(4, B))

    assert (rows_of(index, "step_queues"), rows_of(index, "steps")) == (1, 1)


def test_steps_are_kept_in_a_reopened_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SqliteRunIndex.open(path)) as index:
        take_in(index, shown(1, A, ready("a"), leased("b", 50.0)))

    with closing(SqliteRunIndex.open(path)) as index:
        take_in(index, shown(2, A, done("a"), leased("b", 50.0)))

        assert index.claimable(["g"], tenant_id=None, now=0.0, limit=9) == []
        assert index.next_lease_end(["g"], tenant_id=None) == 50.0
        assert index.steps_count() == {StepKind.READY: 0, StepKind.LEASED: 1, StepKind.WAITING: 0}
