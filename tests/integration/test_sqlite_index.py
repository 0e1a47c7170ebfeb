"""A damaged SQLite file never prevents the start of a gateway, and never returns part of a batch."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest

from pyoco_server.adapters.sqlite.files import RUN_SCHEMA
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.errors import IndexUnavailable
from support.effort import LONG
from support.indexes import at, removed, row, run_ids, take_in

SOURCES = (Path(__file__).parents[2] / "src", Path(__file__).parents[1])
A, B = RunId("run-a"), RunId("run-b")


def fill(index: SqliteRunIndex, sequence: int, *run_ids: RunId) -> None:
    take_in(index, *(row(sequence + n, run_id, version=sequence + n) for n, run_id in enumerate(run_ids)))


@contextmanager
def kept(path: Path, *run_ids: RunId) -> Iterator[None]:
    """A closed file with these runs in it."""
    with closing(SqliteRunIndex.open(path)) as index:
        fill(index, 1, *run_ids)
        index.set_mark("commits", 7)
    yield


def test_a_closed_file_is_reused(tmp_path: Path) -> None:
    path = tmp_path / "data" / "runs.db"
    with kept(path, A, B), closing(SqliteRunIndex.open(path)) as index:
        assert index.path == path
        assert sorted(run_ids(index)) == [A, B]
        assert index.position() == at(2, B)
        assert index.mark("commits") == 7


def garbage(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.with_name("runs.db-wal").write_bytes(content)


def other_schema(path: Path, version: int) -> None:
    with kept(path, A), closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {version}")


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "folder": Path.mkdir,
    "empty": lambda path: garbage(path, b""),
    "zeros": lambda path: garbage(path, b"\0" * 10),
    "text": lambda path: garbage(path, b"no database, but long enough for a header of one hundred bytes " * 9),
    "header": lambda path: garbage(path, b"SQLite format 3\0"),
    "newer schema": lambda path: other_schema(path, RUN_SCHEMA.version + 1),
    "no schema": lambda path: other_schema(path, 0),
}


@pytest.mark.parametrize("existing", [False, True])
def test_files_are_readable_by_this_user_only(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "data" / "runs.db"
    if existing:
        with kept(path, A):
            for file in path.parent.iterdir():
                file.chmod(0o644)
    before = os.umask(0)
    try:
        with closing(SqliteRunIndex.open(path)) as index:
            fill(index, 2, B)

            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(before)

    assert modes.keys() > {"runs.db", "runs.db-wal", "runs.db-shm", "runs.db.lock"}
    assert set(modes.values()) == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", UNUSABLE)
def test_an_unusable_file_is_replaced_by_an_empty_one(tmp_path: Path, how: str) -> None:
    path = tmp_path / "runs.db"
    UNUSABLE[how](path)

    with closing(SqliteRunIndex.open(path)) as index:
        assert index.position() is None
        fill(index, 1, A)
        assert run_ids(index) == [A]


RUNS = [RunId(f"run-{n:04}") for n in range(600)]
EVERY = RunQuery(limit=1000)


def stopped(path: Path) -> None:
    with kept(path, *RUNS):
        pass


def killed(path: Path) -> None:
    """The file as a killed process leaves it: with a part of the changes in the log."""
    index = SqliteRunIndex.open(path)
    fill(index, 1, *RUNS)
    index._file._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    take_in(index, row(1000, RUNS[0], version=1000, tags=["changed"]))
    left = {name: path.with_name(path.name + name).read_bytes() for name in ("", "-wal")}
    index.close()
    path.with_name(path.name + "-seal").unlink()
    for name, content in left.items():
        path.with_name(path.name + name).write_bytes(content)


def damage(path: Path, chance: Random) -> None:
    """Flips bytes of the file, of its log or of its seal, or cuts one of them off."""
    files = [path.with_name(path.name + name) for name in ("", "", "", "-wal", "-seal")]
    chosen = chance.choice([file for file in files if file.exists() and file.stat().st_size])
    content = bytearray(chosen.read_bytes())
    if chance.random() < 0.2:
        del content[chance.randrange(len(content)) :]
    else:
        for _ in range(chance.choice([1, 1, 3, 50])):
            content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    chosen.write_bytes(content)


SEEDS = range(150 if LONG else 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_damage_to_a_closed_file_is_detected_at_the_start(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "runs.db"
    stopped(path)
    damage(path, Random(seed))

    with closing(SqliteRunIndex.open(path)) as index:
        assert index.position() is None
        assert index.rows(EVERY) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_file_of_a_killed_process_shows_no_wrong_run(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "runs.db"
    killed(path)
    with closing(SqliteRunIndex.open(path)) as index:
        after_the_log = index.rows(EVERY)
    stopped(path.with_name("other.db"))
    with closing(SqliteRunIndex.open(path.with_name("other.db"))) as index:
        before_the_log = index.rows(EVERY)
    killed(path)
    damage(path, Random(seed))

    with closing(SqliteRunIndex.open(path)) as index:
        try:
            found, position = index.rows(EVERY), index.position()
        except IndexUnavailable:
            found, position = index.rows(EVERY) if index.position() else [], None

    # The indexer continues from the position, or starts again without one.
    expected = {None: [], 1000: after_the_log, 600: before_the_log}
    assert found == expected[position.sequence if position else None]


def test_damage_at_work_is_detected_and_the_file_can_be_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with kept(path, *(RunId(f"run-{n}") for n in range(2000))), closing(SqliteRunIndex.open(path)) as index:
        with path.open("r+b") as file:
            middle = path.stat().st_size // 2
            file.seek(middle)
            file.write(os.urandom(middle))

        with pytest.raises(IndexUnavailable, match="malformed"):
            run_ids(index, RunQuery(limit=200))
        with pytest.raises(IndexUnavailable):
            fill(index, 3000, A)
        assert index.position() is None

        index.reset()

        fill(index, 1, B)
        assert run_ids(index) == [B]


def test_a_changed_summary_is_neither_sent_nor_built_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for write in (True, False):
        with kept(path, A), closing(SqliteRunIndex.open(path)) as index:
            path.write_bytes(path.read_bytes().replace(b'"flow_name":"main"', b'"flow_name":"mbin"'))

            with pytest.raises(IndexUnavailable, match="checksum"):
                fill(index, 7, A) if write else run_ids(index)


def test_a_second_user_of_the_file_gets_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SqliteRunIndex.open(path)) as first, closing(SqliteRunIndex.open(path)) as second:
        fill(first, 1, A)
        fill(second, 1, B)

        assert (first.path.name, second.path.name) == ("runs.db", "runs-2.db")
        assert (run_ids(first), run_ids(second)) == ([A], [B])

    with closing(SqliteRunIndex.open(path)) as again:
        assert run_ids(again) == [A]


def test_a_file_of_another_process_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with writer_process(path) as writer, closing(SqliteRunIndex.open(path)) as mine:
        assert mine.path.name == "runs-2.db"
        assert writer.poll() is None


def test_a_folder_that_cannot_be_written_does_not_stop_the_gateway(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")

    with closing(SqliteRunIndex.open(tmp_path / "data" / "runs.db")) as index:
        fill(index, 1, A)
        assert run_ids(index) == [A]
        folder = index.path.parent

    assert not folder.exists()


def test_lists_are_answered_while_another_thread_writes(tmp_path: Path) -> None:
    with closing(SqliteRunIndex.open(tmp_path / "runs.db")) as index:
        fill(index, 1, *(RunId(f"run-{n}") for n in range(100)))
        wrote = threading.Event()

        def write() -> None:
            for n in range(60):
                status = ("RUNNING", "PENDING")[n % 2]
                sequence = 1000 + 100 * n
                rows = [row(sequence + m, RunId(f"run-{m}"), status=status, version=sequence) for m in range(100)]
                take_in(index, *rows)
            wrote.set()

        thread = threading.Thread(target=write)
        thread.start()
        lengths = set()
        while not wrote.is_set():
            lengths.add(len(index.rows(RunQuery(limit=200))))
            lengths.add(sum(index.counts().values()))
        thread.join()

    assert lengths == {100}


def test_posting_lists_end_with_their_last_run_and_do_not_depend_on_status(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SqliteRunIndex.open(path)) as index:
        take_in(index, row(1, A, tags=["x", "y"]), row(2, B, tags=["x", "y"]))
        stored = lists_of(path)

        statements: list[str] = []
        index._file._writer.set_trace_callback(statements.append)
        take_in(index, row(3, A, tags=["x", "y"], status="RUNNING"))
        index._file._writer.set_trace_callback(None)
        take_in(index, row(4, A, tags=["z"], status="RUNNING"), removed(5, B))

        assert stored == {"label:x": 2, "label:y": 2}
        assert any("UPDATE runs" in sql for sql in statements)
        assert not any("postings" in sql or "posting_lists" in sql for sql in statements)
        assert lists_of(path) == {"label:z": 1}


def test_lists_of_any_length_keep_their_members(tmp_path: Path) -> None:
    runs = [RunId(f"run-{n:05}") for n in range(9000)]
    with closing(SqliteRunIndex.open(tmp_path / "runs.db")) as index:
        for first in range(0, len(runs), 1000):
            labels = {
                n: [f"every-{step}" for step in (2, 63, 64, 4096) if n % step == 0] for n in range(first, first + 1000)
            }
            take_in(index, *(row(n + 1, runs[n], tags=labels[n]) for n in labels))

        for step in (2, 63, 64, 4096):
            found = run_ids(index, RunQuery(labels=(f"every-{step}",), limit=9000))
            assert found == runs[::step][::-1]
        assert run_ids(index, RunQuery(labels=("every-63", "every-64"), limit=9000)) == runs[:: 63 * 64][::-1]


def lists_of(path: Path) -> dict[str, int]:
    """The length of each posting list."""
    with closing(sqlite3.connect(path)) as other:
        lists = other.execute("SELECT list, term, runs FROM posting_lists").fetchall()
        blocks = {found for (found,) in other.execute("SELECT DISTINCT list FROM postings")}
        assert blocks == {found for found, _, _ in lists}
        return {term: runs for _, term, runs in lists}


WRITER = """
import sys
from pathlib import Path
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from support.effort import LONG
from support.indexes import row, take_in

index = SqliteRunIndex.open(Path(sys.argv[1]))
statuses = ("PENDING", "RUNNING", "COMPLETED", "FAILED")
sequence = 0
while True:
    batch = []
    for n in range(50):
        sequence += 1
        run_id = RunId(f"run-{(sequence * 7) % 3000}")
        fields = {"status": statuses[sequence % 4], "version": sequence, "updated_at": sequence, "tags": [f"l{n % 5}"]}
        batch.append(row(sequence, run_id, **fields))
    take_in(index, *batch)
    print(sequence, flush=True)
"""


@contextmanager
def writer_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes batches until it is killed; it has written at least one."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline().strip() == "50"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("batches", [1, 40, 90])
def test_a_writer_killed_in_the_middle_leaves_whole_batches(tmp_path: Path, batches: int) -> None:
    path = tmp_path / "runs.db"
    with writer_process(path) as writer:
        assert writer.stdout is not None
        reported = [int(writer.stdout.readline()) for _ in range(batches)][-1]

    with closing(SqliteRunIndex.open(path)) as index:
        position = index.position()
        rows = index.known([RunId(f"run-{n}") for n in range(3000)])
        counts = index.counts()

    assert position is not None
    assert position.sequence >= reported
    assert position.sequence % 50 == 0
    assert {run_id: version for run_id, (version, *_) in rows.items()} == {
        RunId(f"run-{(n * 7) % 3000}"): n for n in range(1, position.sequence + 1)
    }
    assert sum(counts.values()) == len(rows)
