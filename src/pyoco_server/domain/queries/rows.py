"""Snapshots → rows of the index: columns for queries, a summary for lists, and steps for claims and deadlines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import orjson

from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.execution.state import MAX_NODE_ATTEMPTS, NodeStatus, Status, StopHow
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries.histograms import Times
from pyoco_server.domain.queries.query import Listed, SnapshotSeen, folded, terms_of
from pyoco_server.domain.queries.stats import RunTimes
from pyoco_server.domain.queries.steps import Step, StepKind

MAX_ERROR_CHARS = 500
_OPTIONAL_IN_SUMMARY = (
    "cancel_requested_at",
    "archived_at",
    "timeout_sec",
    "workflow_yaml_sha256",
    "replay_of",
    "rerun_of",
)
_CODES = {status: code for code, status in enumerate(NodeStatus)}
_READY, _RUNNING, _WAITING = (_CODES[status] for status in (NodeStatus.READY, NodeStatus.RUNNING, NodeStatus.WAITING))

Position = tuple[int, int]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Rare(msgspec.Struct, frozen=True):
    worker_id: str | None = msgspec.field(default=None, name="w")
    lease_until: float | None = msgspec.field(default=None, name="l")
    wait_key: str | None = msgspec.field(default=None, name="k")
    deadline_at: float | None = msgspec.field(default=None, name="d")
    waiting_since: float | None = msgspec.field(default=None, name="s")


class _Node(msgspec.Struct, array_like=True):
    status: int
    attempt: Count
    rare: _Rare = _Rare()


class _GraphNode(msgspec.Struct):
    max_attempts: int | None = msgspec.field(default=None, name="maxAttempts")


class _Graph(msgspec.Struct):
    nodes: list[_GraphNode]


class _State(msgspec.Struct):
    status: Status
    nodes: list[_Node]
    graph: _Graph | None = None


class _Cancel(msgspec.Struct):
    requested_at: float
    stopped_at: float | None = None
    how: StopHow | None = None


class _Snapshot(msgspec.Struct):
    """What makes a stored snapshot readable: a run that a lookup by id does not find must not be listed."""

    params: Any
    run_id: str
    status: Literal["PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED"]
    flow_name: str
    tag: str
    tags: list[str]
    tasks: dict[str, str]
    task_records: dict[str, Any]
    task_records_truncated: bool
    submitted_at: float
    start_time: float | None
    end_time: float | None
    updated_at: float
    heartbeat_at: float
    version: Count
    state: _State
    tenant_id: str | None = None
    worker_id: str | None = None
    attempt: Count = 0
    error: str | None = None
    archived_at: float | None = None
    cancel: _Cancel | None = None
    cancel_requested_at: float | None = None
    timeout_sec: float | None = None
    workflow_yaml_sha256: str | None = None
    replay_of: str | None = None
    rerun_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run in the index: the columns that queries use, and the summary that lists return.

    `error` is the error of the summary, folded.
    """

    run_id: RunId
    version: int
    revision: int
    status: str
    flow: str
    tag: str
    tenant_id: str
    archived: bool
    updated_at: float
    ended_at: float | None
    labels: tuple[str, ...]
    workflow_yaml_sha256: str | None
    error: str | None
    times: Times
    steps: tuple[Step, ...]
    summary: bytes

    @property
    def terms(self) -> tuple[str, ...]:
        return terms_of(self.labels, self.workflow_yaml_sha256)

    @property
    def submitted_at(self) -> float:
        return 0.0 if self.times.submitted_at is None else self.times.submitted_at

    @property
    def run_times(self) -> RunTimes:
        return RunTimes(self.status, self.submitted_at, self.times.started_at, self.times.ended_at, self.ended_at)

    @property
    def listed(self) -> Listed:
        return Listed(self.updated_at, self.run_id, self.summary)

    @property
    def position(self) -> Position:
        """The higher is newer: the version, then the revision of the key (a heartbeat does not change the version)."""
        return (self.version, self.revision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A run that has left the snapshot bucket."""

    run_id: RunId
    revision: int


Change = RunRow | Removed


def fresh(changes: Iterable[Change], *, after: int) -> list[Change]:
    """The changes after `after`, in order. Earlier ones are skipped: they could revive a removed run."""
    return sorted((change for change in changes if change.revision > after), key=lambda change: change.revision)


def change_of(seen: SnapshotSeen) -> Change:
    """What a change of the bucket means for the index; `ValueError` for a snapshot that cannot be read."""
    if seen.plain is None:
        return Removed(run_id=seen.run_id, revision=seen.sequence)
    snapshot = msgspec.convert(seen.plain, _Snapshot)
    nodes, graph = snapshot.state.nodes, snapshot.state.graph
    if len(nodes) != len(snapshot.tasks) or (graph is not None and len(graph.nodes) != len(nodes)):
        raise ValueError("the nodes of the state are not those of the tasks or of the graph")
    return RunRow(
        run_id=seen.run_id,
        version=snapshot.version,
        revision=seen.sequence,
        status=snapshot.status,
        flow=snapshot.flow_name,
        tag=snapshot.tag,
        tenant_id=snapshot.tenant_id or "",
        archived=snapshot.archived_at is not None,
        updated_at=snapshot.updated_at,
        ended_at=(snapshot.end_time or snapshot.updated_at) if snapshot.status in TERMINAL_RUN_STATUSES else None,
        labels=tuple(dict.fromkeys(snapshot.tags)),
        workflow_yaml_sha256=snapshot.workflow_yaml_sha256,
        error=folded(snapshot.error[:MAX_ERROR_CHARS]) if snapshot.error else None,
        times=_times(snapshot),
        # The nodes of an execution that is being cancelled can no longer be claimed.
        steps=tuple(_steps(snapshot)) if snapshot.status in ("PENDING", "RUNNING") else (),
        summary=_summary(seen.run_id, snapshot),
    )


def _times(snapshot: _Snapshot) -> Times:
    times = Times(snapshot.submitted_at, snapshot.start_time, snapshot.end_time)
    if snapshot.cancel is None:
        return times
    requested_at, stopped_at, how = snapshot.cancel.requested_at, snapshot.cancel.stopped_at, snapshot.cancel.how
    return times._replace(cancel_requested_at=requested_at, stopped_at=stopped_at, how=how.value if how else "")


def _summary(run_id: RunId, snapshot: _Snapshot) -> bytes:
    summary = {
        "run_id": run_id,
        "flow_name": snapshot.flow_name,
        "tag": snapshot.tag,
        "tags": snapshot.tags,
        "status": snapshot.status,
        "updated_at": snapshot.updated_at,
        "heartbeat_at": snapshot.heartbeat_at,
        "worker_id": snapshot.worker_id,
        "error": snapshot.error and snapshot.error[:MAX_ERROR_CHARS],
        "submitted_at": snapshot.submitted_at,
        "start_time": snapshot.start_time,
        "end_time": snapshot.end_time,
        "attempt": snapshot.attempt,
        "version": snapshot.version,
    }
    optional = {name: getattr(snapshot, name) for name in _OPTIONAL_IN_SUMMARY}
    return orjson.dumps(summary | {name: value for name, value in optional.items() if value is not None})


def _steps(snapshot: _Snapshot) -> Iterator[Step]:
    graph = snapshot.state.graph
    for place, (name, node) in enumerate(zip(snapshot.tasks, snapshot.state.nodes, strict=True)):
        node_id, rare = NodeId(name), node.rare
        if node.status == _READY and graph is not None:
            yield Step(node_id, place, StepKind.READY, node.attempt, True)
        elif node.status == _RUNNING and rare.lease_until is not None:
            is_last = graph is not None and node.attempt >= (graph.nodes[place].max_attempts or MAX_NODE_ATTEMPTS)
            yield Step(
                node_id,
                place,
                StepKind.LEASED,
                node.attempt,
                claimable=graph is not None and not is_last,
                due_at=rare.lease_until if is_last else None,
                worker_id=rare.worker_id,
                lease_until=rare.lease_until,
            )
        elif node.status == _WAITING:
            yield Step(
                node_id,
                place,
                StepKind.WAITING,
                node.attempt,
                claimable=False,
                due_at=rare.deadline_at,
                since=snapshot.updated_at if rare.waiting_since is None else rare.waiting_since,
                wait_key=rare.wait_key,
                prompt=_prompt(snapshot, name),
                worker_id=rare.worker_id,
            )


def _prompt(snapshot: _Snapshot, name: str) -> bytes | None:
    record = snapshot.task_records.get(name)
    prompt = record.get("prompt") if isinstance(record, dict) else None
    if prompt is None:
        return b"" if snapshot.task_records_truncated else None
    try:
        return orjson.dumps(prompt)
    except orjson.JSONEncodeError:  # nested deeper than it writes, though it reads it
        return None
