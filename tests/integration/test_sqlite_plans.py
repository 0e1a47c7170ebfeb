"""How SQLite reads lists and steps: through an index whose order is that of the list, never a whole table or a sort."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.adapters.sqlite import drawers_listing, listing, steps_listing
from pyoco_server.adapters.sqlite.drawers_listing import Stream
from pyoco_server.adapters.sqlite.migrate import start_empty
from pyoco_server.domain.queries.jobs import LabelQuery
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.domain.queries.steps import StepKind, WaitQuery
from support.indexes import A

SPANS = [
    RunQuery(),
    RunQuery(updated_after=5.0),
    RunQuery(before=(9.0, "run-9")),
    RunQuery(updated_after=5.0, before=(9.0, "run-9")),
]
FILTERS = [(None, None, "by_shelf"), ("f", None, "by_flow"), (None, "t", "by_tag"), ("f", "t", "by_tag")]
ABOVE = b"\xff" * 17
ONE, TWO = Stream(5, (1,)), Stream(9, (-1, -2))
DESKS = [(1, "f"), (2, "f"), (3, "g")]
SORTED = "USE TEMP B-TREE"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(start_empty(tmp_path / "runs.db")) as connection:
        yield connection


def plan(file: sqlite3.Connection, *statements: listing.Statement) -> list[str]:
    explained = [file.execute(f"EXPLAIN QUERY PLAN {each.sql}", each.params).fetchall() for each in statements]
    return [row[-1] for rows in explained for row in rows]


def reads(steps: list[str], table: str) -> set[str]:
    """How a table is read, in SQLite's words."""
    return {step.replace(f" {table} ", " ") for step in steps if f" {table} " in f"{step} "}


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(("flow", "tag", "index"), FILTERS)
def test_shelves_are_read_in_order_through_the_index_of_the_filter(
    file: sqlite3.Connection, flow: str | None, tag: str | None, index: str, span: RunQuery
) -> None:
    steps = plan(file, *listing.in_order(replace(span, flow=flow, tag=tag), [1, 2, 3]))

    read = reads(steps, "runs")
    assert len(read) == 1
    assert all(f"USING INDEX {index} (shelf=?" in step for step in read)
    assert all(("updated_at" in step) is (span != RunQuery()) for step in read)
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize("span", SPANS)
def test_cells_are_read_in_order(file: sqlite3.Connection, span: RunQuery) -> None:
    steps = plan(file, *listing.by_cells(replace(span, labels=("a", "b")), [(1, 1), (1, 2), (2, 1)]))

    assert all("USING INDEX by_family (family=? AND shelf=?" in step for step in reads(steps, "runs"))
    assert not any(SORTED in step for step in steps)


def test_families_are_found_from_the_rarest_term_on(file: sqlite3.Connection) -> None:
    query = RunQuery(labels=("a", "b", "c"), flow="f", tag="t")

    steps = plan(file, listing.families(query, query.terms))

    assert [step.split(" USING ")[0] for step in steps] == ["SEARCH t0", "SEARCH t1", "SEARCH t2", "SEARCH families"]
    assert all("(term=? AND family=?)" in step for step in steps[1:3])


def test_families_of_a_flow_and_a_tag_are_found_by_both(file: sqlite3.Connection) -> None:
    (step,) = plan(file, listing.families(RunQuery(flow="f", tag="t"), ()))

    assert "families_of_flow_and_tag (flow=? AND tag=?)" in step


@pytest.mark.parametrize(
    ("sort", "search"), [(True, "by_change (changed>?)"), (False, "by_id (run_id>? AND run_id<?)")]
)
def test_changes_are_found_by_their_sequence_or_by_the_id(file: sqlite3.Connection, sort: bool, search: str) -> None:
    query = RunQuery(labels=("a",), flow="f")

    steps = plan(file, *listing.changed(query, [1, 2], since=5, after="", upto="z", sort=sort))

    assert any(search in step for step in reads(steps, "runs"))
    assert any(SORTED in step for step in steps) is sort


@pytest.mark.parametrize(("tenant_id", "found"), [(None, "flow=?"), ("t", "flow=? AND tenant_id=?")])
def test_trays_to_claim_from_are_found_by_graph_and_tenant(
    file: sqlite3.Connection, tenant_id: str | None, found: str
) -> None:
    (step,) = plan(file, steps_listing.claimable_trays(StepKind.READY, ["f", "g"], tenant_id))

    assert f"(kind=? AND claimable=? AND {found})" in step


def test_ready_steps_are_read_by_id_and_never_sorted(file: sqlite3.Connection) -> None:
    steps = plan(file, *steps_listing.ready(DESKS, 1))

    read = reads(steps, "steps")
    assert len(read) == 1
    assert all("USING INDEX by_tray (tray=? AND at=?)" in step for step in read)
    assert not any(SORTED in step for step in steps)


def test_of_leases_only_the_ended_ones_are_looked_at_and_only_the_few_are_fetched(file: sqlite3.Connection) -> None:
    steps = plan(file, steps_listing.ended_leases(DESKS, 5.0, 1))

    looked, fetched = sorted(reads(steps, "steps"))
    assert "COVERING INDEX by_tray (tray=? AND at<?)" in looked
    assert "USING PRIMARY KEY (run=? AND place=?)" in fetched


def test_the_next_end_of_a_lease_is_the_first_entry_of_each_tray(file: sqlite3.Connection) -> None:
    steps = plan(file, steps_listing.first_lease_end(DESKS))

    (read,) = reads(steps, "steps")
    assert "COVERING INDEX by_tray (tray=?)" in read
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize(
    ("query", "found"),
    [(WaitQuery(), "(tray=?)"), (WaitQuery(after=(5.0, A, 0)), "(tray=? AND (at,run_id,place)>(?,?,?))")],
)
def test_waits_are_read_in_order_from_where_the_last_page_ended(
    file: sqlite3.Connection, query: WaitQuery, found: str
) -> None:
    steps = plan(file, *steps_listing.waiting(query, DESKS))

    assert all(f"USING INDEX by_tray {found}" in step for step in reads(steps, "steps"))
    assert not any(SORTED in step for step in steps)


def test_waits_of_a_run_are_found_by_the_run(file: sqlite3.Connection) -> None:
    steps = plan(file, steps_listing.waiting_of_run(WaitQuery(graph_id="g"), A))

    (read,) = reads(steps, "steps")
    assert "USING PRIMARY KEY (run=?)" in read


def test_what_is_over_is_read_by_its_time(file: sqlite3.Connection) -> None:
    steps = plan(file, steps_listing.over(5.0, 10))

    (read,) = reads(steps, "steps")
    assert "USING INDEX by_due (due_at<?)" in read
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize("drawers", [[1], [-1, -2, -3]])
def test_drawers_are_read_in_order_from_where_the_last_page_ended(file: sqlite3.Connection, drawers: list[int]) -> None:
    steps = plan(file, *drawers_listing.newest(drawers, below=ABOVE, limit=50))

    assert reads(steps, "postings") == {"SEARCH USING PRIMARY KEY (drawer=? AND run<?)"}
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize(("proposing", "asked"), [(ONE, TWO), (TWO, ONE)])
def test_a_stretch_is_read_in_order_and_the_others_are_asked_by_their_key(
    file: sqlite3.Connection, proposing: Stream, asked: Stream
) -> None:
    end = drawers_listing.stretch_end(proposing, below=ABOVE, length=9)
    met = drawers_listing.stretch(proposing, [asked, ONE], below=ABOVE, down_to=b"", limit=50)

    steps = plan(file, end, met)

    ends = {"SEARCH USING PRIMARY KEY (drawer=? AND run<?)", "SEARCH USING PRIMARY KEY (drawer=? AND run>? AND run<?)"}
    assert reads(steps, "postings") == ends
    assert reads(steps, "other0") == reads(steps, "other1") == {"SEARCH USING PRIMARY KEY (drawer=? AND run=?)"}
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize("query", [LabelQuery(), LabelQuery(prefix="team:"), LabelQuery(prefix="a", after="ab")])
@pytest.mark.parametrize(("tenant_id", "found"), [(None, "(label>?)"), ("t", "(tenant_id=? AND label>?)")])
def test_labels_are_read_in_order_from_the_prefix_on(
    file: sqlite3.Connection, query: LabelQuery, tenant_id: str | None, found: str
) -> None:
    steps = plan(file, drawers_listing.counted(replace(query, tenant_id=tenant_id)))

    (read,) = reads(steps, "drawers")
    assert found in read
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize(("tenant_id", "found"), [(None, "(label=?)"), ("t", "tenant_id=?")])
def test_drawers_of_labels_are_found_by_their_keys(file: sqlite3.Connection, tenant_id: str | None, found: str) -> None:
    steps = plan(file, drawers_listing.with_labels(["a", "b"], tenant_id))

    (read,) = reads(steps, "drawers")
    assert "SEARCH" in read
    assert "label=?" in read
    assert found in read


def test_the_runs_of_a_page_are_found_by_their_ids_and_stay_in_order(file: sqlite3.Connection) -> None:
    steps = plan(file, listing.Statement(sql=drawers_listing.LISTED, params=("[]",)))

    (read,) = reads(steps, "runs")
    assert "by_id (run_id=?)" in read
    assert not any(SORTED in step for step in steps)
