"""The guarantees of every AuditIndex; the in-memory one is the reference for SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyoco_server.adapters.sqlite.audit_index import SqliteAuditIndex
from pyoco_server.domain.audit import AuditPlace, AuditQuery, AuditRecord, Outcome
from pyoco_server.domain.execution.events import Actor
from pyoco_server.ports import AuditIndex, AuditPosition
from pyoco_server.testing.audit_index import MemoryAuditIndex

STREAM = "2026-01-01T00:00:00Z"


@pytest.fixture(params=["memory", "sqlite"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AuditIndex]:
    if request.param == "memory":
        yield MemoryAuditIndex()
        return
    with closing(SqliteAuditIndex(tmp_path / "audit.sqlite")) as opened:
        yield opened


def record(key: str, at: float = 1.0, outcome: Outcome = "made", **named: Any) -> AuditRecord:
    values: dict[str, Any] = {"action": "run.create", "actor": Actor(kind="user", id="ann"), "resource_id": key}
    return AuditRecord(key=key, at=at, outcome=outcome, resource_kind="run", **values | named)


def take_in(index: AuditIndex, *records: AuditRecord, sequence: int = 1) -> None:
    index.apply(records, AuditPosition(STREAM, sequence))


def keys(index: AuditIndex, limit: int = 100, before: AuditPlace | None = None, **query: Any) -> list[str]:
    return [one.key for one in index.page(AuditQuery(**query), before=before, limit=limit)]


def test_records_are_shown_newest_first_and_by_key_at_the_same_time(index: AuditIndex) -> None:
    take_in(index, record("b", 1.0), record("a", 2.0), record("c", 1.0))

    assert keys(index) == ["a", "c", "b"]


def test_a_page_continues_in_front_of_a_place(index: AuditIndex) -> None:
    take_in(index, *(record(f"k{number}", float(number // 2)) for number in range(7)))

    first = keys(index, limit=3)
    rest = keys(index, before=AuditPlace(2.0, first[-1]))

    assert first + rest == keys(index)
    assert len(first + rest) == 7


def test_the_position_is_that_of_the_last_records_and_a_reset_empties(index: AuditIndex) -> None:
    assert index.position() is None

    take_in(index, record("a"), sequence=7)

    assert index.position() == AuditPosition(STREAM, 7)
    index.reset()
    assert index.position() is None
    assert keys(index) == []


def test_the_first_record_of_a_key_stays_and_takes_later_outcomes(index: AuditIndex) -> None:
    take_in(index, record("a", 1.0, "attempted", action="graph.put"))
    take_in(index, record("a", 9.0, "made", action="other"))

    (shown,) = index.page(AuditQuery(), before=None, limit=9)
    assert (shown.at, shown.action, shown.outcome) == (1.0, "graph.put", "made")


def test_a_void_record_disappears_and_may_come_back(index: AuditIndex) -> None:
    take_in(index, record("a", 1.0, "attempted"), record("a", 1.0, "void"), record("unknown", 1.0, "void"))
    assert keys(index) == []

    take_in(index, record("a", 2.0, "attempted"))

    assert keys(index) == ["a"]


def test_old_records_are_forgotten(index: AuditIndex) -> None:
    take_in(index, record("a", 1.0), record("b", 2.0))

    index.forget_before(2.0)

    assert keys(index) == ["b"]


FEW = st.sampled_from(["x", "y", None])
TIMES = st.sampled_from([1.0, 2.0, 3.0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), TIMES, FEW, FEW, FEW, FEW, st.sampled_from(["made", "void"]))),
    query=st.builds(
        AuditQuery,
        actor=FEW,
        action=FEW,
        resource=FEW,
        request_id=FEW,
        since=st.none() | TIMES,
        until=st.none() | TIMES,
    ),
    before=st.none() | st.builds(AuditPlace, TIMES, st.sampled_from(["0", "5", "9"])),
)
def test_sqlite_answers_as_the_reference(
    tmp_path: Path, rows: list[Any], query: AuditQuery, before: AuditPlace | None
) -> None:
    records = [
        record(
            str(number),
            at,
            outcome,
            actor=Actor(kind="user", id=actor),
            action=action or "z",
            resource_id=resource or "z",
            request_id=request_id,
        )
        for number, at, actor, action, resource, request_id, outcome in rows
    ]
    reference = MemoryAuditIndex()
    with closing(SqliteAuditIndex(tmp_path / "same.sqlite")) as sqlite:
        sqlite.reset()
        for one in (reference, sqlite):
            take_in(one, *records)

        shown = [one.page(query, before=before, limit=5) for one in (reference, sqlite)]

    assert shown[0] == shown[1]


def test_a_file_survives_a_restart_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "audit.sqlite"
    with closing(SqliteAuditIndex(path)) as index:
        take_in(index, record("a"), sequence=3)
    with closing(SqliteAuditIndex(path)) as index:
        assert (index.position(), keys(index)) == (AuditPosition(STREAM, 3), ["a"])
    path.write_bytes(b"no database" * 100)

    with closing(SqliteAuditIndex(path)) as index:
        assert (index.position(), keys(index)) == (None, [])


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ({}, "audit_at"),
        ({"actor": "ann"}, "audit_actor "),
        ({"action": "run.create"}, "audit_action"),
        ({"actor": "ann", "action": "run.create"}, "audit_actor_action"),
        ({"actor": "ann", "resource": "r"}, "audit_resource"),
        ({"actor": "ann", "action": "a", "request_id": "q"}, "audit_request"),
        ({"actor": "ann", "since": 1.0, "until": 9.0}, "audit_actor "),
    ],
)
def test_each_filter_is_answered_from_an_index_in_the_order_of_the_page(
    tmp_path: Path, query: dict[str, Any], used: str
) -> None:
    plans: list[str] = []
    with closing(SqliteAuditIndex(tmp_path / "plans.sqlite")) as index:
        connection = index._connection
        statements: list[str] = []
        connection.set_trace_callback(statements.append)

        index.page(AuditQuery(**query), before=AuditPlace(5.0, "k"), limit=10)

        connection.set_trace_callback(None)
        plans = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")]

    assert len(plans) == 1, plans
    assert f"USING INDEX {used}" in f"{plans[0]} "
