"""The events of an execution: past tense, immutable, stored for ever under the names in `EVENT_NAMES`.

`at` is when the event happened (unix seconds); in a worker's batched report that is earlier than the commit.
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
    """The execution was requested. Holds the whole request, and the only copy of the text of a flow.yaml."""

    request: Request
    labels: tuple[str, ...] = ()
    graph: Graph | None = None
    workflow_yaml: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionQueued(_Event):
    """An execution that workers run was started: its job belongs in the queue. RUNNING follows with a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStarted(_Event):
    """A worker has taken the execution and runs it with these wheels; a higher attempt is a takeover.

    `return_to` is the subject on which its job can be returned to the queue.
    """

    attempt: int
    worker_id: WorkerId | None = None
    instance_id: InstanceId | None = None
    return_to: str | None = None
    wheels: tuple[WheelUsed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCancelRequested(_Event):
    """A cancel was requested; from now on the only possible end is CANCELED."""

    reason: str | None = None
    requested_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCanceled(_Event):
    """The execution has stopped because of a cancel; unfinished nodes ended with it."""

    how: StopHow
    delivered_at: float | None = None
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCompleted(_Event):
    """The execution succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFailed(_Event):
    """The execution failed; `timeout` is set if it reached its time limit. `last_lines` is the end of its output."""

    error: Failure
    timeout: TimeoutReceipt | None = None
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionArchived(_Event):
    """The execution was removed from the default lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTagAdded(_Event):
    """A label was added."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTagRemoved(_Event):
    """A label was removed."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeEvent(_Event):
    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCreated(_NodeEvent):
    """The node exists; it is not ready yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReady(_NodeEvent):
    """All predecessors of the node have succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(_NodeEvent):
    """A worker has taken the node; `attempt` counts from 1."""

    attempt: int
    worker_id: WorkerId | None = None
    lease_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProgressReported(_NodeEvent):
    """The holder reported progress, which also renews its lease."""

    attempt: int
    progress: float | None = None
    message: str | None = None
    lease_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWaiting(_NodeEvent):
    """The node waits until it is resumed with the key."""

    attempt: int
    wait_key: str
    prompt: Any = None
    deadline_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResumed(_NodeEvent):
    """The node was resumed with the key; it runs again, with a full lease."""

    attempt: int
    lease_until: float | None = None
    answer: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSucceeded(_NodeEvent):
    """The node succeeded."""

    attempt: int
    output: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(_NodeEvent):
    """The node failed."""

    attempt: int
    error: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCanceled(_NodeEvent):
    """The node was canceled because the execution ended without it."""

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

# Stored names outlive code: classes may be renamed, names here never change.
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
    """The origin of a command: a user, a worker or a gateway."""

    kind: str
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The events of one decision, stored as one message: readers never see half of a decision."""

    commit_id: CommitId
    occurred_at: float
    command: str
    actor: Actor
    events: Events
    correlation_id: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommit:
    """A commit and its sequence in the event log."""

    sequence: int
    commit: Commit
