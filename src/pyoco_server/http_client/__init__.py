"""The SDK: a blocking and an async client of the gateway's HTTP API. Imports nothing of the server.

Clients and errors are imported on first use, so that importing the package costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyoco_server.http_client.connection import Timing
from pyoco_server.http_client.models.executions import (
    EXECUTION_ENDS,
    Claim,
    CommandAccepted,
    EventPage,
    ExecutionEvent,
    ExecutionNode,
    ExecutionPage,
    ExecutionSnapshot,
    ExecutionStatus,
    ExecutionSummary,
    GraphDocument,
    GraphPage,
    GraphSummary,
    NodeStatus,
    WaitingNode,
    WaitPage,
)
from pyoco_server.http_client.models.jobs import (
    JOB_ENDS,
    Job,
    JobLogEntry,
    JobLogReceived,
    JobLogs,
    JobPage,
    JobStatus,
    TagCount,
    TagPage,
)
from pyoco_server.http_client.models.runs import (
    TERMINAL,
    DeadLetter,
    DeadLetterPage,
    Health,
    LogEntry,
    Reason,
    Replayed,
    RunAccepted,
    RunExplanation,
    RunLogs,
    RunPage,
    RunSnapshot,
    RunStatus,
    RunSummary,
    RunTasks,
    RunWatchEvent,
    TaskStatus,
    WheelArtifact,
    WheelDeleted,
    WheelHistoryEvent,
    WheelReceived,
    WorkerPatched,
    WorkerRecord,
    WorkerState,
)

if TYPE_CHECKING:
    from pyoco_server.http_client._async.client import AsyncPyocoHttpClient
    from pyoco_server.http_client._async.streams import AsyncJobLogStream
    from pyoco_server.http_client._sync.client import PyocoHttpClient
    from pyoco_server.http_client._sync.streams import JobLogStream
    from pyoco_server.http_client.errors import (
        CommandRejected,
        Conflict,
        Forbidden,
        GatewayFailed,
        GatewayUnreachable,
        GraphNotFound,
        GraphVersionConflict,
        IdempotencyConflict,
        InvalidRequest,
        NotFound,
        OrphanPossible,
        PyocoClientError,
        PyocoHttpError,
        RunNotFound,
        SubmitUncertain,
        TooLarge,
        Unauthenticated,
        Unavailable,
        UnexpectedAnswer,
        WaitTimeout,
        WheelNotFound,
        WheelVersionConflict,
        WorkerNotFound,
    )

__all__ = [
    "EXECUTION_ENDS",
    "JOB_ENDS",
    "TERMINAL",
    "AsyncJobLogStream",
    "AsyncPyocoHttpClient",
    "Claim",
    "CommandAccepted",
    "CommandRejected",
    "Conflict",
    "DeadLetter",
    "DeadLetterPage",
    "EventPage",
    "ExecutionEvent",
    "ExecutionNode",
    "ExecutionPage",
    "ExecutionSnapshot",
    "ExecutionStatus",
    "ExecutionSummary",
    "Forbidden",
    "GatewayFailed",
    "GatewayUnreachable",
    "GraphDocument",
    "GraphNotFound",
    "GraphPage",
    "GraphSummary",
    "GraphVersionConflict",
    "Health",
    "IdempotencyConflict",
    "InvalidRequest",
    "Job",
    "JobLogEntry",
    "JobLogReceived",
    "JobLogStream",
    "JobLogs",
    "JobPage",
    "JobStatus",
    "LogEntry",
    "NodeStatus",
    "NotFound",
    "OrphanPossible",
    "PyocoClientError",
    "PyocoHttpClient",
    "PyocoHttpError",
    "Reason",
    "Replayed",
    "RunAccepted",
    "RunExplanation",
    "RunLogs",
    "RunNotFound",
    "RunPage",
    "RunSnapshot",
    "RunStatus",
    "RunSummary",
    "RunTasks",
    "RunWatchEvent",
    "SubmitUncertain",
    "TagCount",
    "TagPage",
    "TaskStatus",
    "Timing",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "WaitPage",
    "WaitTimeout",
    "WaitingNode",
    "WheelArtifact",
    "WheelDeleted",
    "WheelHistoryEvent",
    "WheelNotFound",
    "WheelReceived",
    "WheelVersionConflict",
    "WorkerNotFound",
    "WorkerPatched",
    "WorkerRecord",
    "WorkerState",
]

_MODULES = {
    "AsyncJobLogStream": "_async.streams",
    "AsyncPyocoHttpClient": "_async.client",
    "JobLogStream": "_sync.streams",
    "PyocoHttpClient": "_sync.client",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
