"""Request and response models of `/runs`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pyoco_server.domain.execution.state import MAX_TIMEOUT_SEC
from pyoco_server.domain.queries.cursors import MAX_CURSOR_CHARS
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.http_api.protocol.fields import (
    RESULT,
    RESULT_TRUNCATED,
    STRICT,
    WARNINGS,
    FlowName,
    Label,
    Open,
    Queue,
    Queued,
    RangesQuery,
    Strict,
    StrictFlag,
    Tag,
    TimeoutSec,
)

RunStatus = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLING", "CANCELLED"]
TaskStatus = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
IncludeWord = Literal["records", "full", "all"]
MAX_SEARCH_CHARS = 200


class RunSubmitRequest(Strict, Queued):
    """A run of a flow."""

    model_config = ConfigDict(json_schema_extra={"example": {"flow_name": "hello", "params": {}}})

    flow_name: FlowName
    params: dict[str, Any] = Field(default_factory=dict, examples=[{"name": "world"}])
    tag: Tag | None = Field(default=None, description="Which workers may run it; the default tag when absent.")
    queue: Queue = None
    tags: list[Label] | None = Field(default=None, max_length=64, description="Labels; `[tag]` when absent.")
    timeout_sec: TimeoutSec = None
    strict: StrictFlag = False


class RunYamlFields(Strict, Queued):
    """The text parts of the form beside the flow.yaml."""

    flow_name: FlowName
    tag: Tag | None = Field(default=None, description="Which workers may run it; the default tag when absent.")
    queue: Queue = None
    timeout_sec: float | None = Field(default=None, gt=0, le=MAX_TIMEOUT_SEC, allow_inf_nan=False)
    strict: bool = Field(default=False, description=STRICT)
    params: str = Field(
        default="{}",
        description="A JSON object with values for keys of `flow.defaults`, which it overrides.",
        examples=['{"name": "Ann"}'],
    )


class RunSubmitYamlRequest(RunYamlFields):
    """A run of a flow.yaml. Its params are the file's `flow.defaults`."""

    workflow: str = Field(
        description="A flow.yaml: UTF-8, at most PYOCO_WORKFLOW_YAML_MAX_BYTES; see docs/reference/flow-yaml.md.",
        json_schema_extra={"format": "binary"},
        examples=["tasks:\n  greet:\n    callable: tasks:greet\nflow:\n  graph: greet\n"],
    )
    timeout_sec: TimeoutSec = None


class RunCancelRequest(BaseModel):
    """The reason of a cancel."""

    reason: str | None = Field(default=None, max_length=1000)


class RunAccepted(BaseModel):
    """The run is stored and queued with this durability."""

    run_id: str
    status: Literal["PENDING"]
    durability: Literal["fsynced", "replicated", "buffered"]
    warnings: list[str] | None = Field(default=None, description=WARNINGS)


class RunRerunRequest(Strict):
    """Changes of a rerun."""

    model_config = ConfigDict(json_schema_extra={"example": {"params": {"name": "Ann"}}})

    params: dict[str, Any] = Field(default_factory=dict, description="They override those of the original.")
    strict: StrictFlag = False


class RerunAccepted(BaseModel):
    """The new run. That of a graph is RUNNING at once: its first nodes are ready."""

    run_id: str
    status: Literal["PENDING", "RUNNING"]
    durability: Literal["fsynced", "replicated", "buffered"]
    rerun_of: str
    warnings: list[str] | None = Field(default=None, description=WARNINGS)


class CancelReceipt(BaseModel):
    """The state of a cancel."""

    requested_at: float
    requested_by: str | None
    reason: str | None
    delivered_at: float | None
    stopped_at: float | None
    how: str | None


class TimeoutReceipt(BaseModel):
    """A time limit that was reached."""

    limit_sec: float
    reached_at: float
    stopped_at: float
    how: str
    task: str | None = Field(default=None, description="The task whose limit it is; absent for that of the run.")


class RunSummary(Open):
    """A run in a list."""

    run_id: str
    status: RunStatus
    updated_at: float
    flow_name: str | None = None
    tag: str | None = None
    tags: list[str] | None = None
    heartbeat_at: float | None = None
    worker_id: str | None = None
    error: str | None = None
    submitted_at: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    attempt: int | None = None
    version: int | None = Field(default=None, description="Grows with every change of the run.")
    cancel_requested_at: float | None = None
    archived_at: float | None = None
    timeout_sec: float | None = None
    workflow_yaml_sha256: str | None = None
    replay_of: str | None = Field(default=None, description="The run that this one replays from a dead letter.")
    rerun_of: str | None = Field(default=None, description="The run that was run again as this one.")


class WheelUsed(BaseModel):
    """A wheel of the registry that a run used."""

    name: str
    sha256: str


class RunSnapshot(Open):
    """A run in its present state. More fields may be added at any time."""

    run_id: str
    flow_name: str
    status: RunStatus
    params: dict[str, Any]
    tasks: dict[str, TaskStatus]
    heartbeat_at: float
    updated_at: float
    version: int = Field(description="Grows with every change of the run.")
    tag: str | None = None
    tags: list[str] | None = None
    task_records: dict[str, Any] | None = None
    task_records_truncated: bool | None = None
    submitted_at: float | None = None
    queued_at: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    archived_at: float | None = None
    worker_id: str | None = None
    attempt: int | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    replay_of: str | None = Field(default=None, description="The run that this one replays from a dead letter.")
    rerun_of: str | None = Field(default=None, description="The run that was run again as this one.")
    graph_version: int | None = None
    result: Any = Field(default=None, description=RESULT)
    result_truncated: bool | None = Field(default=None, description=RESULT_TRUNCATED)
    error: str | None = None
    error_code: str | None = None
    last_lines: list[str] | None = None
    progress: dict[str, float] | None = None
    timeout_sec: float | None = None
    timeout: TimeoutReceipt | None = None
    workflow_yaml_sha256: str | None = None
    workflow_yaml_bytes: int | None = None
    cancel_requested_at: float | None = None
    cancel: CancelReceipt | None = None
    code_version: str | None = Field(
        default=None, description="A hash of the flows' sources that it ran with; absent when its worker names none."
    )
    wheels: list[WheelUsed] | None = Field(
        default=None, description="The wheels of the registry that it used; absent when its worker syncs none."
    )
    worker_alive: bool = Field(default=False, description="Whether the present or last worker of the run is alive.")
    worker_heartbeat_at: float | None = Field(default=None, description="Its last heartbeat; null when unknown.")
    worker_tags: list[str] | None = Field(default=None, description="Its tags; null when unknown.")
    stale: bool = Field(default=False, description="RUNNING without a heartbeat for too long; never a failure.")


class RunListResponse(BaseModel):
    """A page of a list; continue with `next_cursor` and the same filters until it is null."""

    items: list[RunSummary | RunSnapshot]
    next_cursor: str | None = None
    total: int | None = Field(
        default=None, description="The number of all matching runs; null with other filters than `status`."
    )


class RunTasks(BaseModel):
    """The tasks of a run with their records."""

    run_id: str
    flow_name: str
    status: RunStatus
    tasks: dict[str, TaskStatus]
    task_records: dict[str, Any]
    task_records_truncated: bool


class ListQuery(RangesQuery, Queued):
    """Filters, all of which apply."""

    status: RunStatus | None = Field(default=None, examples=["RUNNING"])
    flow: str | None = Field(default=None, min_length=1, max_length=256, examples=["hello"])
    tag: str | None = Field(default=None, min_length=1, max_length=64, examples=["default"])
    queue: Queue = None
    tags: list[Label] | None = Field(default=None, max_length=8, description="Labels; repeated: a run has all of them.")
    workflow_yaml_sha256: str | None = Field(
        default=None,
        pattern=r"^[0-9A-Fa-f]{64}$",
        description="Runs of this flow.yaml, by the digest that their snapshots show. The answer is an object.",
    )
    updated_after: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Unix seconds: runs that changed later than this. The answer is an object.",
    )
    error: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_SEARCH_CHARS,
        description="Runs whose `error` contains this text, in any case. The answer is an object; a page may be short, "
        "even empty, and have a `next_cursor`.",
        examples=["connection refused"],
    )
    cursor: str | None = Field(
        default=None,
        max_length=MAX_CURSOR_CHARS,
        description="Empty to start, then `next_cursor` of the page before, with the same filters. The answer is an "
        "object.",
    )
    limit: int = Field(default=50, ge=1, le=200)
    include: list[IncludeWord] | None = Field(
        default=None,
        description="Any of them returns whole snapshots with task_records instead of summaries. Beyond 8 MiB "
        "a page ends early, and an array continues with summaries.",
    )

    @property
    def wants_page(self) -> bool:
        """Whether the answer is an object with a cursor instead of an array."""
        given = (self.cursor, self.updated_after, self.workflow_yaml_sha256, self.error)
        return any(value is not None for value in given)

    def of(self, tenant_id: str | None) -> RunQuery:
        """The query of the index, for the runs of this tenant."""
        digest = self.workflow_yaml_sha256
        return RunQuery(
            limit=self.limit,
            status=self.status,
            flow=self.flow,
            tag=self.routing_tag,
            tenant_id=tenant_id,
            labels=tuple(self.tags or ()),
            workflow_yaml_sha256=None if digest is None else digest.lower(),
            updated_after=self.updated_after,
            error=self.error,
            submitted_after=self.submitted_after,
            submitted_before=self.submitted_before,
            id_prefix=self.id_prefix,
        )
