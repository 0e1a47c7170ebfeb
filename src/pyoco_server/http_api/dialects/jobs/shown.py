"""A job and a line of its log as `/jobs` shows them. Pure; whatever is not there is shown as nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyoco_server.application.log_parts import NumberedLine
from pyoco_server.http_api.times import moment, rfc3339

_ENDS = {"COMPLETED": "completed", "FAILED": "failed", "CANCELLED": "canceled"}


def status_of(run: Mapping[str, Any]) -> str:
    """The status of a snapshot; what is not finished is running once it was begun."""
    return _ENDS.get(run["status"]) or ("pending" if run.get("start_time") is None else "running")


def job_out(snapshot: Mapping[str, Any], *, parameters: bool) -> dict[str, Any]:
    """A job as users see it."""
    optional = {
        "error": snapshot.get("error"),
        "cancelRequestedAt": moment(snapshot.get("cancel_requested_at")),
        "timeoutSec": snapshot.get("timeout_sec"),
        "parameters": snapshot.get("params") if parameters else None,
    }
    return {
        "id": snapshot["run_id"],
        "status": status_of(snapshot),
        "flow": snapshot["flow_name"],
        "tag": snapshot["tag"],
        "createdAt": rfc3339(snapshot["submitted_at"]),
        "startedAt": moment(snapshot.get("start_time")),
        "completedAt": moment(snapshot.get("end_time")),
        "tags": snapshot["tags"],
        "attempt": snapshot["attempt"],
        **{name: value for name, value in optional.items() if value is not None},
    }


def entry_out(numbered: NumberedLine) -> dict[str, Any]:
    """A line of a log."""
    line = numbered.line
    return {
        "timestamp": rfc3339(line.at),
        "message": line.text,
        "n": numbered.number,
        "task": line.task,
        "level": line.level,
        "stream": line.stream,
        "attempt": numbered.attempt,
    }
