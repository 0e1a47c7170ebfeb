"""Query plans of SQLite: lists and steps are read through an index in list order, without table scans and sorts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from pyoco_server.adapters.sqlite import blocks, listing, posting_lists
from pyoco_server.adapters.sqlite import steps as steps_sql
from pyoco_server.adapters.sqlite.files import RUN_SCHEMA, start_empty
from pyoco_server.adapters.sqlite.listing import LAST_UPDATE_FIRST, NEWEST_ID_FIRST, Order, Partition, conditions_of
from pyoco_server.adapters.sqlite.posting_lists import Matches
from pyoco_server.domain.queries.jobs import JobQuery, LabelQuery
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.domain.queries.steps import WaitQuery
from support.indexes import A

SPANS = [
    RunQuery(),
    RunQuery(updated_after=5.0),
    RunQuery(before=(9.0, "run-9")),
    RunQuery(updated_after=5.0, before=(9.0, "run-9")),
]
FILTERS = [(None, None, "by_update"), ("f", None, "by_flow"), (None, "t", "by_tag"), ("f", "t", "by_flow_and_tag")]
PARTITIONS = [Partition(1, 5), Partition(2, 9), Partition(3, 1)]
QUEUES = [(kind, claimable, flow) for kind, claimable in (("ready", 1), ("leased", 1), ("waiting", 0)) for flow in "fg"]
SORTED = "USE TEMP B-TREE"
# The last statement of each list: the summaries, by number.
LISTED = {"SEARCH USING INTEGER PRIMARY KEY (rowid=?)"}
FEW = {
    f"SEARCH USING COVERING INDEX {columns}"
    for columns in (
        "by_submission (submitted_at>? AND submitted_at<?)",
        "by_submission (submitted_at>?)",
        "by_id (run_id>? AND run_id<?)",
    )
}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection, reader = start_empty(tmp_path / "runs.db", RUN_SCHEMA)
    with closing(connection), closing(reader):
        statuses = enumerate(("PENDING", "RUNNING"), start=1)
        connection.executemany("INSERT INTO partitions VALUES (?, ?, 't', 0, 5)", list(statuses))
        connection.executemany("INSERT INTO step_queues VALUES (NULL, ?, ?, ?, 't')", QUEUES)
        yield connection


def plan(file: sqlite3.Connection, call: Callable[[sqlite3.Connection], object]) -> list[str]:
    """How SQLite executes the statements of a call."""
    statements: list[str] = []
    file.set_trace_callback(statements.append)
    call(file)
    file.set_trace_callback(None)
    return [row[-1] for sql in statements for row in file.execute(f"EXPLAIN QUERY PLAN {sql}")]


def reads(steps: list[str], table: str) -> set[str]:
    """The access path of a table in EXPLAIN."""
    return {step.replace(f" {table} ", " ") for step in steps if f" {table} " in f"{step} "}


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(("flow", "tag", "index"), FILTERS)
def test_partitions_are_read_in_order_through_the_index_of_the_filter(
    file: sqlite3.Connection, flow: str | None, tag: str | None, index: str, span: RunQuery
) -> None:
    steps = plan(file, lambda reader: listing.runs(reader, replace(span, flow=flow, tag=tag)))

    read = reads(steps, "runs") - LISTED
    assert len(read) == 1
    assert all(f"USING COVERING INDEX {index} (partition=?" in step for step in read)
    assert all(("updated_at" in step) is (span != RunQuery()) for step in read)
    assert not any(SORTED in step for step in steps)


RANGES = RunQuery(submitted_after=1.0, submitted_before=9.0, id_prefix="0190")


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(("flow", "tag", "index"), FILTERS)
def test_ranges_of_many_runs_are_read_in_order_between_bounds_from_the_index_alone(
    file: sqlite3.Connection, flow: str | None, tag: str | None, index: str, span: RunQuery
) -> None:
    file.execute("INSERT INTO blocks VALUES (0, 1, 9, ?, ?, 1, 9)", (bytes(16), b"\xff" * 16))
    query = replace(RANGES, flow=flow, tag=tag, before=span.before, updated_after=span.updated_after)

    with patch.object(blocks, "MAX_FETCHED", -1):
        steps = plan(file, lambda reader: listing.runs(reader, query))
        of_jobs = plan(file, lambda reader: listing.jobs(reader, JobQuery(submitted_after=1.0, id_prefix="0190")))

    read = reads(steps, "runs") - LISTED - FEW
    assert len(read) == 1
    assert all(f"USING COVERING INDEX {index} (partition=?" in step for step in read)
    assert all("updated_at" in step for step in read)
    assert not any(SORTED in step for step in steps)
    assert reads(of_jobs, "runs") - LISTED - FEW == {
        "SEARCH USING COVERING INDEX by_key (partition=? AND run_key>? AND run_key<?)"
    }
    assert not any(SORTED in step for step in of_jobs)


@pytest.mark.parametrize("span", SPANS)
def test_errors_are_read_in_order_from_their_index_alone(file: sqlite3.Connection, span: RunQuery) -> None:
    query = replace(span, error="x", flow="f", tag="t")

    steps = plan(file, lambda reader: listing.search(reader, query))

    read = reads(steps, "runs") - LISTED
    assert len(read) == 1
    assert all("USING COVERING INDEX by_error (partition=?" in step for step in read)
    assert all(("updated_at" in step) is (span != RunQuery()) for step in read)
    assert not any(SORTED in step for step in steps)


def test_few_runs_of_a_range_are_found_by_the_index_of_the_range(file: sqlite3.Connection) -> None:
    assert reads(plan(file, lambda reader: list(blocks.few_within(reader, RANGES))), "runs") < FEW


@pytest.mark.parametrize("order", [LAST_UPDATE_FIRST, NEWEST_ID_FIRST])
def test_few_matches_are_fetched_by_their_numbers(file: sqlite3.Connection, order: Order) -> None:
    conditions, matches = conditions_of(RunQuery(flow="f")), Matches({0: 6})

    steps = plan(file, lambda reader: listing.fetched(reader, order, conditions, PARTITIONS, matches, limit=5))

    assert reads(steps, "runs") == {"SEARCH USING INTEGER PRIMARY KEY (rowid=?)"}


def test_jobs_are_read_in_order_from_the_end_of_the_last_page(file: sqlite3.Connection) -> None:
    steps = plan(file, lambda reader: listing.jobs(reader, JobQuery(before=A)))

    assert reads(steps, "runs") - LISTED == {"SEARCH USING COVERING INDEX by_key (partition=? AND run_key<?)"}
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize(("tag", "index"), [(None, "by_update"), ("t", "by_tag")])
def test_runs_of_a_status_are_read_oldest_first_and_never_sorted(
    file: sqlite3.Connection, tag: str | None, index: str
) -> None:
    steps = plan(
        file,
        lambda reader: listing.oldest(reader, "PENDING", tag=tag, after=(5.0, "a"), updated_before=9.0, limit=5),
    )

    assert all(f"USING INDEX {index} (partition=?" in step for step in reads(steps, "runs") or [""])
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize(
    ("sort", "search"), [(True, "by_change (changed>?)"), (False, "by_id (run_id>? AND run_id<?)")]
)
def test_changes_are_found_by_their_sequence_or_by_the_id(file: sqlite3.Connection, sort: bool, search: str) -> None:
    query = RunQuery(labels=("a",), flow="f")

    steps = plan(
        file, lambda reader: listing.changes(reader, query, PARTITIONS, since=5, after="", upto="z", sort=sort)
    )

    assert any(search in step for step in reads(steps, "runs"))
    assert any(SORTED in step for step in steps) is sort


@pytest.mark.parametrize(("tenant_id", "found"), [(None, "flow=?"), ("t", "flow=? AND tenant_id=?")])
def test_queues_to_claim_from_are_found_by_graph_and_tenant(
    file: sqlite3.Connection, tenant_id: str | None, found: str
) -> None:
    steps = plan(file, lambda reader: steps_sql.next_lease_end(reader, ["f", "g"], tenant_id))

    (read,) = reads(steps, "step_queues")
    assert f"(kind=? AND claimable=? AND {found})" in read


def test_ready_steps_are_read_by_id_and_never_sorted(file: sqlite3.Connection) -> None:
    file.execute("DELETE FROM step_queues WHERE kind = 'leased'")

    steps = plan(file, lambda reader: steps_sql.claimable(reader, ["f", "g"], tenant_id=None, now=5.0, limit=1))

    read = reads(steps, "steps")
    assert len(read) == 1
    assert all("USING INDEX by_queue (queue=? AND at=?)" in step for step in read)
    assert not any(SORTED in step for step in steps)


def test_only_expired_leases_are_scanned_and_only_the_limit_is_fetched(file: sqlite3.Connection) -> None:
    file.execute("DELETE FROM step_queues WHERE kind = 'ready'")

    steps = plan(file, lambda reader: steps_sql.claimable(reader, ["f", "g"], tenant_id=None, now=5.0, limit=1))

    looked, fetched = sorted(reads(steps, "steps"))
    assert "COVERING INDEX by_queue (queue=? AND at<?)" in looked
    assert "USING PRIMARY KEY (run=? AND place=?)" in fetched


def test_the_next_end_of_a_lease_is_the_first_entry_of_each_queue(file: sqlite3.Connection) -> None:
    steps = plan(file, lambda reader: steps_sql.next_lease_end(reader, ["f", "g"], None))

    (read,) = reads(steps, "steps")
    assert "COVERING INDEX by_queue (queue=?)" in read
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize(
    ("query", "found"),
    [(WaitQuery(), "(queue=?)"), (WaitQuery(after=(5.0, A, 0)), "(queue=? AND (at,run_id,place)>(?,?,?))")],
)
def test_waits_are_read_in_order_from_the_end_of_the_last_page(
    file: sqlite3.Connection, query: WaitQuery, found: str
) -> None:
    steps = plan(file, lambda reader: steps_sql.waits(reader, query))

    assert all(f"USING INDEX by_queue {found}" in step for step in reads(steps, "steps") or [""])
    assert not any(SORTED in step for step in steps)


def test_waits_of_a_run_are_found_by_the_run(file: sqlite3.Connection) -> None:
    steps = plan(file, lambda reader: steps_sql.waits(reader, WaitQuery(graph_id="g", run_id=A)))

    (read,) = reads(steps, "steps")
    assert "USING PRIMARY KEY (run=?)" in read


def test_expired_steps_are_read_by_time(file: sqlite3.Connection) -> None:
    steps = plan(file, lambda reader: steps_sql.due(reader, 5.0, 10))

    (read,) = reads(steps, "steps")
    assert "USING INDEX by_due (due_at<?)" in read
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize("query", [LabelQuery(), LabelQuery(prefix="team:"), LabelQuery(prefix="a", after="ab")])
@pytest.mark.parametrize(
    ("tenant_id", "found"), [(None, "(archived=? AND term>?)"), ("t", "(tenant_id=? AND archived=? AND term>?)")]
)
def test_labels_are_read_in_order_from_the_prefix_on(
    file: sqlite3.Connection, query: LabelQuery, tenant_id: str | None, found: str
) -> None:
    steps = plan(file, lambda reader: posting_lists.labels(reader, replace(query, tenant_id=tenant_id)))

    (read,) = reads(steps, "posting_lists")
    assert found in read
    assert not any(SORTED in step for step in steps)


@pytest.mark.parametrize(("tenant_id", "found"), [(None, "(archived=? AND term=?)"), ("t", "tenant_id=?")])
def test_posting_lists_are_found_by_their_keys(file: sqlite3.Connection, tenant_id: str | None, found: str) -> None:
    steps = plan(file, lambda reader: posting_lists.matching(reader, ["a", "b"], tenant_id=tenant_id, archived=False))

    (read,) = reads(steps, "posting_lists")
    assert "SEARCH" in read
    assert "term=?" in read
    assert found in read


def test_the_runs_of_a_page_are_found_by_their_numbers_and_stay_in_order(file: sqlite3.Connection) -> None:
    steps = plan(file, lambda reader: reader.execute(listing.LISTED, ("[]",)))

    (read,) = reads(steps, "runs")
    assert "INTEGER PRIMARY KEY (rowid=?)" in read
    assert not any(SORTED in step for step in steps)
