"""The time series of the run index: the processor time of a query, and what the counters cost in the file.

Without HTTP and broker. The data is made up and always the same: runs spread evenly over the longest range of the
dashboard, so that hardly two of them share a minute.
"""

import time
from dataclasses import replace
from random import Random

from bench.fill import StoredRun
from bench.tags import BATCH, plainly, snapshot_of
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import IndexPosition, SnapshotSeen
from pyoco_server.domain.queries.rows import change_of
from pyoco_server.domain.queries.stats import DAY, HOUR, MAX_POINTS, StatsQuery, figures, steps_of

WINDOWS_SEC = (HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY)
FILTERS: tuple[dict[str, str], ...] = ({}, {"flow": "flow_3"}, {"tag": "tag_2"}, {"tenant_id": ""})
UNTIL = 30 * DAY
_TRIES = 5


def fill(index: SqliteRunIndex, count: int) -> float:
    """Finished runs of the last thirty days into an empty index; returns KiB of the file per run."""
    drawn = Random(count)
    for first in range(0, count, BATCH):
        changes = []
        for number in range(first, min(first + BATCH, count)):
            run = replace(StoredRun.numbered(number), at=number * UNTIL / count)
            waited, took = drawn.lognormvariate(-2, 2), drawn.lognormvariate(1, 2)
            plain = snapshot_of(run, plainly(number), version=1, waited=waited, took=took)
            changes.append(change_of(SnapshotSeen(sequence=number + 1, run_id=RunId(run.run_id), plain=plain)))
        position = IndexPosition(stream_created="", sequence=first + len(changes), last_key="")
        index.apply(changes, position)
    return index.path.stat().st_size / count / 1024


def slowest_ms(index: SqliteRunIndex, points: int = MAX_POINTS) -> float:
    """Processor time of the slowest query: any window and filter."""
    return max(_query_ms(index, window, points, filters) for window in WINDOWS_SEC for filters in FILTERS)


def _query_ms(index: SqliteRunIndex, window_sec: int, points: int, filters: dict[str, str]) -> float:
    since, until, step_sec = steps_of(UNTIL - window_sec, UNTIL, points)
    query = StatsQuery(since=since, until=until, step_sec=step_sec, **filters)
    taken = []
    for _ in range(_TRIES):
        began = time.process_time()
        for counters in index.stats(query).points.values():
            figures(counters)
        taken.append((time.process_time() - began) * 1000)
    return min(taken)
