"""Filters by submission time and by the beginning of ids, of every RunIndex; the in-memory one is the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.adapters.sqlite import blocks, listing
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.jobs import JobPage, JobQuery
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.domain.queries.rows import Change
from pyoco_server.ports import RunIndex
from support.indexes import A, B, C, D, at, opened, removed, run_ids, seen, take_in

IDS = [RunId(f"0190{n:04x}-{n:04x}-7000-8000-00000000000{n % 16:x}") for n in range(1200)]


@pytest.fixture(params=["memory", "sqlite"])
def index(request: pytest.FixtureRequest) -> Iterator[RunIndex]:
    with opened(request.param) as index:
        yield index


def job_ids(index: RunIndex, query: JobQuery) -> list[RunId]:
    """All pages of the list, to the end."""
    found: list[RunId] = []
    while True:
        page = index.jobs(query)
        found += [run.run_id for run in page.runs]
        if page.following is None:
            return found
        query = replace(query, before=page.following)


RANGES = [
    ({"submitted_after": 20.0}, [D, C, B]),
    ({"submitted_after": 20.5}, [D, C]),
    ({"submitted_before": 30.0}, [B, A]),
    ({"submitted_after": 20.0, "submitted_before": 40.0}, [C, B]),
    ({"submitted_after": 20.0, "submitted_before": 20.0}, []),
    ({"submitted_after": 90.0}, []),
    ({"id_prefix": "0190000"}, [D, C, B, A]),
    ({"id_prefix": "01900002"}, [C]),
    ({"id_prefix": "01900002-0000-7"}, [C]),
    ({"id_prefix": C}, [C]),
    ({"id_prefix": "02"}, []),
    ({"id_prefix": "0-19"}, []),
    ({"id_prefix": "019-0000"}, []),
    ({"id_prefix": "0190000", "submitted_after": 30.0}, [D, C]),
    ({"id_prefix": "01900001", "submitted_after": 30.0}, []),
]


@pytest.mark.parametrize("max_fetched", [blocks.MAX_FETCHED, 0])
@pytest.mark.parametrize(("ranges", "expected"), RANGES)
def test_every_given_range_applies_with_and_without_other_filters(
    index: RunIndex, ranges: dict[str, Any], expected: list[RunId], max_fetched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MAX_FETCHED", max_fetched)
    runs = {A: 10.0, B: 20.0, C: 30.0, D: 40.0}
    for n, (run_id, submitted_at) in enumerate(runs.items(), start=1):
        take_in(index, seen(n, run_id, submitted_at=submitted_at, tags=["even"] * (n % 2 == 0), flow_name=f"f{n % 2}"))

    even = [run_id for run_id in expected if run_id in (B, D)]
    assert run_ids(index, RunQuery(**ranges)) == expected
    assert run_ids(index, RunQuery(**ranges, flow="f0")) == even
    assert run_ids(index, RunQuery(**ranges, labels=("even",))) == even
    assert run_ids(index, RunQuery(**ranges, before=(103.0, C))) == [run for run in expected if run in (A, B)]
    assert run_ids(index, RunQuery(**ranges, updated_after=102.0)) == [run for run in expected if run in (C, D)]
    assert job_ids(index, JobQuery(**ranges)) == expected
    assert job_ids(index, JobQuery(**ranges, labels=("even",))) == even
    assert job_ids(index, JobQuery(**ranges, status=("PENDING",), before=D)) == [run for run in expected if run != D]
    assert [run.run_id for run in index.changed(RunQuery(**ranges), since=1, after="", upto=D)] == [
        run_id for run_id in reversed(expected) if run_id != A
    ]


def test_a_foreign_id_has_no_prefix(index: RunIndex) -> None:
    foreign = [RunId("0190-1"), RunId("00"), RunId(f"{A[:-1]}F")]
    take_in(index, *(seen(n + 1, run_id) for n, run_id in enumerate([*foreign, A])))

    assert run_ids(index, RunQuery(id_prefix="0190")) == job_ids(index, JobQuery(id_prefix="0190")) == [A]
    assert run_ids(index, RunQuery(id_prefix="0")) == [*job_ids(index, JobQuery(id_prefix="00")), A]


def test_a_run_with_another_submission_time_is_found_by_the_new_one(index: RunIndex) -> None:
    take_in(index, seen(1, A, submitted_at=10.0), seen(2, B, submitted_at=10.0))

    take_in(index, seen(3, A, submitted_at=70.0), seen(4, B, submitted_at=70.0, version=2, updated_at=102.0))

    assert run_ids(index, RunQuery(submitted_after=60.0, flow="main")) == [A, B]
    assert run_ids(index, RunQuery(submitted_before=60.0)) == []


def test_ranges_of_many_runs_are_read_within_the_bounds_of_their_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_FETCHED", 10)
    runs = [RunId(f"0190{n:04x}-0000-7000-8000-000000000000") for n in range(12_500)]
    read: list[int] = []

    def counting(reader: object, order: object, conditions: object, allowed: object, *, limit: object) -> object:
        found = in_order(reader, order, conditions, allowed, limit=None)  # type: ignore[arg-type]
        with found as rows:
            read.append(len(list(rows)))
        return in_order(reader, order, conditions, allowed, limit=limit)  # type: ignore[arg-type]

    in_order = listing.in_order
    with opened("sqlite") as index:
        changes = [seen(n + 1, run_id, submitted_at=float(n)) for n, run_id in enumerate(runs)]
        index.apply(changes, at(len(changes)))
        monkeypatch.setattr(listing, "in_order", counting)

        assert run_ids(index, RunQuery(submitted_after=100.0, submitted_before=4_000.0, limit=1)) == [runs[3_999]]
        assert run_ids(index, RunQuery(id_prefix="01900", limit=1)) == [runs[4_095]]
        page = index.jobs(JobQuery(submitted_after=100.0, submitted_before=4_000.0, labels=("none",)))

    assert read == [3_900, 4_096]
    assert page == JobPage(runs=[], following=None)


STATUSES = ("PENDING", "RUNNING", "COMPLETED")
FIELDS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(STATUSES),
        "updated_at": st.sampled_from([1.0, 2.0, 3.0]),
        "submitted_at": st.sampled_from([-1.0, 1.0, 2.0, 2.5]),
        "tags": st.lists(st.sampled_from(["x", "y"])),
        "flow_name": st.sampled_from(["f", "g"]),
    },
    optional={"archived_at": st.just(9.0), "tenant_id": st.sampled_from(["s", "t"])},
)
NIL, FOREIGN = RunId("00000000-0000-0000-0000-000000000000"), RunId("0190-x")
CHANGE = st.tuples(st.sampled_from([A, B, C, IDS[77], NIL, FOREIGN]), st.none() | FIELDS)
TIMES = st.none() | st.sampled_from([-2.0, 1.0, 1.5, 2.5, 3.0])
PREFIXES = st.none() | st.sampled_from(
    ["0", "0190", "01900001", "0190-", "01900002-0000-7000-8000-000000000000", "00", "f"]
)


@given(
    history=st.lists(CHANGE, min_size=1, max_size=20),
    after=TIMES,
    before=TIMES,
    id_prefix=PREFIXES,
    batch=st.integers(1, 6),
    max_fetched=st.sampled_from([0, 1, 1000]),
    fetch_cost=st.sampled_from([0, 5, 10_000]),
)
def test_ranges_agree_with_the_reference(
    history: Sequence[tuple[RunId, dict[str, object] | None]],
    after: float | None,
    before: float | None,
    id_prefix: str | None,
    batch: int,
    max_fetched: int,
    fetch_cost: int,
) -> None:
    changes: list[Change] = [
        removed(n, run_id) if fields is None else seen(n, run_id, **fields)
        for n, (run_id, fields) in enumerate(history, start=1)
    ]
    ranges: dict[str, Any] = {"submitted_after": after, "submitted_before": before, "id_prefix": id_prefix}
    filters: list[dict[str, Any]] = [
        {},
        {"limit": 1},
        {"labels": ("x",)},
        {"flow": "f", "status": "RUNNING"},
        {"tenant_id": "t"},
    ]
    runs = [RunQuery(**ranges, **others) for others in filters]
    jobs = [
        JobQuery(**ranges, labels=labels, status=status, limit=limit)
        for labels, status, limit in product([(), ("x",)], [(), ("RUNNING", "COMPLETED")], [1, 9])
    ]
    tuned = patch.object(listing, "FETCH_COST", fetch_cost)
    with (
        opened("memory") as memory,
        opened("sqlite") as sqlite,
        patch.object(blocks, "MAX_FETCHED", max_fetched),
        tuned,
    ):
        for first in range(0, len(changes), batch):
            some = changes[first : first + batch]
            for index in (memory, sqlite):
                index.apply(some, at(some[-1].revision))

        assert [sqlite.rows(query) for query in runs] == [memory.rows(query) for query in runs]
        assert [job_ids(sqlite, query) for query in jobs] == [job_ids(memory, query) for query in jobs]
