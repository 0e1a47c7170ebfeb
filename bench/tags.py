"""The run index with twenty tags per job: write rate, file size and time per page.

Without HTTP and broker, which cost the same for every query. The data is made up and always the same.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random

from bench.fill import StoredRun
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.jobs import JobQuery, LabelQuery
from pyoco_server.domain.queries.query import IndexPosition, SnapshotSeen
from pyoco_server.domain.queries.rows import change_of

TAGS_EACH = 20
VOCABULARY = 20_000
BATCH = 500
# Zipf distribution: the n-th tag has an n-th of the jobs of the first, which most jobs have.
_WEIGHTS = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
_TAGS = [f"tag-{rank:05}" for rank in range(1, VOCABULARY + 1)]

QUERIES = {
    "common": JobQuery(labels=("tag-00001",)),
    "rare": JobQuery(labels=("tag-09000",)),
    "often": JobQuery(labels=("tag-00001", "tag-00002")),
    "seldom": JobQuery(labels=("tag-00040", "tag-00060")),
    "never": JobQuery(labels=("half:0", "half:1")),
    "eight": JobQuery(labels=tuple(_TAGS[:8])),
    "status": JobQuery(labels=("tag-00001",), status=("FAILED",)),
    "rare_status": JobQuery(labels=("tag-00500",), status=("FAILED",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Rows per second of processor time, which other programs do not affect, and the size of the file."""

    per_sec: float
    file_bytes: int


def opened(folder: Path, name: str) -> SqliteRunIndex:
    return SqliteRunIndex.open(folder / f"{name}.sqlite")


def tagged(number: int) -> tuple[str, ...]:
    """The tags of a job: the same for a number each time."""
    drawn = Random(number).choices(_TAGS, cum_weights=_WEIGHTS, k=3 * TAGS_EACH)
    return (f"half:{number % 2}", *list(dict.fromkeys(drawn))[: TAGS_EACH - 1])


def plainly(_: int) -> tuple[str, ...]:
    """The labels of a run submitted without labels."""
    return ("default",)


def fill(index: SqliteRunIndex, count: int, labels: Callable[[int], tuple[str, ...]]) -> Taken:
    """Finished runs into an empty index."""
    spent = _take_in(index, range(count), labels, version=1)
    return Taken(per_sec=count / spent, file_bytes=index.path.stat().st_size)


def go_on(index: SqliteRunIndex, count: int, labels: Callable[[int], tuple[str, ...]]) -> float:
    """Changes of status per second, one of each of the oldest runs."""
    return count / _take_in(index, range(count), labels, version=2, status="RUNNING")


def beside_no_filter(index: SqliteRunIndex, query: JobQuery, *, count: int) -> float:
    """The time of a page relative to one without a filter."""
    return _beside_a_page(index, lambda: index.jobs(query), count)


def labels_beside_no_filter(index: SqliteRunIndex, *, count: int) -> float:
    """The same for a hundred tags with a prefix."""
    return _beside_a_page(index, lambda: index.labels(LabelQuery(prefix="tag-1")), count)


def page_ms(index: SqliteRunIndex, query: JobQuery, *, count: int) -> float:
    return statistics.median(_timed_ms(lambda: index.jobs(query)) for _ in range(count))


def slowest_ms(index: SqliteRunIndex, query: JobQuery) -> float:
    """The slowest page of the whole list."""
    taken: list[float] = []
    following: str | None = ""
    while following is not None:
        began = time.perf_counter()
        following = index.jobs(replace(query, before=following or None)).following
        taken.append((time.perf_counter() - began) * 1000)
    return max(taken)


def by_ranges(count: int) -> dict[str, JobQuery]:
    """Lists by submission time and by the beginning of an id, around the middle of the history."""
    middle = StoredRun.numbered(count // 2)
    return {
        "since": JobQuery(submitted_after=middle.at),
        "until": JobQuery(submitted_before=middle.at),
        "minutes": JobQuery(submitted_after=middle.at, submitted_before=middle.at + 120),
        "seconds": JobQuery(submitted_after=middle.at, submitted_before=middle.at + 2),
        "failed": JobQuery(submitted_after=middle.at, submitted_before=middle.at + 120, status=("FAILED",)),
        "prefix": JobQuery(id_prefix=middle.run_id[:13]),
    }


def half_way_down(query: JobQuery, count: int) -> JobQuery:
    return replace(query, before=StoredRun.numbered(count // 2).run_id)


def _take_in(
    index: SqliteRunIndex,
    numbers: range,
    labels: Callable[[int], tuple[str, ...]],
    *,
    version: int,
    status: str | None = None,
) -> float:
    """Returns seconds of processor time."""
    spent = 0.0
    known = index.position()
    sequence = known.sequence if known else 0
    for first in range(0, len(numbers), BATCH):
        some = numbers[first : first + BATCH]
        changes = [
            change_of(SnapshotSeen(sequence=sequence + nth, run_id=RunId(run.run_id), plain=plain))
            for nth, (run, plain) in enumerate(_snapshots(some, labels, version, status), start=1)
        ]
        sequence += len(changes)
        began = time.process_time()
        index.apply(changes, IndexPosition(stream_created="", sequence=sequence, last_key=""))
        spent += time.process_time() - began
    return spent


def _beside_a_page(index: SqliteRunIndex, act: Callable[[], object], count: int) -> float:
    # In turn, so that other load affects both.
    pairs = [(_timed_ms(lambda: index.jobs(JobQuery())), _timed_ms(act)) for _ in range(count)]
    plain_ms, other_ms = (statistics.median(pair[nth] for pair in pairs) for nth in (0, 1))
    return other_ms / plain_ms


def _timed_ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def _snapshots(
    numbers: Sequence[int], labels: Callable[[int], tuple[str, ...]], version: int, status: str | None
) -> Iterator[tuple[StoredRun, dict[str, object]]]:
    for number in numbers:
        run = StoredRun.numbered(number)
        yield run, snapshot_of(run, labels(number), version=version, status=status)


def snapshot_of(
    run: StoredRun,
    labels: Sequence[str],
    *,
    version: int,
    status: str | None = None,
    waited: float = 0.0,
    took: float = 0.01,
) -> dict[str, object]:
    """The snapshot of a finished run; times in seconds."""
    return {
        "run_id": run.run_id,
        "flow_name": run.flow_name,
        "status": status or run.status,
        "params": {"x": 1},
        "tasks": {"only": "SUCCEEDED"},
        "task_records": {},
        "task_records_truncated": False,
        "state": {"status": "COMPLETED", "nodes": [[4, 1]]},
        "tag": run.tag,
        "tags": list(labels),
        "worker_id": "filler",
        "submitted_at": run.at,
        "start_time": run.at + waited,
        "end_time": run.at + waited + took,
        "heartbeat_at": run.at + waited + took,
        "updated_at": run.at + version,
        "attempt": 1,
        "version": version,
    }
