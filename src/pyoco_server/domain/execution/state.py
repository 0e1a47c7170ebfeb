"""What an execution is at one moment: frozen values, their statuses, and the ranks by which the stronger one wins.

    execution   ACTIVE 100 ──▶ COMPLETED 200 ──▶ FAILED 300 ──▶ CANCELED 400
    node        IDLE 100 ▶ READY 200 ▶ RUNNING 300 ▶ WAITING 400 ▶ SUCCEEDED 500 ▶ FAILED 600 ▶ CANCELED 700

A status only moves up in rank. Two exceptions: a resume takes a node from WAITING to RUNNING, and a start with a higher
attempt begins a node anew while the execution is not finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.ids import InstanceId, NodeId, RunId, WorkerId

T = TypeVar("T")

MAX_NODES = 2_000
# Of ids and keys that come from outside, one by one: all of them stand in each snapshot, and in one commit.
MAX_NAMES_BYTES = 128 * 1024
MAX_LABELS = 64
MAX_TIMEOUT_SEC = 30 * 24 * 3600.0
# How often a node of a graph is begun where the graph does not say: as often as a job is delivered.
MAX_NODE_ATTEMPTS = 20


class Work(Enum):
    """Who works on an execution, and from when on."""

    QUEUED = "queued"  # a worker, as a whole; it is in the queue from its creation on
    ON_START = "on_start"  # a worker, as a whole, once somebody has started it
    NODES = "nodes"  # whoever takes its nodes, one by one


class Status(Enum):
    """Where an execution stands."""

    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    def __init__(self, name: str) -> None:
        self.rank = 100 * (len(type(self).__members__) + 1)
        self.is_terminal = name != "ACTIVE"

    # Members are compared by identity; Enum's own hash is a Python function, and this one is asked for all the time.
    __hash__ = object.__hash__


class NodeStatus(Enum):
    """Where a node stands."""

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
    """How an execution was stopped: the receipt that a cancel or a time limit gives."""

    COOPERATIVE = "cooperative"
    KILLED = "killed"
    BEFORE_START = "before_start"
    IDLE = "idle"
    ABANDONED = "abandoned"
    UNCONFIRMED = "unconfirmed"
    SUBMIT_FAILED = "submit_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why something failed, in a form a person can act on."""

    code: str
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelUsed:
    """A wheel that was installed where an execution ran: its file name, and what exactly was in it."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who works on an execution now; `attempt` is the fence that later commands of this holder must carry."""

    attempt: int
    worker_id: WorkerId | None
    instance_id: InstanceId | None
    return_to: str | None = None
    wheels: tuple[WheelUsed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step. `attempt` counts its starts from 1; 0 means it was never started."""

    node_id: NodeId
    status: NodeStatus = NodeStatus.IDLE
    attempt: int = 0
    worker_id: WorkerId | None = None
    started_at: float | None = None
    ended_at: float | None = None
    progress: float | None = None
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

    def is_worked_on(self, now: float) -> bool:
        """Somebody has it in hand who may be told to stop; a lease that is over binds nobody."""
        running = self.status is NodeStatus.RUNNING and self.worker_id is not None
        return running and (self.lease_until is None or now < self.lease_until)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReceipt:
    """What is known of a cancel: asked, told to the holder, stopped, and by which means."""

    requested_at: float
    requested_by: str | None = None
    reason: str | None = None
    delivered_at: float | None = None
    stopped_at: float | None = None
    how: StopHow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutReceipt:
    """What is known of a time limit that was reached: which, when, and by which means the run was stopped."""

    limit_sec: float
    reached_at: float
    stopped_at: float
    how: StopHow


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for when the execution was created; it never changes."""

    flow_name: str = ""
    tag: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    tenant_id: str | None = None
    api_key_id: str | None = None
    timeout_sec: float | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    replay_of: RunId | None = None
    work: Work = Work.QUEUED
    graph_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One piece of work, as its events so far have made it. `version` is the sequence of its last commit."""

    execution_id: RunId
    version: int = 0
    status: Status = Status.ACTIVE
    request: Request = Request()
    labels: tuple[str, ...] = ()
    graph: Graph | None = None
    nodes: Mapping[NodeId, Node] = field(default_factory=dict)
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
    # What a failed run wrote last, for those who want to know what it was doing.
    last_lines: tuple[str, ...] = ()
    # Set when it was read from a snapshot that had to give up records; no event sets it, the log still has them.
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
        """It is for a worker, and somebody has asked for it: a job belongs into the queue."""
        return self.request.work is Work.QUEUED or self.queued_at is not None

    @property
    def is_held(self) -> bool:
        """A worker has taken the whole of it and may be running it."""
        return not self.status.is_terminal and self.holder is not None and self.holder.instance_id is not None

    def is_worked_on(self, now: float) -> bool:
        """Somebody may be working on it: a worker that runs the whole of it, or the holder of one of its nodes."""
        if self.status.is_terminal:
            return False
        return self.is_held or any(node.is_worked_on(now) for node in self.nodes.values())


def empty_execution(execution_id: RunId) -> Execution:
    """The execution before its first event."""
    return Execution(execution_id=execution_id)


def fast_replace(value: T, **changes: object) -> T:
    """A copy of a frozen value with some fields changed; `dataclasses.replace` at a third of its price."""
    kind: type = type(value)
    read, writers = _parts(kind)
    copy: T = object.__new__(kind)
    for write, part in zip(writers.values(), read(value)):  # noqa: B905 - of one length, and asked for all the time
        write(copy, part)
    for name, part in changes.items():
        writers[name](copy, part)
    return copy


@cache
def _parts(kind: type) -> tuple[Callable[[object], tuple[object, ...]], dict[str, Any]]:
    names = tuple(field.name for field in fields(kind))
    return attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}


def stronger(one: Status, other: Status) -> Status:
    """The status that wins when two claims meet."""
    return one if one.rank >= other.rank else other
