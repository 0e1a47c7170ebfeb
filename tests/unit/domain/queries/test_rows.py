"""Snapshots as index rows: summaries, readability, and which row is newer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.execution.state import Execution, Request
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.domain.queries.rows import MAX_ERROR_CHARS, Change, Removed, RunRow, change_of, fresh
from pyoco_server.stores import LoadedSnapshot
from support.indexes import plain, row, seen
from support.steps import execution_of, leased, stored, waiting

RUN = RunId("01900000-0000-7000-8000-000000000000")
OTHER = RunId("01900001-0000-7000-8000-000000000000")


def read(snapshot: dict[str, Any] | None, sequence: int = 1) -> Change:
    return change_of(SnapshotSeen(sequence=sequence, run_id=RUN, plain=snapshot))


def summary_of(**fields: Any) -> dict[str, Any]:
    summary: dict[str, Any] = orjson.loads(row(1, RUN, **fields).summary)
    return summary


def test_a_snapshot_becomes_a_row_with_all_its_columns() -> None:
    execution = Execution(
        execution_id=RUN,
        version=12,
        request=Request(flow_name="train", tag="gpu", tenant_id="acme"),
        labels=("gpu", "nightly"),
        created_at=1.0,
        updated_at=2.0,
    )

    row = read(orjson.loads(orjson.dumps(to_snapshot(execution, heartbeat_at=3.0))), sequence=40)

    assert isinstance(row, RunRow)
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cancel_requested_at", 5.0),
        ("archived_at", 9.0),
        ("timeout_sec", 2.5),
        ("replay_of", str(OTHER)),
        ("rerun_of", str(OTHER)),
    ],
)
def test_an_optional_field_is_in_the_summary_when_it_has_a_value(name: str, value: object) -> None:
    assert summary_of(**{name: value})[name] == value
    assert name not in summary_of(**{name: None})


def test_a_long_error_is_truncated_in_the_summary() -> None:
    assert summary_of(status="FAILED", error="é" * 9000)["error"] == "é" * MAX_ERROR_CHARS


def test_a_finished_run_without_an_end_time_ended_at_its_last_update() -> None:
    assert row(1, RUN, status="COMPLETED", updated_at=8).ended_at == 8.0
    assert row(1, RUN, status="RUNNING", updated_at=8).ended_at is None


def test_a_removal_has_no_row() -> None:
    assert read(None, sequence=7) == Removed(run_id=RUN, revision=7)


GRAPH = stored(execution_of(RUN, leased("n", 50.0), waiting("m")))
STATE = GRAPH["state"]


@pytest.mark.parametrize(
    "fields",
    [
        {"status": None},
        {"status": "NOT_A_STATUS"},
        {"version": 2**64},
        {"version": -1},
        {"tags": {"no": "list"}},
        {"updated_at": "yesterday"},
        {"tasks": {"n": "PENDING"}},
        {"state": None},
        {"state": {**STATE, "nodes": {"n": 1}}},
        {"state": {**STATE, "nodes": [[2], [3, 1]]}},
        {"state": {**STATE, "nodes": [[2, 1, {"l": "soon"}], [3, 1]]}},
        {"state": {**STATE, "graph": {}}},
        {"state": {**STATE, "graph": {"nodes": [], "edges": []}}},
    ],
)
def test_a_snapshot_that_cannot_be_read_is_refused(fields: dict[str, Any]) -> None:
    assert isinstance(read(GRAPH), RunRow)

    with pytest.raises(ValueError, match=r".+"):
        read(GRAPH | fields)


@pytest.mark.parametrize("missing", sorted(set(GRAPH) - {"status"}))
def test_a_snapshot_is_readable_for_lists_if_it_is_readable_by_id(missing: str) -> None:
    snapshot = {name: value for name, value in GRAPH.items() if name != missing}

    assert _is_refused(lambda: read(snapshot)) is _is_refused(lambda: LoadedSnapshot.read(orjson.dumps(snapshot), 1))


def _is_refused(reading: Callable[[], object]) -> bool:
    try:
        reading()
    except (ValueError, KeyError):
        return True
    return False


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text("a\0é😀"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("wlLkdsc"), inner, max_size=3),
    max_leaves=6,
)


@given(name=st.sampled_from(list(plain())), value=ANYTHING, nodes=ANYTHING)
def test_any_other_value_is_either_read_or_refused(name: str, value: Any, nodes: Any) -> None:
    for snapshot in (plain(**{name: value}), GRAPH | {"state": {**STATE, "nodes": nodes}}):
        try:
            row = read(snapshot)
        except ValueError:
            continue
        assert isinstance(row, RunRow)
        assert 0 <= row.version < 2**63
        assert orjson.loads(row.summary)["run_id"] == RUN


def test_the_version_makes_a_row_newer_and_the_revision_decides_between_equal_ones() -> None:
    newer = row(10, RUN, version=5)

    assert newer.position > replace(newer, version=4, revision=99).position
    assert newer.position > replace(newer, revision=9).position
    assert newer.position < replace(newer, version=6, revision=1).position


def test_changes_are_sorted_and_known_ones_dropped() -> None:
    changes: list[Change] = [seen(4, RUN), Removed(run_id=OTHER, revision=2), seen(3, OTHER)]

    assert [change.revision for change in fresh(changes, after=2)] == [3, 4]
