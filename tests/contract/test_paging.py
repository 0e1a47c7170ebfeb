"""Paging while runs change: unchanged runs are listed once, and changed runs are not lost.

Every page comes from a different index, one of which is rebuilt in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.cursors import Place, Tail, Walk, decode, encode
from pyoco_server.domain.queries.query import IndexPosition, RunQuery
from pyoco_server.domain.queries.rows import Change, RunRow
from pyoco_server.ports import RunIndex
from pyoco_server.services.projections.paging import page
from pyoco_server.testing.index import MemoryRunIndex, matches
from support.indexes import removed, row

RUNS = [RunId(f"0190000{n}-0000-7000-8000-000000000000") for n in range(8)]
QUERIES = [RunQuery(), RunQuery(status="RUNNING"), RunQuery(labels=("x",)), RunQuery(updated_after=1.0, flow="f")]
QUERIES += [RunQuery(error="no")]
QUERIES += [RunQuery(submitted_after=50.0, submitted_before=51.0), RunQuery(id_prefix="0190000", status="RUNNING")]
FIELDS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["PENDING", "RUNNING"]),
        "updated_at": st.sampled_from([1.0, 2.0, 3.0, 4.0]),
        "tags": st.lists(st.sampled_from(["x", "y"]), unique=True),
        "flow_name": st.sampled_from(["f", "g"]),
        "error": st.none() | st.sampled_from(["No", "yes"]),
    }
)
# A change, a removal (None) or a heartbeat (False) of a run.
CHANGES = st.lists(st.tuples(st.sampled_from(RUNS), FIELDS | st.none() | st.just(False)), max_size=5)


class Bucket:
    """The snapshot bucket of the test: the last state of each run, its sequence, and the followers."""

    def __init__(self, *followers: RunIndex) -> None:
        self.followers = list(followers)
        self.sequence = 0
        self.last: dict[RunId, Change] = {}

    def take(self, changes: Sequence[tuple[RunId, Any]]) -> None:
        seen = []
        for run_id, change in changes:
            old = self.last.get(run_id)
            if change is False and not isinstance(old, RunRow):
                continue
            self.sequence += 1
            if change is None:
                self.last[run_id] = removed(self.sequence, run_id)
            elif isinstance(old, RunRow) and change is False:
                self.last[run_id] = replace(old, revision=self.sequence)
            else:
                self.last[run_id] = row(self.sequence, run_id, version=self.sequence, **change)
            seen.append(self.last[run_id])
        for index in self.followers:
            index.apply(seen, self.position)

    def rebuild(self, nth: int) -> None:
        """Replace a follower by one that has only the last states, as after a restart without its file."""
        self.followers[nth] = MemoryRunIndex()
        self.followers[nth].apply(list(self.last.values()), self.position)

    def fitting(self, query: RunQuery) -> dict[RunId, int]:
        """The runs that match the query now, and their versions."""
        rows = [change for change in self.last.values() if isinstance(change, RunRow)]
        return {row.run_id: row.version for row in rows if matches(row, query)}

    @property
    def position(self) -> IndexPosition:
        return IndexPosition(stream_created="s", sequence=self.sequence, last_key="")


@dataclass
class Reader:
    """A reader of all pages and the runs that it received; runs change between its pages."""

    bucket: Bucket
    query: RunQuery
    shown: list[tuple[RunId, int]] = field(default_factory=list)
    pages: int = 0
    fitted_when_the_walk_ended: dict[RunId, int] = field(default_factory=dict)
    fitted_always: set[RunId] = field(default_factory=set)

    def read(self, changes_between: Sequence[Any], *, rebuild_after: int) -> None:
        place: Place | None = Walk(mark=self.bucket.sequence)
        self.fitted_always = set(self.bucket.fitting(self.query))
        while place is not None:
            walking = isinstance(place, Walk)
            place = self._page(place)
            if walking and not isinstance(place, Walk):
                self.fitted_when_the_walk_ended = self.bucket.fitting(self.query)
            if place is not None:
                self.bucket.take(changes_between[self.pages] if self.pages < len(changes_between) else [])
                self.fitted_always &= set(self.bucket.fitting(self.query))
            self.pages += 1
            assert self.pages <= 3 * len(RUNS)
            if self.pages == rebuild_after:
                self.bucket.rebuild(0)

    def _page(self, place: Place) -> Place | None:
        # From each index in turn: a cursor must not depend on one of them.
        index = self.bucket.followers[self.pages % len(self.bucket.followers)]
        given_now = page(index, self.query, place)
        assert len(given_now.items) <= self.query.limit
        self.shown += [(run.run_id, orjson.loads(run.summary)["version"]) for run, _ in given_now.items]
        return given_now.next and decode(encode(given_now.next, self.query, "s"), self.query, "s")


@given(
    initial=FIELDS,
    some=CHANGES,
    changes_between=st.lists(CHANGES, max_size=8),
    query=st.sampled_from(QUERIES),
    limit=st.integers(1, 4),
    rebuild_after=st.integers(0, 6),
)
def test_unchanged_runs_are_listed_once_and_changed_runs_are_not_lost(
    initial: dict[str, Any], some: Any, changes_between: list[Any], query: RunQuery, limit: int, rebuild_after: int
) -> None:
    with TemporaryDirectory() as folder, closing(SqliteRunIndex.open(Path(folder) / "runs.db")) as sqlite:
        bucket = Bucket(MemoryRunIndex(), sqlite)
        bucket.take([*((run_id, initial) for run_id in RUNS[:6]), *some])
        at_first = bucket.fitting(query)
        reader = Reader(bucket, replace(query, limit=limit))

        reader.read(changes_between, rebuild_after=rebuild_after)

    between = [change for changes in changes_between[: reader.pages - 1] for change in changes]
    moved = {run_id for run_id, change in between if change is not False}
    alive = {run_id for run_id, change in between if change is False}
    times = Counter(run_id for run_id, _ in reader.shown)
    assert all(times[run_id] == 1 for run_id in at_first if run_id not in moved | alive)
    # An index that was rebuilt cannot tell a heartbeat from a change.
    assert all(1 <= times[run_id] <= 2 for run_id in at_first if run_id not in moved)
    for run_id in reader.fitted_always:
        shown_as = [version for shown, version in reader.shown if shown == run_id]
        assert max(shown_as) >= reader.fitted_when_the_walk_ended[run_id]


def test_a_shortened_page_continues_where_it_ended() -> None:
    bucket = Bucket(index := MemoryRunIndex())
    bucket.take([(run_id, {"updated_at": 1.0}) for run_id in RUNS[:4]])

    cut = page(index, RunQuery(limit=4), Walk(mark=bucket.sequence)).cut(2)

    assert [run.run_id for run, _ in cut.items] == [RUNS[3], RUNS[2]]
    assert cut.next is not None
    assert [run.run_id for run, _ in page(index, RunQuery(limit=4), cut.next).items] == [RUNS[1], RUNS[0]]


def test_a_full_last_page_has_a_next_page_only_after_a_change() -> None:
    bucket = Bucket(index := MemoryRunIndex())
    bucket.take([(RUNS[0], {"updated_at": 1.0}), (RUNS[1], {"updated_at": 2.0})])
    mark = bucket.sequence
    quiet = page(index, RunQuery(limit=2), Walk(mark=mark))

    bucket.take([(RUNS[2], {"updated_at": 3.0})])
    moved = page(index, RunQuery(limit=2), Walk(mark=mark, before=(3.0, RUNS[2])))

    assert quiet.next is None
    assert moved.next == Tail(mark=mark, after="", upto=RUNS[2])


def test_a_run_that_changes_during_its_page_is_listed_once() -> None:
    bucket = Bucket(MemoryRunIndex())
    bucket.take([(RUNS[0], {"status": "PENDING", "updated_at": 1.0})])
    before = bucket.sequence
    bucket.take([(RUNS[0], {"status": "RUNNING", "updated_at": 2.0})])

    shown = page(bucket.followers[0], RunQuery(), Walk(mark=before))

    assert [run.run_id for run, _ in shown.items] == [RUNS[0]]
    assert shown.next is None
