"""Translates between `/jobs` and the core. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.result import Result, result_of
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery, encode_token
from pyoco_server.http_api.api.jobs.schemas import JobStatus, JobSubmitRequest
from pyoco_server.http_api.protocol import request_parsing
from pyoco_server.http_api.protocol.times import moment, rfc3339

# The index has the statuses of `/runs`. A job that is being cancelled keeps its status until the end.
RUN_STATUSES: Mapping[JobStatus, tuple[str, ...]] = {
    "pending": ("PENDING", "CANCELLING"),
    "running": ("RUNNING", "CANCELLING"),
    "completed": ("COMPLETED",),
    "failed": ("FAILED",),
    "canceled": ("CANCELLED",),
}
_MAX_INTEGER = 2**63 - 1  # the largest integer of SQLite; JSON may hold more
_ENDS: Mapping[str, JobStatus] = {"COMPLETED": "completed", "FAILED": "failed", "CANCELLED": "canceled"}


def submit_request(body: bytes, config: NatsBackendConfig, caller: Caller) -> tuple[Request, tuple[str, ...], bool]:
    asked = request_parsing.read_with_params(JobSubmitRequest, body, config)
    request = request_parsing.request_of(
        caller,
        config,
        flow_name=config.jobs_default_flow if asked.flow is None else asked.flow,
        params=request_parsing.bounded_json(asked.parameters, request_parsing.largest_params(config), "parameters"),
        tag=asked.routing_tag,
        timeout_sec=asked.timeout_sec,
    )
    return request, request_parsing.labels_of(asked.all_labels), asked.strict


def status_of(run: Mapping[str, Any]) -> JobStatus:
    """The status of a snapshot or a summary; an unfinished job runs once it was started."""
    end = _ENDS.get(_text(run.get("status")) or "")
    return end or ("pending" if _number(run.get("start_time")) is None else "running")


def job_out(snapshot: Mapping[str, Any], *, parameters: bool) -> dict[str, Any]:
    """A job from a stored snapshot or from a run's summary, which has no parameters.

    Total: missing and malformed fields are left out.
    """
    tags = snapshot.get("tags")
    job: dict[str, Any] = {
        "id": snapshot["run_id"],
        "status": status_of(snapshot),
        "flow": _text(snapshot.get("flow_name")),
        "tag": _text(snapshot.get("tag")) or None,
        "createdAt": rfc3339(_number(snapshot.get("submitted_at")) or _number(snapshot.get("updated_at")) or 0.0),
        "startedAt": moment(_number(snapshot.get("start_time"))),
        "completedAt": moment(_number(snapshot.get("end_time"))),
        "tags": [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list | tuple) else [],
        "attempt": _integer(snapshot.get("attempt")),
    }
    optional: dict[str, Any] = {
        "error": _text(snapshot.get("error")),
        "cancelRequestedAt": moment(_number(snapshot.get("cancel_requested_at"))),
        "timeoutSec": _number(snapshot.get("timeout_sec")),
    }
    if parameters:
        params = snapshot.get("params")
        optional["parameters"] = params if isinstance(params, Mapping) else {}
    return job | {name: value for name, value in optional.items() if value is not None}


def whole_job_out(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """A job with its parameters and its result, if it has one."""
    job = job_out(snapshot, parameters=True)
    match result_of(snapshot):
        case Result(value, is_truncated):
            job |= {"result": value} | ({"resultTruncated": True} if is_truncated else {})
    return job


def page_out(page: JobPage, query: JobQuery, status: JobStatus | None) -> dict[str, Any]:
    """A page of a list. A job that is being cancelled matches two statuses in the index and has one of them."""
    jobs = [job_out(orjson.loads(run.summary), parameters=False) for run in page.runs]
    shown = [job for job in jobs if status in (None, job["status"])]
    return {"jobs": shown} | _following(page.following, query)


def tags_out(found: Sequence[LabelCount], query: LabelQuery, limit: int) -> dict[str, Any]:
    """A page of tags; more than the limit mean another page."""
    shown = [{"tag": label, "count": runs} for label, runs in found[:limit]]
    return {"tags": shown} | _following(found[limit - 1].label if len(found) > limit else None, query)


def _following(place: str | None, query: JobQuery | LabelQuery) -> dict[str, str]:
    return {} if place is None else {"nextToken": encode_token(place, query)}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _integer(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INTEGER else 0
