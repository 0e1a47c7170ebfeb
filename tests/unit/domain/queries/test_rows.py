"""Snapshots as rows: what a summary says, what a foreign or odd snapshot becomes, and which row is newer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.execution.state import Execution, Request
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.domain.queries.rows import MAX_ERROR_CHARS, RunRow, fresh, newest

RUN = RunId("01900000-0000-7000-8000-000000000000")
OTHER = RunId("01900001-0000-7000-8000-000000000000")


def seen(plain: dict[str, Any] | None, sequence: int = 1, run_id: RunId = RUN) -> SnapshotSeen:
    return SnapshotSeen(sequence=sequence, run_id=run_id, plain=plain)


def test_our_own_snapshot_becomes_a_row_with_all_its_columns() -> None:
    execution = Execution(
        execution_id=RUN,
        version=12,
        request=Request(flow_name="train", tag="gpu", tenant_id="acme"),
        labels=("gpu", "nightly"),
        created_at=1.0,
        updated_at=2.0,
    )

    row = RunRow.of(seen(to_snapshot(execution, heartbeat_at=3.0), sequence=40))

    assert (row.run_id, row.position, row.status) == (RUN, (12, 40), "PENDING")
    assert (row.flow, row.tag, row.tenant_id, row.labels) == ("train", "gpu", "acme", ("gpu", "nightly"))
    assert (row.updated_at, row.ended_at, row.archived) == (2.0, None, False)
    assert orjson.loads(row.summary) == {
        "run_id": RUN,
        "flow_name": "train",
        "tag": "gpu",
        "tags": ["gpu", "nightly"],
        "status": "PENDING",
        "updated_at": 2.0,
        "heartbeat_at": 3.0,
        "worker_id": None,
        "error": None,
        "submitted_at": 1.0,
        "start_time": None,
        "end_time": None,
        "attempt": 0,
        "version": 12,
    }


def test_cancel_and_archive_times_are_in_the_summary_once_they_are_set() -> None:
    row = RunRow.of(seen({"status": "CANCELLED", "cancel_requested_at": 5.0, "archived_at": 9.0}))

    summary = orjson.loads(row.summary)
    assert (summary["cancel_requested_at"], summary["archived_at"], row.archived) == (5.0, 9.0, True)


def test_the_time_that_a_run_may_take_is_in_the_summary_when_it_was_given_one() -> None:
    given, without = (RunRow.of(seen({"timeout_sec": seconds})) for seconds in (2.5, None))

    assert orjson.loads(given.summary)["timeout_sec"] == 2.5
    assert "timeout_sec" not in orjson.loads(without.summary)


def test_a_long_error_is_cut_in_the_summary() -> None:
    row = RunRow.of(seen({"status": "FAILED", "error": "é" * 9000}))

    assert orjson.loads(row.summary)["error"] == "é" * MAX_ERROR_CHARS


def test_a_foreign_snapshot_with_the_required_fields_only_becomes_a_row() -> None:
    plain = {
        "run_id": RUN,
        "flow_name": "main",
        "status": "COMPLETED",
        "params": {},
        "tasks": {},
        "heartbeat_at": 7,
        "updated_at": 8,
    }

    row = RunRow.of(seen(plain, sequence=3))

    assert (row.position, row.flow, row.tag, row.labels) == ((0, 3), "main", "", ())
    assert row.ended_at == 8.0  # finished, and it does not say when: the last update is the best guess
    assert orjson.loads(row.summary)["tag"] is None


TEXT = st.text("a\0é走😀", max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
KEYS = ("status", "flow_name", "tag", "tags", "tenant_id", "updated_at", "end_time", "version", "archived_at", "error")


@given(plain=st.dictionaries(st.sampled_from(KEYS), JSON))
def test_whatever_lies_in_the_bucket_becomes_a_row(plain: dict[str, Any]) -> None:
    row = RunRow.of(seen(plain))

    assert orjson.loads(row.summary)["run_id"] == RUN
    assert 0 <= row.version < 2**63


def test_the_version_makes_a_row_newer_and_the_revision_decides_between_equal_ones() -> None:
    row = RunRow.of(seen({"version": 5}, sequence=10))

    assert row.position > replace(row, version=4, revision=99).position
    assert row.position > replace(row, revision=9).position
    assert row.position < replace(row, version=6, revision=1).position


def test_a_summary_names_the_run_that_was_replayed() -> None:
    assert orjson.loads(RunRow.of(seen({"replay_of": str(OTHER)})).summary)["replay_of"] == OTHER
    assert "replay_of" not in orjson.loads(RunRow.of(seen({})).summary)


def test_only_the_newest_row_of_each_run_is_built() -> None:
    rows = newest([seen({"version": 2}, 1), seen({"version": 3}, 2), seen({"version": 1}, 3), seen({}, 4, OTHER)])

    assert [(row.run_id, row.position) for row in rows] == [(RUN, (3, 2)), (OTHER, (0, 4))]


def test_changes_are_put_in_order_and_those_already_read_left_out() -> None:
    changes = [seen({}, 4), seen(None, 2), seen({}, 3)]

    assert [change.sequence for change in fresh(changes, after=2)] == [3, 4]
