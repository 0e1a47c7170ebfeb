"""The flows of a fleet: every different announcement of a name is a version."""

from __future__ import annotations

from pyoco_server.domain.fleet.catalogue import flow_versions
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState
from pyoco_server.domain.fleet.worker_status import WorkerStatus
from pyoco_server.domain.ids import InstanceId, WorkerId

OLD = AnnouncedFlow(name="etl", nodes=("load",))
NEW = AnnouncedFlow(name="etl", nodes=("load", "save"), edges=(("load", "save"),))
TEAM = (AnnouncedFlow(name="a/b"), OLD)


def _worker(
    flows: tuple[AnnouncedFlow, ...], *tags: str, started_at: float = 1.0, state: WorkerState = WorkerState.IDLE
) -> WorkerStatus:
    record = WorkerRecord(
        worker_id=WorkerId("w"),
        instance_id=InstanceId("i"),
        tags=tags,
        slots=1,
        last_seen_at=1.0,
        started_at=started_at,
        flows=flows,
    )
    return WorkerStatus(record=record, silent_sec=0.0, state=state)


def test_equal_announcements_are_one_version_with_all_its_workers_and_tags() -> None:
    found = flow_versions([_worker(TEAM, "default"), _worker(TEAM, "gpu"), _worker((OLD,), "cpu", "gpu")])

    assert list(found) == ["a/b", "etl"]
    (version,) = found["etl"]
    assert (version.flow, version.tags, version.workers) == (OLD, ("cpu", "default", "gpu"), 3)


def test_different_announcements_are_versions_with_the_newest_first() -> None:
    found = flow_versions([_worker((NEW,), "gpu", started_at=2.0), _worker((OLD,), "default", started_at=1.0)])

    assert [(one.flow, one.tags) for one in found["etl"]] == [(NEW, ("gpu",)), (OLD, ("default",))]


def test_workers_that_are_gone_announce_nothing() -> None:
    gone = [
        _worker((OLD,), "default", state=state) for state in (WorkerState.STOPPED_GRACEFUL, WorkerState.DISCONNECTED)
    ]

    assert flow_versions(gone) == {}
