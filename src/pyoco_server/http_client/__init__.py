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
        Conflict,
        Forbidden,
        GatewayFailed,
        GatewayUnreachable,
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
    "TERMINAL",
    "AsyncPyocoHttpClient",
    "Conflict",
    "DeadLetter",
    "DeadLetterPage",
    "Forbidden",
    "GatewayFailed",
    "GatewayUnreachable",
    "Health",
    "IdempotencyConflict",
    "InvalidRequest",
    "LogEntry",
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
    "TaskStatus",
    "Timing",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "WaitTimeout",
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

_HOME = {"AsyncPyocoHttpClient": "async_client", "PyocoHttpClient": "client", "Timing": "connection"}
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
    home = _HOME.get(name) or ("shapes" if name in _SHAPES else "errors")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
