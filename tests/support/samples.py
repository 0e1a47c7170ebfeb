"""Commits, executions and jobs to store in tests; they are plain examples, not edge cases."""

from __future__ import annotations

from msgspec.structs import replace

from pyoco_server.adapters.system import SystemIds
from pyoco_server.domain.execution.events import Actor, Commit, ExecutionCompleted, ExecutionCreated, ExecutionTagAdded
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.state import Execution, Request, empty_execution
from pyoco_server.domain.fleet.records import WorkerRecord
from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.idempotency.record import Record
from pyoco_server.domain.ids import CommitId, InstanceId, RunId, WorkerId
from pyoco_server.ports import Job

IDS = SystemIds()
IDEMPOTENCY_KEY = RecordKey("0" * 64)
IDEMPOTENCY_RECORD = Record(
    idempotency_key="k-1",
    endpoint="POST /runs",
    request_hash="sha256:00",
    holder="h-1",
    lease_until=5.0,
    commit_id=CommitId("c-1"),
    resource_id="r-1",
)
CREATED = ExecutionCreated(at=1.0, request=Request(flow_name="main", tag="default", input={"x": 1}))


def new_run_id() -> RunId:
    return IDS.run_id()


def created() -> Commit:
    """A first commit."""
    return Commit(
        commit_id=IDS.commit_id(),
        occurred_at=1.0,
        command="CreateExecution",
        actor=Actor(kind="user"),
        events=(CREATED,),
    )


def tagged(label: str) -> Commit:
    """A later commit."""
    return Commit(
        commit_id=IDS.commit_id(),
        occurred_at=2.0,
        command="AddTag",
        actor=Actor(kind="user"),
        events=(ExecutionTagAdded(at=2.0, tag=label),),
    )


def completed() -> Commit:
    """A last commit."""
    return Commit(
        commit_id=IDS.commit_id(),
        occurred_at=3.0,
        command="CompleteExecution",
        actor=Actor(kind="worker"),
        events=(ExecutionCompleted(at=3.0),),
    )


def execution_at(run_id: RunId, version: int) -> Execution:
    """A created execution at this version."""
    return replace(fold([CREATED], empty_execution(run_id)), version=version, labels=(f"v{version}",))


def job_for(run_id: RunId, tag: str = "default") -> Job:
    return Job(run_id=run_id, flow_name="main", tag=tag, submitted_at=1.0, tags=("a", "b"), params={"x": 1})


def worker(worker_id: str = "w1", instance_id: str = "i1", last_seen_at: float = 100.0) -> WorkerRecord:
    return WorkerRecord(
        worker_id=WorkerId(worker_id),
        instance_id=InstanceId(instance_id),
        tags=("default",),
        slots=2,
        last_seen_at=last_seen_at,
    )
