"""What has happened to an execution: past tense, frozen, and stored for ever under the names in `EVENT_NAMES`.

`at` is the moment it happened (unix seconds), which for a worker's batched report is earlier than the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.state import Failure, Request, StopHow, TimeoutReceipt, WheelUsed
from pyoco_server.domain.ids import CommitId, InstanceId, NodeId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCreated(_Event):
    """Somebody asked for the work; everything that was asked is here, and the text of a flow.yaml is nowhere else."""

    request: Request
    labels: tuple[str, ...] = ()
    graph: Graph | None = None
    workflow_yaml: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionQueued(_Event):
    """Somebody has started an execution that workers run: its job is for the queue; RUNNING comes with a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStarted(_Event):
    """A holder has taken the execution, to run it with these wheels; a higher attempt is a take-over.

    Its job can be given back at `return_to`.
    """

    attempt: int
    worker_id: WorkerId | None = None
    instance_id: InstanceId | None = None
    return_to: str | None = None
    wheels: tuple[WheelUsed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCancelRequested(_Event):
    """Somebody wants it to stop; from here on nothing but CANCELED can come of it."""

    reason: str | None = None
    requested_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCanceled(_Event):
    """It has stopped because of the cancel; unfinished nodes ended with it."""

    how: StopHow
    delivered_at: float | None = None
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCompleted(_Event):
    """All of it succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFailed(_Event):
    """It came to an end without success; with `timeout`, because its time was over. `last_lines`: its last output."""

    error: Failure
    timeout: TimeoutReceipt | None = None
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionArchived(_Event):
    """It left the default lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTagAdded(_Event):
    """A label was put on it."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTagRemoved(_Event):
    """A label was taken off it."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeEvent(_Event):
    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCreated(_NodeEvent):
    """The node is known; it is not its turn yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReady(_NodeEvent):
    """All that comes before the node is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(_NodeEvent):
    """Somebody works on the node; `attempt` counts from 1."""

    attempt: int
    worker_id: WorkerId | None = None
    lease_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgressReported(_NodeEvent):
    """The holder said how far it is, which also renews its lease."""

    attempt: int
    progress: float | None = None
    message: str | None = None
    lease_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWaiting(_NodeEvent):
    """The node waits for somebody who knows the key."""

    attempt: int
    wait_key: str
    prompt: Any = None
    deadline_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResumed(_NodeEvent):
    """The key was shown; the node runs again, and its holder has as much time as at the start."""

    attempt: int
    lease_until: float | None = None
    answer: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSucceeded(_NodeEvent):
    """The node is done."""

    attempt: int
    output: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(_NodeEvent):
    """The node was given up."""

    attempt: int
    error: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCanceled(_NodeEvent):
    """The node will not be finished, because the execution ended without it."""

    by_execution: bool = True


Event = (
    ExecutionCreated
    | ExecutionQueued
    | ExecutionStarted
    | ExecutionCancelRequested
    | ExecutionCanceled
    | ExecutionCompleted
    | ExecutionFailed
    | ExecutionArchived
    | ExecutionTagAdded
    | ExecutionTagRemoved
    | NodeCreated
    | NodeReady
    | NodeStarted
    | NodeProgressReported
    | NodeWaiting
    | NodeResumed
    | NodeSucceeded
    | NodeFailed
    | NodeCanceled
)
Events = tuple[Event, ...]

# Stored names outlive code: a class may be renamed, a name here never.
EVENT_NAMES: dict[str, type[Event]] = {
    "EXECUTION_CREATED": ExecutionCreated,
    "EXECUTION_QUEUED": ExecutionQueued,
    "EXECUTION_STARTED": ExecutionStarted,
    "EXECUTION_CANCEL_REQUESTED": ExecutionCancelRequested,
    "EXECUTION_CANCELED": ExecutionCanceled,
    "EXECUTION_COMPLETED": ExecutionCompleted,
    "EXECUTION_FAILED": ExecutionFailed,
    "EXECUTION_ARCHIVED": ExecutionArchived,
    "EXECUTION_TAG_ADDED": ExecutionTagAdded,
    "EXECUTION_TAG_REMOVED": ExecutionTagRemoved,
    "NODE_CREATED": NodeCreated,
    "NODE_READY": NodeReady,
    "NODE_STARTED": NodeStarted,
    "NODE_PROGRESS_REPORTED": NodeProgressReported,
    "NODE_WAITING": NodeWaiting,
    "NODE_RESUMED": NodeResumed,
    "NODE_SUCCEEDED": NodeSucceeded,
    "NODE_FAILED": NodeFailed,
    "NODE_CANCELED": NodeCanceled,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asked: a user, a worker, a gateway."""

    kind: str
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The events of one decision, stored as one message: a run never shows half of a decision."""

    commit_id: CommitId
    occurred_at: float
    command: str
    actor: Actor
    events: Events
    correlation_id: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommit:
    """A commit and the sequence under which the log keeps it."""

    sequence: int
    commit: Commit
