"""Valid histories for the invariant checks, produced by the rules; tests then corrupt them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from chaos.evidence import Evidence, Listed, Shown
from chaos.journal import Accepted, Journal, Seen
from chaos.side_effects import SideEffect
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import (
    CancelExecution,
    Command,
    CompleteExecution,
    ConfirmCanceled,
    CreateExecution,
    DeclareNodes,
    RecordAttempt,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, decide
from pyoco_server.domain.execution.events import Actor, Commit, Event, StoredCommit
from pyoco_server.domain.execution.evolve import fold, fold_commits
from pyoco_server.domain.execution.snapshot import public_view, to_snapshot
from pyoco_server.domain.execution.state import Request, StopHow, empty_execution
from pyoco_server.domain.fleet.worker_status import RUN_FACTS
from pyoco_server.domain.ids import CommitId, InstanceId, NodeId, RunId, WorkerId

RUN = "01a1e23b-a784-7000-a197-fd9c1da78f4f"
NODE = NodeId("work")
Log = list[StoredCommit]

CREATE = CreateExecution(at=1.0, request=Request(flow_name="instant", tag="default"), labels=("default",))
CANCEL = CancelExecution(at=4.0)


def start(attempt: int = 1, worker: str = "worker-1", at: float = 2.0) -> StartExecution:
    return StartExecution(
        at=at, attempt=attempt, worker_id=WorkerId(worker), instance_id=InstanceId(f"{worker}-{attempt}")
    )


def finish(attempt: int = 1, worker: str = "worker-1", at: float = 5.0) -> RecordAttempt:
    """A whole run of one node in one report, as short flows are reported."""
    return RecordAttempt(
        at=at,
        attempt=attempt,
        instance_id=InstanceId(f"{worker}-{attempt}"),
        steps=(
            DeclareNodes(at=3.0, node_ids=(NODE,)),
            StartNode(at=3.0, node_id=NODE, attempt=attempt, worker_id=WorkerId(worker)),
            SucceedNode(at=at, node_id=NODE, attempt=attempt),
            CompleteExecution(at=at),
        ),
    )


def stopped(at: float = 5.0) -> ConfirmCanceled:
    return ConfirmCanceled(at=at, how=StopHow.KILLED, attempt=1, delivered_at=4.0, stopped_at=at)


def play(*commands: Command) -> Log:
    """The log of these commands, all of which the rules must allow."""
    execution = empty_execution(RunId(RUN))
    log: Log = []
    for command in commands:
        events = decide(execution, command)
        assert not isinstance(events, Rejection), events
        log.append(stored(len(log) + 1, type(command).__name__, *events, worker=_worker(command)))
        execution = replace(fold(events, execution), version=len(log))
    return log


def stored(sequence: int, command: str, *events: Event, worker: str | None = None) -> StoredCommit:
    actor = Actor(kind="worker", id=worker) if worker else Actor(kind="gateway")
    at = events[-1].at
    commit = Commit(commit_id=CommitId(f"c{sequence}"), occurred_at=at, command=command, actor=actor, events=events)
    return StoredCommit(sequence=sequence, commit=commit)


def _worker(command: Command) -> str | None:
    if isinstance(command, StartExecution):
        return command.worker_id
    return command.instance_id.rpartition("-")[0] if isinstance(command, RecordAttempt) else None


def snapshot_of(log: Log) -> dict[str, Any]:
    plain: dict[str, Any] = orjson.loads(orjson.dumps(to_snapshot(fold_commits(log, empty_execution(RunId(RUN))))))
    return plain


def evidence_of(log: Log, *, side_effects: Sequence[tuple[float, str]] = ((3.0, "begin"), (4.9, "end"))) -> Evidence:
    """Consistent evidence for this log."""
    snapshot = snapshot_of(log)
    body = public_view(snapshot, records=True) | dict.fromkeys(RUN_FACTS)
    listed = Listed(gateway="gateway-1", flow=None, tag=None, status=None, items=[body])
    return Evidence(
        logs={RUN: log},
        stored_at={commit.sequence: commit.commit.occurred_at for commit in log},
        snapshots={RUN: snapshot},
        shown={RUN: [Shown(gateway="gateway-1", body=body)]},
        lists=[listed],
        side_effects={RUN: [SideEffect(at=at, run_id=RUN, pid=1, what=what) for at, what in side_effects]},
    )


def journal_of(*seen: tuple[str, int, bool]) -> Journal:
    """A journal of one accepted run, seen with these statuses and versions, one after the other."""
    journal = Journal()
    journal.note_accepted(
        Accepted(run_id=RUN, flow="instant", tag="default", gateway="gateway-1", asked_at=0.9, answered_at=1.1)
    )
    for place, (status, version, to_cancel) in enumerate(seen, start=2):
        journal.note_seen(
            Seen(
                run_id=RUN,
                asked_at=float(place),
                answered_at=place + 0.5,
                status=status,
                version=version,
                to_cancel=to_cancel,
            )
        )
    return journal
