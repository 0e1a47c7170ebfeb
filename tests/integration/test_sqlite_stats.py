"""The time series in SQLite: what they leave behind, and what damage to them does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pyoco_server.adapters.sqlite import stats
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.stats import HOUR, MINUTE, StatsQuery
from pyoco_server.errors import IndexUnavailable
from support.indexes import removed, seen, take_in

QUERY = StatsQuery(since=0, until=HOUR, step_sec=MINUTE)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteRunIndex]:
    """Counts each batch at once."""
    monkeypatch.setattr(stats, "MAX_UNCOUNTED", 1)
    with closing(SqliteRunIndex.open(tmp_path / "runs.db")) as opened:
        yield opened


def count(index: SqliteRunIndex, table: str) -> int:
    with index._file.reading() as reader:
        return int(reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_removed_runs_leave_no_rows_behind(index: SqliteRunIndex) -> None:
    runs = [RunId(f"run-{nth}") for nth in range(20)]
    take_in(
        index, *(seen(nth, run, flow_name=f"flow-{nth}", submitted_at=60.0 * nth) for nth, run in enumerate(runs, 1))
    )
    # All runs; a tenant; a tag; and each flow.
    assert (count(index, "series"), count(index, "hours")) == (23, 23)

    take_in(index, *(removed(20 + nth, run) for nth, run in enumerate(runs, 1)))

    assert (count(index, "series"), count(index, "hours"), count(index, "uncounted")) == (0, 0, 0)


def test_changes_wait_until_there_are_many(index: SqliteRunIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "MAX_UNCOUNTED", 5)
    for nth in range(1, 8):
        take_in(index, seen(nth, RunId(f"run-{nth}"), submitted_at=60.0 * nth))

    assert (count(index, "hours"), count(index, "uncounted")) == (4, 2)
    assert sum(counters[0] for counters in index.stats(QUERY).points.values()) == 7


@pytest.mark.parametrize(
    "damage",
    ["SET counters = zeroblob(2000)", "SET minutes = x'00ff'", "SET minutes = x'000100', counters = x'04ffffffffff'"],
)
def test_damaged_counters_raise_nothing_but_index_unavailable(index: SqliteRunIndex, damage: str) -> None:
    take_in(index, seen(1, RunId("run-1"), submitted_at=60.0))
    with index._file.writing() as writer:
        writer.execute(f"UPDATE hours {damage}")

    for step_sec in (MINUTE, HOUR):
        try:
            index.stats(StatsQuery(since=0, until=HOUR, step_sec=step_sec))
        except IndexUnavailable:
            assert index.position() is None
            return
