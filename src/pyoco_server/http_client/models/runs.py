"""Answers about runs, workers, dead letters and wheels. A newer gateway may send more fields than are listed here."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

RunStatus = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLING", "CANCELLED"]
TaskStatus = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
WorkerState = Literal["RUNNING", "IDLE", "STOPPED_GRACEFUL", "DISCONNECTED"]

TERMINAL: tuple[RunStatus, ...] = ("COMPLETED", "FAILED", "CANCELLED")


class Airflow(TypedDict):
    """What a gateway found when it last looked at Airflow; `detail` says why it is not up."""

    status: Literal["up", "down", "misconfigured", "unchecked"]
    detail: NotRequired[str]


class Health(TypedDict):
    """The gateway is alive; `nats` says whether it can accept runs now."""

    status: str
    nats: NotRequired[str]
    events: NotRequired[str]  # of `ready`: "complete", or "lost" where the broker has lost events of runs
    airflow: NotRequired[Airflow]  # of `ready`, where Airflow runs the batches of rechecks


class RunAccepted(TypedDict):
    """The run is stored and queued; `durability` says how safely."""

    run_id: str
    status: RunStatus
    durability: NotRequired[str]
    warnings: NotRequired[list[str]]


class Rerun(RunAccepted):
    """The new run, and the one that it repeats."""

    rerun_of: str


class RunSummary(TypedDict):
    """A run in a list; with `include` it also has the fields of a snapshot."""

    run_id: str
    status: RunStatus
    updated_at: float
    flow_name: NotRequired[str | None]
    tag: NotRequired[str | None]
    tags: NotRequired[list[str] | None]
    heartbeat_at: NotRequired[float | None]
    worker_id: NotRequired[str | None]
    error: NotRequired[str | None]
    submitted_at: NotRequired[float | None]
    start_time: NotRequired[float | None]
    end_time: NotRequired[float | None]
    attempt: NotRequired[int | None]
    version: NotRequired[int]
    cancel_requested_at: NotRequired[float | None]
    archived_at: NotRequired[float | None]
    timeout_sec: NotRequired[float | None]
    workflow_yaml_sha256: NotRequired[str | None]
    replay_of: NotRequired[str | None]
    rerun_of: NotRequired[str | None]
    params: NotRequired[dict[str, Any]]
    tasks: NotRequired[dict[str, TaskStatus]]
    task_records: NotRequired[dict[str, Any]]


class WheelUsed(TypedDict):
    """A wheel of the registry that a run used."""

    name: str
    sha256: str


class RunSnapshot(TypedDict):
    """The current state of a run."""

    run_id: str
    flow_name: str
    status: RunStatus
    params: dict[str, Any]
    tasks: dict[str, TaskStatus]
    heartbeat_at: float
    updated_at: float
    version: NotRequired[int]
    tag: NotRequired[str | None]
    tags: NotRequired[list[str] | None]
    task_records: NotRequired[dict[str, Any]]
    task_records_truncated: NotRequired[bool]
    submitted_at: NotRequired[float | None]
    start_time: NotRequired[float | None]
    end_time: NotRequired[float | None]
    archived_at: NotRequired[float | None]
    stale: NotRequired[bool]
    worker_id: NotRequired[str | None]
    worker_alive: NotRequired[bool | None]
    worker_heartbeat_at: NotRequired[float | None]
    worker_tags: NotRequired[list[str] | None]
    attempt: NotRequired[int | None]
    result: NotRequired[Any]
    result_truncated: NotRequired[bool]
    error: NotRequired[str | None]
    error_code: NotRequired[str | None]
    last_lines: NotRequired[list[str]]
    progress: NotRequired[dict[str, float]]
    timeout_sec: NotRequired[float | None]
    timeout: NotRequired[dict[str, Any] | None]
    cancel_requested_at: NotRequired[float | None]
    cancel: NotRequired[dict[str, Any] | None]
    workflow_yaml_sha256: NotRequired[str | None]
    workflow_yaml_bytes: NotRequired[int | None]
    replay_of: NotRequired[str | None]
    code_version: NotRequired[str]
    rerun_of: NotRequired[str | None]
    wheels: NotRequired[list[WheelUsed]]


class RunTasks(TypedDict):
    """The tasks of a run with their records."""

    run_id: str
    flow_name: str
    status: RunStatus
    tasks: dict[str, TaskStatus]
    task_records: dict[str, Any]
    task_records_truncated: bool


class RunPage(TypedDict):
    """One page of a list; `next_cursor` is None or absent on the last.

    `total` is the length of the list; None with other filters than `status`.
    """

    items: list[RunSummary]
    next_cursor: NotRequired[str | None]
    total: NotRequired[int | None]


class LogEntry(TypedDict):
    """One log line of a run; `n` counts the lines of the run, over all its attempts."""

    n: int
    ts: float
    task: str | None
    level: str
    stream: str
    message: str
    attempt: int


class RunLogs(TypedDict):
    """Some lines; `next_token` continues after them, `complete` says that the run is over and has no more.

    `scanned_to`: the last line that was looked at, of the `lines` stored.
    """

    run_id: str
    items: list[LogEntry]
    next_token: str
    complete: bool
    scanned_to: int
    lines: int
    bytes: int


class RunWatchEvent(TypedDict):
    """An event of a watch: `snapshot` when the run changed, `heartbeat` when it did not."""

    event: str
    run_id: str
    ts: float
    id: str
    snapshot: NotRequired[RunSnapshot | None]


class WorkerRecord(TypedDict):
    """A worker of the fleet."""

    worker_id: str
    state: WorkerState
    hidden: bool
    last_seen_at: float
    tags: list[str]
    instance_id: NotRequired[str]
    last_heartbeat_at: NotRequired[float]
    heartbeat_at: NotRequired[float]
    silent_sec: NotRequired[float]
    started_at: NotRequired[float | None]
    slots: NotRequired[int]
    slots_busy: NotRequired[int]
    current_run_id: NotRequired[str | None]
    current_run_ids: NotRequired[list[str]]
    last_run_id: NotRequired[str | None]
    last_run_status: NotRequired[str | None]
    stopped_at: NotRequired[float | None]
    stop_reason: NotRequired[str | None]
    wheel_sync: NotRequired[dict[str, Any] | None]
    code: NotRequired[dict[str, Any] | None]
    isolation: NotRequired[str]
    runner_user: NotRequired[str | None]
    flows: NotRequired[list[str]]


class WorkerPatched(TypedDict):
    """The new value of a worker's `hidden`."""

    worker_id: str
    hidden: bool
    updated_at: float


class DeadLetter(TypedDict):
    """A job that could not be processed; `seq` identifies it for a replay."""

    seq: int
    timestamp: float
    reason: str
    error: NotRequired[str | None]
    run_id: NotRequired[str | None]
    flow_name: NotRequired[str | None]
    tag: NotRequired[str | None]
    tags: NotRequired[list[str] | None]
    worker_id: NotRequired[str | None]
    num_delivered: NotRequired[int | None]
    subject: NotRequired[str | None]


class DeadLetterPage(TypedDict):
    """One page of dead letters; it can be short without being the last, which has no `next_cursor`."""

    items: list[DeadLetter]
    next_cursor: NotRequired[str | None]


class AuditRecord(TypedDict):
    """A change: `actor` did `action` to `resource`. `outcome` is `attempted` if the gateway was killed meanwhile."""

    at: float
    action: str
    actor: dict[str, Any]
    resource: dict[str, Any]
    outcome: str
    tenant_id: NotRequired[str | None]
    address: NotRequired[str | None]
    request_id: NotRequired[str | None]
    correlation_id: NotRequired[str | None]
    detail: NotRequired[dict[str, Any]]


class AuditPage(TypedDict):
    """One page of the audit trail, newest first; the last one has no `next_cursor`."""

    items: list[AuditRecord]
    next_cursor: NotRequired[str | None]


class Replayed(TypedDict):
    """The new run of a dead letter; `replay_of` names the dead letter (`seq`) and the old run (`run_id`)."""

    run_id: str
    status: RunStatus
    replay_of: dict[str, Any]
    durability: NotRequired[str]


class WheelArtifact(TypedDict):
    """A registered wheel; without tags it applies to every worker, without a tenant to the runs of all."""

    name: str
    size_bytes: int
    bucket: str
    nuid: str
    modified: float
    tags: list[str]
    sha256_hex: NotRequired[str | None]
    tenant_id: NotRequired[str | None]


class WheelHistoryEvent(TypedDict):
    """An upload or deletion of a wheel, with source and actor."""

    event_id: str
    occurred_at: float
    action: Literal["upload", "delete"]
    wheel_name: str
    tags: list[str]
    source: dict[str, Any]
    actor: dict[str, Any]
    size_bytes: NotRequired[int]
    sha256_hex: NotRequired[str | None]
    nuid: NotRequired[str]
    tenant_id: NotRequired[str | None]


class WheelDeleted(TypedDict):
    """The wheel is deleted."""

    name: str
    deleted: bool


class WheelReceived(TypedDict):
    """A completely downloaded wheel."""

    name: str
    size_bytes: int


class Reason(TypedDict):
    """One reason: a code for programs, a message for people, and the facts behind them."""

    code: str
    message: str
    hint: str
    facts: dict[str, Any]


class RunExplanation(TypedDict):
    """Why a run is not running, or why it ended this way; the most relevant reason first."""

    run_id: str
    status: RunStatus
    summary: str
    reasons: list[Reason]
    queue: NotRequired[dict[str, Any] | None]
    worker: NotRequired[dict[str, Any] | None]
    served_tags: NotRequired[list[dict[str, Any]]]
    dead_letter: NotRequired[dict[str, Any] | None]
