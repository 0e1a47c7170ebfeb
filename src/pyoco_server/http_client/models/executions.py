"""Answers about executions, nodes, waits and graphs. Times are strings (RFC 3339, UTC)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

ExecutionStatus = Literal["ACTIVE", "COMPLETED", "FAILED", "CANCELED"]
NodeStatus = Literal["IDLE", "READY", "RUNNING", "WAITING", "SUCCEEDED", "FAILED", "CANCELED"]

EXECUTION_ENDS = ("EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELED")


class Failure(TypedDict):
    """Why something failed: `code` is for programs, `message` for people."""

    code: str
    message: str
    traceback: NotRequired[str]


class CommandAccepted(TypedDict):
    """A command was accepted; its effects are in the events from `version` on."""

    executionId: str
    command: str
    accepted: Literal[True]
    correlationId: str
    idempotencyKey: str
    version: int
    warnings: NotRequired[list[str]]


class Claim(CommandAccepted):
    """A claimed node; the lease must be renewed before `leaseUntil`."""

    graphId: str
    nodeId: str
    attempt: int
    leaseUntil: str
    leaseSec: float
    input: dict[str, Any]
    params: dict[str, Any] | None
    outputs: dict[str, Any]


class ExecutionNode(TypedDict):
    """The current state of a node; fields without a value are omitted."""

    nodeId: str
    status: NodeStatus
    canceledByExecution: bool
    attempt: int
    workerId: NotRequired[str]
    progress: NotRequired[float]
    message: NotRequired[str]
    waitKey: NotRequired[str]
    prompt: NotRequired[Any]
    waitingSince: NotRequired[str]
    deadlineAt: NotRequired[str]
    leaseUntil: NotRequired[str]
    startedAt: NotRequired[str]
    endedAt: NotRequired[str]
    answer: NotRequired[Any]
    choice: NotRequired[str]
    reason: NotRequired[str]
    output: NotRequired[Any]
    error: NotRequired[Failure]


class ExecutionSnapshot(TypedDict):
    """The state of an execution after its events."""

    executionId: str
    status: ExecutionStatus
    cancelRequestedAt: str | None
    nodes: list[ExecutionNode]
    graphId: str
    graphVersion: int | None
    input: dict[str, Any]
    version: int
    createdAt: str
    queuedAt: NotRequired[str | None]
    startedAt: str | None
    endedAt: str | None
    updatedAt: str
    archivedAt: str | None
    attempt: int
    workerId: str | None
    tag: NotRequired[str | None]
    tags: list[str]
    error: Failure | None
    nodesTruncated: bool
    cancel: NotRequired[dict[str, Any]]
    graph: NotRequired[dict[str, Any]]


class ExecutionSummary(TypedDict):
    """An execution in a list."""

    executionId: str
    status: ExecutionStatus
    graphId: str | None
    cancelRequestedAt: str | None
    createdAt: str | None
    startedAt: str | None
    endedAt: str | None
    updatedAt: str
    version: int
    tags: list[str]
    error: str | None


class ExecutionPage(TypedDict):
    """One page of a list; `nextCursor` is None on the last."""

    items: list[ExecutionSummary]
    nextCursor: str | None


class ExecutionEvent(TypedDict):
    """What happened, when, and by which command; `id`, on a stream, is the position to resume after."""

    eventId: str
    type: str
    occurredAt: str
    version: int
    payload: dict[str, Any]
    command: str
    commitId: str
    actor: dict[str, Any]
    correlationId: str | None
    idempotencyKey: str | None
    id: NotRequired[str]


class EventPage(TypedDict):
    """One page of events in order."""

    executionId: str
    items: list[ExecutionEvent]
    nextCursor: str | None


class WaitingNode(TypedDict):
    """A node that waits to be resumed with its key."""

    executionId: str
    graphId: str
    nodeId: str
    attempt: int
    waitKey: str | None
    prompt: Any
    waitingSince: str
    deadlineAt: str | None
    workerId: str | None


class WaitPage(TypedDict):
    """One page of waits, the longest waiting first."""

    items: list[WaitingNode]
    nextCursor: str | None


class _Graph(TypedDict):
    graphId: str
    version: int | None
    title: NotRequired[str]
    updatedAt: str | None
    updatedBy: str | None
    source: Literal["graph", "flow"]
    tags: NotRequired[list[str]]


class GraphSummary(_Graph):
    """A graph in a list; a flow that workers announce has `tags`, and neither a version nor an author."""

    nodeCount: int
    edgeCount: int


class GraphPage(TypedDict):
    """One page of graphs, by id."""

    items: list[GraphSummary]
    nextCursor: str | None


class GraphDocument(_Graph):
    """A graph with all defaults; `created`, after a put: it is the first version.

    An edge is a list `[from, to]`; one with `when` is an object `{from, to, when}`.
    """

    nodes: list[dict[str, Any]]
    edges: list[Any]
    created: NotRequired[bool]
