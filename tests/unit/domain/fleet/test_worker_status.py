"""The fleet as listed: which workers, in which order, and when they are dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState
from pyoco_server.domain.fleet.worker_status import (
    KEEP_MOST,
    KEEP_MOST_UNSEEN_SEC,
    KEEP_UNSEEN_SEC,
    WorkerQuery,
    WorkerStatus,
    announced,
    expired_workers,
    filter_workers,
)
from support.samples import new_run_id, worker

NOW = 10_000_000.0


def status_of(name: str, state: WorkerState, *, last_seen_at: float = 100.0, hidden: bool = False) -> WorkerStatus:
    record = replace(worker(name, last_seen_at=last_seen_at), hidden=hidden)
    return WorkerStatus(record=record, silent_sec=0.0, state=state)


FLEET = [
    status_of("stopped", WorkerState.STOPPED_GRACEFUL),
    status_of("zeta", WorkerState.RUNNING),
    status_of("lost-early", WorkerState.DISCONNECTED, last_seen_at=50.0),
    status_of("alpha", WorkerState.IDLE),
    status_of("lost-late", WorkerState.DISCONNECTED, last_seen_at=90.0),
    status_of("hidden", WorkerState.IDLE, hidden=True),
]


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        (WorkerQuery(), ["alpha", "zeta"]),
        (WorkerQuery(include_inactive=True), ["alpha", "zeta", "lost-late", "lost-early", "stopped"]),
        (WorkerQuery(state=WorkerState.DISCONNECTED), ["lost-late", "lost-early"]),
        (WorkerQuery(state=WorkerState.DISCONNECTED, include_inactive=True), ["lost-late", "lost-early"]),
        (WorkerQuery(include_hidden=True), ["alpha", "hidden", "zeta"]),
    ],
)
def test_active_workers_are_listed_by_name_then_lost_then_stopped_ones(query: WorkerQuery, listed: list[str]) -> None:
    assert [seen.record.worker_id for seen in filter_workers(FLEET, query)] == listed


def test_busy_slots_are_the_runs_of_a_worker_and_at_most_its_slots() -> None:
    runs = tuple(new_run_id() for _ in range(3))
    busy = replace(FLEET[1], record=replace(worker(), slots=2, current_run_ids=runs))

    assert (FLEET[1].busy, busy.busy) == (0, 2)


def announcing(
    name: str, *flows: AnnouncedFlow, tags: tuple[str, ...], started_at: Any, state: WorkerState = WorkerState.IDLE
) -> WorkerStatus:
    record = replace(worker(name), flows=flows, tags=tags, started_at=started_at)
    return WorkerStatus(record=record, silent_sec=0.0, state=state)


OLD, NEW = AnnouncedFlow(name="etl", nodes=("load",)), AnnouncedFlow(name="etl", nodes=("load", "save"))
NAMED = AnnouncedFlow(name="etl")


def test_the_latest_worker_defines_a_flow_and_all_tags_serve_it() -> None:
    late = announcing("a", NEW, AnnouncedFlow(name="zip"), tags=("gpu", "default"), started_at=2.0)
    early = announcing("b", OLD, tags=("cpu",), started_at=1.0)

    for fleet in ([late, early], [early, late]):
        found = announced(fleet)
        assert list(found) == ["etl", "zip"]
        assert found["etl"] == replace(NEW, tags=("cpu", "default", "gpu"))
        assert found["zip"].tags == ("default", "gpu")


def test_a_worker_without_the_graph_does_not_hide_the_graph_of_others() -> None:
    fleet = [announcing("a", OLD, tags=("x",), started_at=1.0), announcing("b", NAMED, tags=("y",), started_at=2.0)]

    assert announced(fleet)["etl"] == replace(OLD, tags=("x", "y"))


def test_gone_workers_announce_nothing_and_hidden_ones_do() -> None:
    gone = [
        announcing(state.value, OLD, tags=("x",), started_at=1.0, state=state)
        for state in (WorkerState.DISCONNECTED, WorkerState.STOPPED_GRACEFUL)
    ]
    seen = announcing("hidden", NAMED, tags=("y",), started_at=None, state=WorkerState.RUNNING)
    hidden = replace(seen, record=replace(seen.record, hidden=True))

    assert announced(gone) == {}
    assert announced([*gone, hidden]) == {"etl": replace(NAMED, tags=("y",))}


def test_workers_not_seen_for_a_month_are_removed() -> None:
    fresh = worker("fresh", last_seen_at=NOW - KEEP_UNSEEN_SEC)
    old = worker("old", last_seen_at=NOW - KEEP_UNSEEN_SEC - 1)
    stopped = replace(worker("stopped", last_seen_at=old.last_seen_at), stopped_at=old.last_seen_at)

    assert {record.worker_id for record in expired_workers([fresh, old, stopped], NOW)} == {"old", "stopped"}


def test_the_number_of_kept_workers_is_bounded() -> None:
    records: list[WorkerRecord] = [worker(f"w-{nth}", last_seen_at=NOW - nth) for nth in range(KEEP_MOST + 2)]
    later = NOW + KEEP_MOST_UNSEEN_SEC

    assert {record.worker_id for record in expired_workers(records, later)} == {f"w-{KEEP_MOST}", f"w-{KEEP_MOST + 1}"}
    assert expired_workers(records, NOW) == []
