"""Facts about the worker of a run, as shown beside the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.domain.fleet.records import WorkerState
from pyoco_server.domain.fleet.worker_status import RUN_FACTS, WorkerStatus, is_stale, run_facts
from support.samples import worker

SEEN = WorkerStatus(record=worker(last_seen_at=97.0), silent_sec=3.0, state=WorkerState.RUNNING)
HELD: dict[str, Any] = {"status": "RUNNING", "heartbeat_at": 99.0, "state": {"holder": [1, "w1", "i1"]}}


def facts(snapshot: dict[str, Any], seen: WorkerStatus | None = SEEN) -> dict[str, Any]:
    return run_facts(snapshot, lambda worker_id: seen, now=100.0, alive_within_sec=15.0, run_heartbeat_sec=1.0)


def test_a_reporting_worker_is_alive() -> None:
    assert facts(HELD) == {
        "worker_alive": True,
        "worker_heartbeat_at": 97.0,
        "worker_tags": ["default"],
        "stale": False,
    }


def test_the_list_of_fact_names_is_complete() -> None:
    assert tuple(facts(HELD)) == RUN_FACTS


def test_a_silent_worker_is_not_alive_but_known() -> None:
    found = facts(HELD, replace(SEEN, silent_sec=15.1))

    assert (found["worker_alive"], found["worker_heartbeat_at"], found["worker_tags"]) == (False, 97.0, ["default"])


def test_a_stopped_worker_is_not_alive_however_recent_its_report() -> None:
    assert not facts(HELD, replace(SEEN, record=replace(SEEN.record, stopped_at=90.0)))["worker_alive"]


def test_another_instance_of_the_same_name_is_another_worker() -> None:
    reborn = replace(SEEN, record=worker(instance_id="i2"))

    found = facts(HELD, reborn)

    assert (found["worker_alive"], found["worker_heartbeat_at"], found["worker_tags"]) == (False, None, None)


@pytest.mark.parametrize("snapshot", [{}, {"state": {}}, {"state": {"holder": [1, None, None]}}, {"state": None}])
def test_a_run_without_a_holder_or_from_a_foreign_producer_has_no_worker(snapshot: dict[str, Any]) -> None:
    found = facts(snapshot)

    assert found == {"worker_alive": False, "worker_heartbeat_at": None, "worker_tags": None, "stale": False}


@pytest.mark.parametrize(
    ("status", "silent_sec", "heartbeat_sec", "stale"),
    [
        ("RUNNING", 30.0, 1.0, False),
        ("RUNNING", 30.1, 1.0, True),
        ("RUNNING", 59.0, 20.0, False),
        ("RUNNING", 60.1, 20.0, True),
        ("PENDING", 1e6, 1.0, False),
        ("CANCELLING", 1e6, 1.0, False),
        ("COMPLETED", 1e6, 1.0, False),
    ],
)
def test_only_a_running_run_goes_stale_after_three_heartbeats_and_half_a_minute(
    status: str, silent_sec: float, heartbeat_sec: float, stale: bool
) -> None:
    assert is_stale(status, 1000.0, now=1000.0 + silent_sec, run_heartbeat_sec=heartbeat_sec) is stale


@pytest.mark.parametrize("skew_sec", [-3600.0, 3600.0])
def test_a_worker_whose_clock_is_wrong_makes_no_run_stale(skew_sec: float) -> None:
    beating = {**HELD, "heartbeat_at": 99.0 + skew_sec}
    quiet = {**HELD, "heartbeat_at": 60.0 + skew_sec}
    there = replace(SEEN, record=worker(last_seen_at=97.0 + skew_sec))

    assert (facts(beating, there)["stale"], facts(quiet, there)["stale"]) == (False, True)


def test_a_run_without_a_heartbeat_is_not_stale() -> None:
    assert not is_stale("RUNNING", None, now=1e9, run_heartbeat_sec=1.0)
