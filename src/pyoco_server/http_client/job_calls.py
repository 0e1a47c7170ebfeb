"""What to ask about jobs, their logs and their tags, one function per endpoint. Nothing here sends anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pyoco_server.http_client import call_parts as parts
from pyoco_server.http_client.call_parts import Call, Words
from pyoco_server.http_client.job_shapes import Job, JobLogs, JobPage, TagPage

_AS_BYTES = {"Accept": "text/plain", "Accept-Encoding": "identity"}


def submit_job(
    parameters: Mapping[str, Any] | None,
    flow: str | None = None,
    tag: str | None = None,
    tags: Words = None,
    timeout_sec: float | None = None,
    idempotency_key: str | None = None,
) -> Call[Job]:
    given = {"tags": parts.words(tags) or None, "flow": flow, "tag": tag, "timeout_sec": timeout_sec}
    body = {"parameters": dict(parameters or {})} | {name: one for name, one in given.items() if one is not None}
    key = parts.key(idempotency_key)
    return Call(
        method="POST", path="/jobs", read=parts.read_object, idempotency_key=key, makes=True, **parts.json_body(body)
    )


def get_job(job_id: str) -> Call[Job]:
    return Call(method="GET", path=_job(job_id), read=parts.read_object)


def list_jobs(*, tags: Words, status: str | None, limit: int | None, next_token: str | None) -> Call[JobPage]:
    query = parts.query(tag=tags, status=status, limit=limit, nextToken=next_token or None)
    return Call(method="GET", path="/jobs", read=parts.read_list("jobs"), query=query)


def delete_job(job_id: str, idempotency_key: str | None = None) -> Call[None]:
    key = parts.key(idempotency_key)
    return Call(method="DELETE", path=_job(job_id), read=parts.read_nothing, idempotency_key=key)


def job_logs(job_id: str, since_token: str | None, *, wait_sec: float = 0, **wanted: Any) -> Call[JobLogs]:
    query = parts.query(sinceToken=since_token or None, **wanted, waitSec=wait_sec or None)
    return Call(method="GET", path=f"{_job(job_id)}/logs", read=parts.read_list("entries"), query=query)


def job_log_text(job_id: str, first_byte: int) -> Call[str]:
    """The log as bytes, from one of them on."""
    headers = _AS_BYTES | ({"Range": f"bytes={first_byte}-"} if first_byte else {})
    return Call(method="GET", path=f"{_job(job_id)}/logs", read=parts.read_text, headers=headers)


def look_at_job_log(job_id: str) -> Call[str]:
    """How many bytes the log has, and whether it will have more."""
    return Call(method="HEAD", path=f"{_job(job_id)}/logs", read=parts.read_text, headers=_AS_BYTES)


def follow_job_logs(
    job_id: str, last_event_id: str, *, since_token: str | None, tail: int | None, **filters: Any
) -> Call[str]:
    """The log as a stream. Once a line has been heard its id says where to go on, and the rest has had its time."""
    headers = dict(parts.EVENT_STREAM)
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
        since_token = tail = None
    query = parts.query(sinceToken=since_token or None, tail=tail, **filters)
    return Call(method="GET", path=f"{_job(job_id)}/logs/stream", read=parts.read_text, query=query, headers=headers)


def job_tags(job_id: str) -> Call[list[str]]:
    return Call(method="GET", path=f"{_job(job_id)}/tags", read=parts.read_array)


def add_job_tag(job_id: str, tag: str, idempotency_key: str | None = None) -> Call[list[str]]:
    path, key = f"{_job(job_id)}/tags", parts.key(idempotency_key)
    return Call(method="POST", path=path, read=parts.read_array, idempotency_key=key, **parts.json_body({"tag": tag}))


def remove_job_tag(job_id: str, tag: str, idempotency_key: str | None = None) -> Call[None]:
    path, key = f"{_job(job_id)}/tags/{_tag(tag)}", parts.key(idempotency_key)
    return Call(method="DELETE", path=path, read=parts.read_nothing, idempotency_key=key)


def list_tags(*, prefix: str, limit: int | None, next_token: str | None) -> Call[TagPage]:
    query = parts.query(prefix=prefix or None, limit=limit, nextToken=next_token or None)
    return Call(method="GET", path="/tags", read=parts.read_list("tags"), query=query)


def _job(job_id: str) -> str:
    return f"/jobs/{parts.segment('job_id', job_id)}"


def _tag(tag: str) -> str:
    """The rest of a path: a label may hold slashes. One with dots alone between them is refused: whoever folds those on
    the way would ask for the end of the job instead."""
    if not tag or not tag.isprintable() or any(part in (".", "..") for part in tag.split("/")):
        raise ValueError(f"tag is not a label that can stand in a path: {tag[:80]!r}")
    return quote(tag, safe="")
