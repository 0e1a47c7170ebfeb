"""The state of an execution: immutable values, their statuses, and the ranks that decide between statuses.

    execution   ACTIVE 100 ──▶ COMPLETED 200 ──▶ FAILED 300 ──▶ CANCELED 400
    node        IDLE 100 ▶ READY 200 ▶ RUNNING 300 ▶ WAITING 400 ▶ SUCCEEDED 500 ▶ FAILED 600 ▶ CANCELED 700

A status only moves up in rank, with two exceptions: a resume takes a node from WAITING to RUNNING, and a start with a
higher attempt resets a node while the execution is not finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.ids import MAX_NODES as MAX_NODES
from pyoco_server.domain.ids import InstanceId, NodeId, RunId, WorkerId

# For node ids and wait keys that arrive one by one over the API: every snapshot holds all of them.
MAX_NAMES_BYTES = 128 * 1024
MAX_LABELS = 64
MAX_TIMEOUT_SEC = 30 * 24 * 3600.0
# Why a node was canceled: no edge that is followed leads to it.
SKIPPED = "skipped"
# The default limit of a graph's nodes: the same as the deliveries of a job.
MAX_NODE_ATTEMPTS = 20


class Work(Enum):
    """Who works on an execution, and from when."""

    QUEUED = "queued"  # one worker runs all of it; queued at creation
    ON_START = "on_start"  # one worker runs all of it; queued when it is started
    NODES = "nodes"  # its nodes are claimed one by one over the API


class Status(Enum):
    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    def __init__(self, name: str) -> None:
        self.rank = 100 * (len(type(self).__members__) + 1)
        self.is_terminal = name != "ACTIVE"

    # Members are compared by identity; Enum's own hash is a Python function and too slow for the hot path.
    __hash__ = object.__hash__


class NodeStatus(Enum):
    IDLE = "IDLE"
    READY = "READY"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    def __init__(self, name: str) -> None:
        self.rank = 100 * (len(type(self).__members__) + 1)
        self.is_terminal = name in ("SUCCEEDED", "FAILED", "CANCELED")
        self.is_held = name in ("RUNNING", "WAITING")

    __hash__ = object.__hash__


class StopHow(Enum):
    """How an execution was stopped, for the receipt of a cancel or a time limit."""

    COOPERATIVE = "cooperative"
    KILLED = "killed"
    BEFORE_START = "before_start"
    IDLE = "idle"
    ABANDONED = "abandoned"
    UNCONFIRMED = "unconfirmed"
    SUBMIT_FAILED = "submit_failed"


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The cause of a failure."""

    code: str
    message: str
    traceback: str | None = None


class WheelUsed(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that was installed where an execution ran: file name and digest."""

    name: str
    sha256: str


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The worker that holds an execution; its later commands must carry `attempt` as a fence."""

    attempt: int
    worker_id: WorkerId | None
    instance_id: InstanceId | None
    return_to: str | None = None
    wheels: tuple[WheelUsed, ...] = ()
    code_version: str | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `attempt` counts its starts from 1; 0 means never started.

    `choices` are those of its prompt while it waits; `choice` is what the last answer chose among them. `reason` is why
    it was canceled.
    """

    node_id: NodeId
    status: NodeStatus = NodeStatus.IDLE
    attempt: int = 0
    worker_id: WorkerId | None = None
    started_at: float | None = None
    ended_at: float | None = None
    progress: int | float | None = None
    message: str | None = None
    wait_key: str | None = None
    prompt: Any = None
    deadline_at: float | None = None
    waiting_since: float | None = None
    lease_until: float | None = None
    lease_sec: float | None = None
    answer: Any = None
    output: Any = None
    error: Failure | None = None
    canceled_by_execution: bool = False
    choices: tuple[str, ...] = ()
    choice: str | None = None
    reason: str | None = None

    @property
    def is_skipped(self) -> bool:
        return self.status is NodeStatus.CANCELED and self.reason == SKIPPED

    def is_worked_on(self, now: float) -> bool:
        """Whether a holder works on it and can be asked to stop; an expired lease no longer counts."""
        running = self.status is NodeStatus.RUNNING and self.worker_id is not None
        return running and (self.lease_until is None or now < self.lease_until)


class CancelReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a cancel: requested, delivered to the holder, stopped, and how."""

    requested_at: float
    requested_by: str | None = None
    reason: str | None = None
    delivered_at: float | None = None
    stopped_at: float | None = None
    how: StopHow | None = None


class TimeoutReceipt(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The time limit that was reached: which, when, and how the run was stopped. With `task` it is that of a task."""

    limit_sec: float
    reached_at: float
    stopped_at: float
    how: StopHow
    task: str | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The request that created the execution; it never changes."""

    flow_name: str = ""
    tag: str = ""
    # Not `dict` as the factory: `omit_defaults` would omit an empty input, and the stored form has always had it.
    input: Mapping[str, Any] = msgspec.field(default_factory=lambda: {})
    tenant_id: str | None = None
    api_key_id: str | None = None
    timeout_sec: float | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    replay_of: RunId | None = None
    work: Work = Work.QUEUED
    graph_version: int | None = None
    rerun_of: RunId | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution as folded from its events. `version` is the sequence of its last commit."""

    execution_id: RunId
    version: int = 0
    status: Status = Status.ACTIVE
    request: Request = Request()
    labels: tuple[str, ...] = ()
    graph: Graph | None = None
    nodes: Mapping[NodeId, Node] = msgspec.field(default_factory=dict)
    created_at: float | None = None
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    updated_at: float = 0.0
    archived_at: float | None = None
    holder: Holder | None = None
    cancel: CancelReceipt | None = None
    error: Failure | None = None
    timeout: TimeoutReceipt | None = None
    # The end of the output of a failed run.
    last_lines: tuple[str, ...] = ()
    # The nodes whose outputs are the result of a completed execution, in the order of `nodes`.
    result_nodes: tuple[NodeId, ...] = ()
    # Set when read from a snapshot that had to drop records. No event sets it: the log still has them.
    records_truncated: bool = False

    @property
    def exists(self) -> bool:
        return self.created_at is not None

    @property
    def attempt(self) -> int:
        return self.holder.attempt if self.holder else 0

    @property
    def cancel_requested_at(self) -> float | None:
        return self.cancel.requested_at if self.cancel else None

    @property
    def is_queued(self) -> bool:
        """It is for a worker and was started: its job belongs in the queue."""
        return self.request.work is Work.QUEUED or self.queued_at is not None

    @property
    def is_held(self) -> bool:
        """A worker has taken all of it and may be running it."""
        return not self.status.is_terminal and self.holder is not None and self.holder.instance_id is not None

    def is_worked_on(self, now: float) -> bool:
        """A worker that runs all of it, or a holder of one of its nodes, may be working on it."""
        if self.status.is_terminal:
            return False
        return self.is_held or any(node.is_worked_on(now) for node in self.nodes.values())


def empty_execution(execution_id: RunId) -> Execution:
    return Execution(execution_id=execution_id)


def stronger(one: Status, other: Status) -> Status:
    return one if one.rank >= other.rank else other
