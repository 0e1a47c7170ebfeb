"""Translates between `/pdca` and the core. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.domain.execution.state import Status
from pyoco_server.domain.pdca.ids import ulid_of
from pyoco_server.domain.pdca.recheck import ENGINE_UNREACHABLE, is_stopping, unreachable_since
from pyoco_server.http_api.protocol.times import rfc3339
from pyoco_server.japanese import japanese
from pyoco_server.services.pdca.requests import Accepted, Shown

# A response is to have a megabyte at most. Two thousand are one for each batch of the largest request.
MAX_ARTIFACTS = 2_000
STILL_STOPPING = "canceled; its batches are stopped as soon as the engine answers"
_STATUSES = {
    Status.ACTIVE: "running",
    Status.COMPLETED: "success",
    Status.FAILED: "failed",
    Status.CANCELED: "failed",
}


def accepted_out(accepted: Accepted) -> dict[str, Any]:
    return {
        "status": "accepted",
        "request_id": ulid_of(accepted.request_id),
        "estimated": {"strategies": accepted.strategies, "batches": accepted.batches},
        "dag": {"name": accepted.engine, "run_id": accepted.first_run},
    }


def status_out(shown: Shown, language: str) -> dict[str, Any]:
    execution, progress = shown.execution, shown.progress
    since = unreachable_since(execution)
    plain: dict[str, Any] = {
        "request_id": ulid_of(execution.execution_id),
        "status": _STATUSES[execution.status],
        "submitted_at": rfc3339(execution.created_at or execution.updated_at),
        "progress": {
            "total_batches": progress.total_batches,
            "completed_batches": progress.completed_batches,
            "total_strategies": progress.total_strategies,
            "completed_strategies": progress.completed_strategies,
        },
        "summary": {
            "success": progress.success,
            "failed": progress.failed,
            "health": {health.value: count for health, count in progress.health.items()},
        },
        "last_update": rfc3339(progress.last_update),
        "artifacts": [msgspec.to_builtins(artifact) for artifact in progress.artifacts[:MAX_ARTIFACTS]],
        "dag": {"name": shown.engine, "run_ids": shown.runs},
    }
    if len(progress.artifacts) > MAX_ARTIFACTS:
        plain["artifacts_truncated"] = True
    if since is not None:
        plain["note"] = f"{ENGINE_UNREACHABLE}{since}"
    elif is_stopping(execution):
        plain["note"] = japanese(STILL_STOPPING) if language == "ja" else STILL_STOPPING
    return plain
