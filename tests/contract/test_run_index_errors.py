"""Search by error, and the length of lists, of every RunIndex; the in-memory one is the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.adapters.sqlite import listing
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.domain.queries.rows import MAX_ERROR_CHARS, Change
from pyoco_server.ports import RunIndex
from support.indexes import A, B, C, D, at, opened, removed, run_ids, seen, take_in


@pytest.fixture(params=["memory", "sqlite"])
def index(request: pytest.FixtureRequest) -> Iterator[RunIndex]:
    with opened(request.param) as index:
        yield index


def found(index: RunIndex, query: RunQuery) -> list[RunId]:
    """All pages of the search, to the end."""
    runs: list[RunId] = []
    while True:
        page = index.search(query)
        runs += [run.run_id for run in page.runs]
        if page.unread is None:
            return runs
        query = replace(query, before=page.unread)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("refused", [D, A]),
        ("CONNECTION", [A]),
        ("straße", [B]),
        ("STRASSE", [B]),
        ("接続", [B]),
        ("%", [D]),
        ("_", []),
        ("a\0b", [D]),
        ("r", [D, B, A]),
    ],
)
def test_a_text_is_found_in_any_case_and_as_it_is(index: RunIndex, text: str, expected: list[RunId]) -> None:
    errors = {A: "Connection refused", B: "接続エラー: Straße", C: None, D: "100 % refused: a\0b"}
    take_in(index, *(seen(n, run_id, error=error) for n, (run_id, error) in enumerate(errors.items(), start=1)))

    assert found(index, RunQuery(error=text)) == expected
    assert run_ids(index, RunQuery(error=text)) == expected
    assert [run.run_id for run in index.changed(RunQuery(error=text), since=1, after="", upto=D)] == [
        run_id for run_id in reversed(expected) if run_id != A
    ]


def test_what_a_list_shows_of_an_error_is_searched(index: RunIndex) -> None:
    take_in(index, seen(1, A, error="x" * (MAX_ERROR_CHARS - 3) + "end and more"))

    assert found(index, RunQuery(error="END")) == [A]
    assert found(index, RunQuery(error="and more")) == []


def test_a_run_is_found_by_its_present_error(index: RunIndex) -> None:
    take_in(index, seen(1, A, error="first"), seen(2, B, error="first"), seen(3, C))

    take_in(index, seen(4, A, error="second"), seen(5, B, error=None), seen(6, C, error="first"))

    assert found(index, RunQuery(error="first")) == [C]
    assert found(index, RunQuery(error="second")) == [A]


@pytest.mark.parametrize("limit", [1, 2, 200])
def test_a_page_reads_a_bounded_number_of_errors(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_SEARCHED", 3)
    runs = [RunId(f"0190{n:04x}-0000-7000-8000-000000000000") for n in range(10)]
    with opened("sqlite") as index:
        take_in(index, *(seen(n + 1, run, error="rare" if n == 0 else "common") for n, run in enumerate(runs)))

        pages = [index.search(RunQuery(error="rare", limit=limit, flow="main"))]
        while (unread := pages[-1].unread) is not None:
            pages.append(index.search(RunQuery(error="rare", limit=limit, before=unread)))
        of_another_flow = index.search(RunQuery(error="common", limit=limit, flow="other"))

    assert [[run.run_id for run in page.runs] for page in pages] == [[], [], [], [runs[0]]]
    assert of_another_flow.runs == []
    assert of_another_flow.unread == (108.0, runs[7])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RunQuery(limit=1), 3),
        (RunQuery(status="FAILED"), 1),
        (RunQuery(statuses=("FAILED", "PENDING")), 3),
        (RunQuery(status="RUNNING"), 0),
        (RunQuery(archived=True), 1),
        (RunQuery(tenant_id="t"), 1),
        (RunQuery(flow="main"), None),
        (RunQuery(tag="default"), None),
        (RunQuery(labels=("default",)), None),
        (RunQuery(error="x"), None),
        (RunQuery(updated_after=1.0), None),
        (RunQuery(submitted_after=1.0), None),
        (RunQuery(before=(1.0, A)), None),
        (RunQuery(workflow_yaml_sha256="a" * 64), None),
    ],
)
def test_lists_by_status_alone_have_a_known_length(index: RunIndex, query: RunQuery, expected: int | None) -> None:
    take_in(
        index,
        seen(1, A),
        seen(2, B, status="FAILED"),
        seen(3, C, archived_at=9.0),
        seen(4, D, tenant_id="t"),
        seen(5, A),
    )

    assert index.count(query) == expected


ERRORS = st.none() | st.sampled_from(["", "x", "Xy", "yz"])
FIELDS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["RUNNING", "FAILED"]),
        "updated_at": st.sampled_from([1.0, 2.0, 3.0]),
        "submitted_at": st.sampled_from([1.0, 2.0]),
        "tags": st.lists(st.sampled_from(["x", "y"])),
        "flow_name": st.sampled_from(["f", "g"]),
        "error": ERRORS,
    },
    optional={"archived_at": st.just(9.0), "tenant_id": st.sampled_from(["s", "t"])},
)
CHANGE = st.tuples(st.sampled_from([A, B, C, D]), st.none() | FIELDS)
FILTERS: list[dict[str, Any]] = [
    {},
    {"limit": 1},
    {"labels": ("x",)},
    {"flow": "f", "status": "FAILED"},
    {"tag": "default", "tenant_id": "t"},
    {"submitted_after": 2.0, "id_prefix": "01900"},
    {"updated_after": 1.0, "limit": 2},
    {"archived": True},
]


@given(
    history=st.lists(CHANGE, min_size=1, max_size=20),
    text=st.sampled_from(["x", "X", "y", "q"]),
    batch=st.integers(1, 6),
    most=st.sampled_from([1, 2, 2000]),
    fetch_cost=st.sampled_from([0, 10_000]),
)
def test_searches_agree_with_the_reference(
    history: Sequence[tuple[RunId, dict[str, object] | None]], text: str, batch: int, most: int, fetch_cost: int
) -> None:
    changes: list[Change] = [
        removed(n, run_id) if fields is None else seen(n, run_id, **fields)
        for n, (run_id, fields) in enumerate(history, start=1)
    ]
    queries = [RunQuery(error=text, **others) for others in FILTERS]
    tuned = patch.multiple(listing, MAX_SEARCHED=most, FETCH_COST=fetch_cost)
    with opened("memory") as memory, opened("sqlite") as sqlite, tuned:
        for first in range(0, len(changes), batch):
            some = changes[first : first + batch]
            for index in (memory, sqlite):
                index.apply(some, at(some[-1].revision))

        assert [found(sqlite, query) for query in queries] == [found(memory, query) for query in queries]
        assert [sqlite.rows(query) for query in queries] == [memory.rows(query) for query in queries]
