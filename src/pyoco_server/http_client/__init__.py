"""The SDK: a client of the gateway for programs, blocking and async. Knows nothing of the server but its HTTP.

Names are loaded when they are used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.http_client.async_client import AsyncPyocoHttpClient
    from pyoco_server.http_client.client import PyocoHttpClient
    from pyoco_server.http_client.connection import Timing
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
    from pyoco_server.http_client.execution_shapes import (
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
    from pyoco_server.http_client.job_log_streams import AsyncJobLogStream, JobLogStream
    from pyoco_server.http_client.job_shapes import (
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
    from pyoco_server.http_client.shapes import (
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

_HOME = {
    "AsyncJobLogStream": "job_log_streams",
    "AsyncPyocoHttpClient": "async_client",
    "JobLogStream": "job_log_streams",
    "PyocoHttpClient": "client",
    "Timing": "connection",
}
_JOB_SHAPES = (
    "JOB_ENDS",
    "Job",
    "JobLogEntry",
    "JobLogReceived",
    "JobLogs",
    "JobPage",
    "JobStatus",
    "TagCount",
    "TagPage",
)
_EXECUTION_SHAPES = (
    "EXECUTION_ENDS",
    "Claim",
    "CommandAccepted",
    "EventPage",
    "ExecutionEvent",
    "ExecutionNode",
    "ExecutionPage",
    "ExecutionSnapshot",
    "ExecutionStatus",
    "ExecutionSummary",
    "GraphDocument",
    "GraphPage",
    "GraphSummary",
    "NodeStatus",
    "WaitPage",
    "WaitingNode",
)
_SHAPES = (
    "DeadLetter",
    "DeadLetterPage",
    "Health",
    "LogEntry",
    "Reason",
    "Replayed",
    "RunAccepted",
    "RunExplanation",
    "RunLogs",
    "RunPage",
    "RunSnapshot",
    "RunStatus",
    "RunSummary",
    "RunTasks",
    "RunWatchEvent",
    "TERMINAL",
    "TaskStatus",
    "WheelArtifact",
    "WheelDeleted",
    "WheelHistoryEvent",
    "WheelReceived",
    "WorkerPatched",
    "WorkerRecord",
    "WorkerState",
)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_home(name)}"), name)
    globals()[name] = value
    return value


def _home(name: str) -> str:
    if name in _EXECUTION_SHAPES:
        return "execution_shapes"
    if name in _JOB_SHAPES:
        return "job_shapes"
    return _HOME.get(name) or ("shapes" if name in _SHAPES else "errors")


def __dir__() -> list[str]:
    return sorted(__all__)
