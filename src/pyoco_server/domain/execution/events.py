"""The events of an execution: past tense, immutable, stored for ever under the names in `EVENT_NAMES`.

`at` is when the event happened (unix seconds); in a worker's batched report that is earlier than the commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from pyoco_server.domain.execution.graph import Edge, Graph
from pyoco_server.domain.execution.state import Failure, Request, StopHow, TimeoutReceipt, WheelUsed
from pyoco_server.domain.ids import CommitId, InstanceId, NodeId, WorkerId


class _Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    """The base of all events. A `tag` is the stored name of an event: it outlives the class and never changes."""

    at: float


class ExecutionCreated(_Event, frozen=True, kw_only=True, tag="EXECUTION_CREATED"):
    """The execution was requested. Holds the whole request, and the only copy of the text of a flow.yaml.

    `node_inputs` is what its nodes get, in a form of its owner; the only copy, too.
    """

    request: Request
    labels: tuple[str, ...] = ()
    graph: Graph | None = None
    workflow_yaml: str | None = None
    node_inputs: bytes | None = None


class ExecutionQueued(_Event, frozen=True, kw_only=True, tag="EXECUTION_QUEUED"):
    """An execution that workers run was started: its job belongs in the queue. RUNNING follows with a worker."""


class ExecutionStarted(_Event, frozen=True, kw_only=True, tag="EXECUTION_STARTED"):
    """A worker has taken the execution and runs it with these wheels; a higher attempt is a takeover.

    `return_to` is the subject on which its job can be returned to the queue. `code_version` names the sources of its
    flows.
    """

    attempt: int
    worker_id: WorkerId | None = None
    instance_id: InstanceId | None = None
    return_to: str | None = None
    wheels: tuple[WheelUsed, ...] = ()
    code_version: str | None = None


class ExecutionCancelRequested(_Event, frozen=True, kw_only=True, tag="EXECUTION_CANCEL_REQUESTED"):
    """A cancel was requested; from now on the only possible end is CANCELED."""

    reason: str | None = None
    requested_by: str | None = None


class ExecutionCanceled(_Event, frozen=True, kw_only=True, tag="EXECUTION_CANCELED"):
    """The execution has stopped because of a cancel; unfinished nodes ended with it."""

    how: StopHow
    delivered_at: float | None = None
    stopped_at: float | None = None


class ExecutionCompleted(_Event, frozen=True, kw_only=True, tag="EXECUTION_COMPLETED"):
    """The execution succeeded. `result_nodes`: whose outputs its worker names as the result."""

    result_nodes: tuple[NodeId, ...] = ()


class ExecutionFailed(_Event, frozen=True, kw_only=True, tag="EXECUTION_FAILED"):
    """The execution failed; `timeout` is set if it reached its time limit. `last_lines` is the end of its output."""

    error: Failure
    timeout: TimeoutReceipt | None = None
    last_lines: tuple[str, ...] = ()


class ExecutionArchived(_Event, frozen=True, kw_only=True, tag="EXECUTION_ARCHIVED"):
    """The execution was removed from the default lists."""


class ExecutionTagAdded(_Event, frozen=True, kw_only=True, tag="EXECUTION_TAG_ADDED"):
    """A label was added."""

    tag: str


class ExecutionTagRemoved(_Event, frozen=True, kw_only=True, tag="EXECUTION_TAG_REMOVED"):
    """A label was removed."""

    tag: str


class _NodeEvent(_Event, frozen=True, kw_only=True):
    node_id: NodeId


class NodeCreated(_NodeEvent, frozen=True, kw_only=True, tag="NODE_CREATED"):
    """The node exists; it is not ready yet.

    `before` are the nodes that a flow runs before it, as far as they are known. Edges of a graph are in its graph.
    """

    before: tuple[NodeId, ...] = ()


class NodeReady(_NodeEvent, frozen=True, kw_only=True, tag="NODE_READY"):
    """All predecessors of the node have succeeded."""


class NodeStarted(_NodeEvent, frozen=True, kw_only=True, tag="NODE_STARTED"):
    """A worker has taken the node; `attempt` counts from 1."""

    attempt: int
    worker_id: WorkerId | None = None
    lease_until: float | None = None


class NodeProgressReported(_NodeEvent, frozen=True, kw_only=True, tag="NODE_PROGRESS_REPORTED"):
    """The holder reported progress, which also renews its lease."""

    attempt: int
    progress: int | float | None = None
    message: str | None = None
    lease_until: float | None = None


class NodeWaiting(_NodeEvent, frozen=True, kw_only=True, tag="NODE_WAITING"):
    """The node waits until it is resumed with the key."""

    attempt: int
    wait_key: str
    prompt: Any = None
    deadline_at: float | None = None


class NodeResumed(_NodeEvent, frozen=True, kw_only=True, tag="NODE_RESUMED"):
    """The node was resumed with the key; it runs again, with a full lease. `choice`: which choice the answer names."""

    attempt: int
    lease_until: float | None = None
    answer: Any = None
    choice: str | None = None


class NodeSucceeded(_NodeEvent, frozen=True, kw_only=True, tag="NODE_SUCCEEDED"):
    """The node succeeded."""

    attempt: int
    output: Any = None


class NodeFailed(_NodeEvent, frozen=True, kw_only=True, tag="NODE_FAILED"):
    """The node failed."""

    attempt: int
    error: Failure


class NodeCanceled(_NodeEvent, frozen=True, kw_only=True, tag="NODE_CANCELED"):
    """The node was canceled because the execution ended without it, or for the `reason`: `skipped`, not reached."""

    by_execution: bool = True
    reason: str | None = None


NodeEvent = (
    NodeCreated
    | NodeReady
    | NodeStarted
    | NodeProgressReported
    | NodeWaiting
    | NodeResumed
    | NodeSucceeded
    | NodeFailed
    | NodeCanceled
)
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
    | NodeEvent
)
Events = tuple[Event, ...]


def type_name(event: Event | type[Event]) -> str:
    return str(event.__struct_config__.tag)


EVENT_NAMES: dict[str, type[Event]] = {type_name(kind): kind for kind in get_args(Event)}


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a command: a user, a worker or a gateway."""

    kind: str
    id: str | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The events of one decision, stored as one message: readers never see half of a decision.

    `request_id` and `address` are those of the HTTP request that sent the command; workers and gateways have none,
    but the first commit of a batch's run has the `request_id` of its request.
    """

    commit_id: CommitId
    occurred_at: float
    command: str
    actor: Actor
    correlation_id: str | None = None
    idempotency_key: str | None = None
    request_id: str | None = None
    address: str | None = None
    events: Events


class StoredCommit(msgspec.Struct, frozen=True, kw_only=True):
    sequence: int
    commit: Commit


def declared_edges(commits: Iterable[Commit]) -> tuple[Edge, ...]:
    """The edges between the nodes of a flow. There are none in the events of earlier releases."""
    created = (event for commit in commits for event in commit.events if isinstance(event, NodeCreated))
    return tuple((source, event.node_id) for event in created for source in event.before)
