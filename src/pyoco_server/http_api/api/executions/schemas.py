"""Request and response models of `/executions`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from pyoco_server.http_api.api.graph_models import ConditionalEdgeOut
from pyoco_server.http_api.protocol.fields import WARNINGS, OpenCamel, Queue, Queued, Strict

ExecutionStatus = Literal["ACTIVE", "COMPLETED", "FAILED", "CANCELED"]
NodeState = Literal["IDLE", "READY", "RUNNING", "WAITING", "SUCCEEDED", "FAILED", "CANCELED"]

MAX_LEASE_SEC = 24 * 3600.0
MAX_WAIT_SEC = 366 * 24 * 3600.0
MAX_CLAIM_WAIT_SEC = 30.0
DEFAULT_LEASE_SEC = 60.0
MAX_CLAIMED_GRAPHS = 50
MAX_ATTEMPT = 2**31 - 1

GraphId = Annotated[str, Field(min_length=1, max_length=128, examples=["release"])]
Attempt = Annotated[
    int | None, Field(ge=1, le=MAX_ATTEMPT, description="The start of the node; absent: the last.", examples=[1])
]
WorkerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$", examples=["worker-1"])]
LeaseSec = Annotated[
    float | None,
    Field(
        ge=1,
        le=MAX_LEASE_SEC,
        description="The node may be claimed again after this silence of its holder; `progress` renews it.",
        examples=[60],
    ),
]
Key = Annotated[str, Field(min_length=1, max_length=256, examples=["approval-123"])]


class CommandBody(Strict):
    """The body of a command."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, allow_inf_nan=False)


class CreateBody(CommandBody, Queued):
    """What to execute: a stored graph, a flow that workers announce, or any other name for an open graph."""

    graph_id: GraphId
    input: dict[str, Any] = Field(default_factory=dict, examples=[{"version": "1.4.0"}])
    tag: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]+$",
        max_length=64,
        description="For a flow: which workers may run it. Absent: the default tag, or one that it is announced under.",
    )
    queue: Queue = None
    strict: bool = Field(
        default=False,
        description="Reject (422, ERR-PYOCO-0083) what is neither a graph nor a flow, and what a flow does not accept, "
        "as far as the running workers announce all of their flows. Otherwise these are `warnings`.",
    )


class EmptyBody(CommandBody):
    """No fields."""


class CancelBody(CommandBody):
    """The reason of a cancel."""

    reason: str | None = Field(default=None, max_length=1000, examples=["not needed any more"])


class FailureBody(CommandBody):
    """An error."""

    code: str = Field(min_length=1, max_length=128, examples=["ERR_TIMEOUT"])
    message: str = Field(max_length=10_000, examples=["timeout"])


class FailBody(CommandBody):
    """Why the execution fails."""

    error: FailureBody


class StartNodeBody(CommandBody):
    """The holder of the node. A higher attempt takes it over from a holder without a valid lease."""

    attempt: Attempt = None
    worker_id: WorkerName | None = None
    lease_sec: LeaseSec = None


class ProgressBody(CommandBody):
    """The progress of the node in percent."""

    progress: float | None = Field(default=None, ge=0, le=100, examples=[42])
    message: str | None = Field(default=None, max_length=1000, examples=["processing..."])
    attempt: Attempt = None
    lease_sec: LeaseSec = None


class WaitBody(CommandBody):
    """What the node waits for. A caller with the key resumes it."""

    wait_key: Key
    prompt: Any = Field(
        default=None,
        description="What a person is shown; at most 16 KiB. The answer must be one of its `choices`, if any.",
        examples=[{"text": "Ship it?", "choices": ["ship", "stop"]}],
    )
    timeout_sec: float | None = Field(
        default=None, gt=0, le=MAX_WAIT_SEC, description="The node fails after this time.", examples=[86400]
    )
    attempt: Attempt = None


class ResumeBody(CommandBody):
    """The key, and the answer to the prompt, which becomes the output of a wait node."""

    resume_key: Key
    answer: Any = Field(
        default=None,
        description="At most 64 KiB. If the prompt has `choices`: one of them, or an object with it as `choice`.",
        examples=["ship", {"choice": "stop", "comment": "not on a friday"}],
    )
    attempt: Attempt = None


class SucceedBody(CommandBody):
    """The output of the node."""

    output: Any = Field(default=None, description="At most 64 KiB.", examples=[{"rows": 3}])
    attempt: Attempt = None


class FailNodeBody(FailBody):
    """Why the node fails."""

    attempt: Attempt = None


class ClaimBody(CommandBody):
    """The graphs to claim a node of, and its holder."""

    graph_ids: list[GraphId] = Field(min_length=1, max_length=MAX_CLAIMED_GRAPHS, examples=[["release"]])
    worker_id: WorkerName
    wait_sec: float = Field(
        default=0.0, ge=0, le=MAX_CLAIM_WAIT_SEC, description="Wait this long for a node.", examples=[30]
    )
    lease_sec: float = Field(default=DEFAULT_LEASE_SEC, ge=1, le=MAX_LEASE_SEC, examples=[60])


class Accepted(OpenCamel):
    """The command was accepted; its effects are in the events."""

    execution_id: str
    command: str = Field(examples=["StartNode"])
    accepted: Literal[True]
    correlation_id: str
    idempotency_key: str
    version: int = Field(description="The execution as it was then: `GET /executions/{executionId}?at=<version>`.")
    warnings: list[str] | None = Field(default=None, description=WARNINGS)


class NodeOut(OpenCamel):
    """A node in its present state."""

    node_id: str
    status: NodeState
    canceled_by_execution: bool
    attempt: int
    worker_id: str | None = None
    progress: float | None = None
    message: str | None = None
    wait_key: str | None = None
    prompt: Any = None
    waiting_since: str | None = None
    deadline_at: str | None = None
    lease_until: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    answer: Any = None
    choice: str | None = Field(default=None, description="Which choice of the prompt the answer named.")
    reason: str | None = Field(default=None, description="`skipped`: no edge that was followed leads to it.")
    output: Any = None
    error: dict[str, Any] | None = None


class CancelOut(OpenCamel):
    """The request of a cancel, and when and how the execution stopped."""

    requested_by: str | None
    reason: str | None
    stopped_at: str | None
    how: str | None


class GraphOut(OpenCamel):
    """The graph that the execution was created with, or the tasks of its flow in the version that ran."""

    nodes: list[dict[str, Any]]
    edges: list[tuple[str, str] | ConditionalEdgeOut]


class ExecutionOut(OpenCamel):
    """An execution in its present state."""

    execution_id: str
    status: ExecutionStatus
    cancel_requested_at: str | None
    nodes: list[NodeOut]
    graph_id: str
    graph_version: int | None = None
    input: dict[str, Any]
    version: int
    created_at: str
    queued_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    updated_at: str
    archived_at: str | None = None
    attempt: int
    worker_id: str | None = None
    tag: str | None = Field(default=None, description="Of a flow: which workers may run it.")
    tags: list[str]
    cancel: CancelOut | None = None
    graph: GraphOut | None = Field(
        default=None,
        description="With `include=graph` only; absent for a flow without edges, or with loops or branches.",
    )
    error: dict[str, Any] | None = None
    nodes_truncated: bool = Field(
        description="Some outputs are left out here; `?include=records` reads them from the log."
    )


class ExecutionListed(OpenCamel):
    """An execution in a list."""

    execution_id: str
    status: ExecutionStatus
    graph_id: str | None
    cancel_requested_at: str | None
    created_at: str | None
    started_at: str | None
    ended_at: str | None
    updated_at: str
    version: int
    tags: list[str]
    error: str | None


class ExecutionList(OpenCamel):
    """A page; continue with `nextCursor` and the same filters until it is null."""

    items: list[ExecutionListed]
    next_cursor: str | None


class EventOut(OpenCamel):
    """An event, its time and the command that caused it."""

    event_id: str
    type: str = Field(examples=["NODE_STARTED"])
    occurred_at: str
    version: int
    payload: dict[str, Any]
    command: str
    commit_id: str
    actor: dict[str, Any] = Field(examples=[{"kind": "user", "id": "ann"}])
    correlation_id: str | None
    request_id: str | None = Field(default=None, description="The X-Request-Id of the HTTP request, a ULID.")
    idempotency_key: str | None


class EventList(OpenCamel):
    """A page of events in order; `nextCursor` continues after them, and is null on the last page."""

    execution_id: str
    items: list[EventOut]
    next_cursor: str | None


class Claimed(Accepted):
    """The claimed node. Its lease ends at `leaseUntil` unless `progress` renews it."""

    graph_id: str
    node_id: str
    attempt: int = Field(ge=1)
    lease_until: str
    lease_sec: float
    input: dict[str, Any]
    params: dict[str, Any] | None
    outputs: dict[str, Any] = Field(description="The outputs of the nodes before it that were not skipped.")


class WaitOut(OpenCamel):
    """A node that waits to be resumed."""

    execution_id: str
    graph_id: str
    node_id: str
    attempt: int
    wait_key: str | None
    prompt: Any
    waiting_since: str
    deadline_at: str | None
    worker_id: str | None


class WaitList(OpenCamel):
    """A page, the longest waiting first."""

    items: list[WaitOut]
    next_cursor: str | None
