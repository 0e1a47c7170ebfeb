"""The SDK: a blocking and an async client of the gateway's HTTP API. Imports nothing of the server.

Clients and errors are imported on first use, so that importing the package costs little.
"""

# ruff: noqa: F403, F405  # the names are listed once, in __all__
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyoco_server.http_client.connection import Timing
from pyoco_server.http_client.models.executions import *
from pyoco_server.http_client.models.flows import *
from pyoco_server.http_client.models.jobs import *
from pyoco_server.http_client.models.overview import *
from pyoco_server.http_client.models.runs import *
from pyoco_server.http_client.models.strategies import *

if TYPE_CHECKING:
    from pyoco_server.http_client._async.client import AsyncPyocoHttpClient
    from pyoco_server.http_client._async.streams import AsyncJobLogStream
    from pyoco_server.http_client._sync.client import PyocoHttpClient
    from pyoco_server.http_client._sync.streams import JobLogStream
    from pyoco_server.http_client.errors import *

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
    "FlowDetails",
    "FlowPage",
    "FlowParam",
    "FlowSummary",
    "FlowVersion",
    "Forbidden",
    "GatewayFailed",
    "GatewayHealth",
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
    "NamedRun",
    "NodeStatus",
    "NotFound",
    "OrphanPossible",
    "Overview",
    "PyocoClientError",
    "PyocoHttpClient",
    "PyocoHttpError",
    "Queue",
    "RateLimited",
    "Reason",
    "RecentRuns",
    "Recheck",
    "RecheckProgress",
    "RecheckRuns",
    "RecheckSummary",
    "Replayed",
    "Rerun",
    "RunAccepted",
    "RunExplanation",
    "RunLogs",
    "RunNotFound",
    "RunPage",
    "RunSnapshot",
    "RunStatus",
    "RunSummary",
    "RunTasks",
    "RunTotals",
    "RunWatchEvent",
    "Stats",
    "StatsPoint",
    "StrategyArtifact",
    "StrategyAverages",
    "StrategyDetails",
    "StrategyListed",
    "StrategyPage",
    "StrategyResult",
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
