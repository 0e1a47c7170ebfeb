"""Response models describe exactly the fields that are sent, in every state of an execution."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from pydantic import TypeAdapter

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.events import Actor, Commit, Event
from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.ids import CommitId, NodeId
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.domain.queries.rows import RunRow, change_of
from pyoco_server.http_api.api.executions import schemas as executions
from pyoco_server.http_api.api.executions import translate as execution_translate
from pyoco_server.http_api.api.jobs import schemas as jobs
from pyoco_server.http_api.api.jobs import translate as job_translate
from pyoco_server.http_api.api.runs import schemas as runs
from pyoco_server.http_api.api.runs import translate as run_translate
from pyoco_server.services.projections.event_history import EventEntry, EventPosition
from unit.domain.execution.strategies import RUN_ID, creates, events, play, scripts, thorough

FACTS = {"worker_alive": True, "worker_heartbeat_at": 1.0, "worker_tags": ["a"], "stale": False}


def check(model: Any, body: bytes) -> None:
    """Raises when a required field is missing or a field is not documented."""
    TypeAdapter(model).validate_json(body, extra="forbid")


@thorough
@given(created=creates, script=scripts())
def test_runs_and_jobs_have_the_documented_fields_only(created: Command, script: list[Command]) -> None:
    snapshot = orjson.loads(orjson.dumps(to_snapshot(play([created, *script])[-1].after)))
    row = change_of(SnapshotSeen(sequence=1, run_id=RUN_ID, plain=snapshot))
    assert isinstance(row, RunRow)
    summary = row.summary

    check(runs.RunSnapshot, run_translate.run_out(snapshot, FACTS, records=True))
    check(runs.RunTasks, run_translate.tasks_out(snapshot))
    check(runs.RunSummary, summary)
    check(jobs.Job, orjson.dumps(job_translate.job_out(snapshot, parameters=True)))
    check(jobs.JobListed, orjson.dumps(job_translate.job_out(orjson.loads(summary), parameters=False)))
    check(executions.ExecutionListed, orjson.dumps(execution_translate.listed_out(summary)))


@thorough
@given(created=creates, script=scripts())
def test_executions_have_the_documented_fields_only(created: Command, script: list[Command]) -> None:
    execution = play([created, *script])[-1].after

    for edges in (None, (), ((NodeId("build"), NodeId("deploy")),)):
        check(executions.ExecutionOut, execution_translate.execution_out(execution, edges))


@thorough
@given(event=events)
def test_events_have_the_documented_fields_only(event: Event) -> None:
    actor = Actor(kind="user", id="a")
    commit = Commit(commit_id=CommitId("c"), occurred_at=1.0, command="StartNode", actor=actor, events=(event,))

    entry = EventEntry(EventPosition(1, 0), event, commit)

    check(executions.EventOut, orjson.dumps(execution_translate.event_out(entry)))
