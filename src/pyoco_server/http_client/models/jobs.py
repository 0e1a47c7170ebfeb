"""Answers about jobs, their logs and their tags. Times are strings (RFC 3339, UTC)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

JobStatus = Literal["pending", "running", "completed", "failed", "canceled"]

JOB_ENDS: tuple[JobStatus, ...] = ("completed", "failed", "canceled")


class Job(TypedDict):
    """The current state of a job; in a list it has no `parameters`."""

    id: str
    status: JobStatus
    flow: str
    tag: str | None
    createdAt: str
    startedAt: str | None
    completedAt: str | None
    tags: list[str]
    attempt: int
    parameters: NotRequired[dict[str, Any]]
    result: NotRequired[Any]
    resultTruncated: NotRequired[bool]
    error: NotRequired[Any]
    cancelRequestedAt: NotRequired[str | None]
    timeoutSec: NotRequired[float | None]
    warnings: NotRequired[list[str]]


class JobPage(TypedDict):
    """One page of jobs; it can be short without being the last, which has no `nextToken`."""

    jobs: list[Job]
    nextToken: NotRequired[str | None]


class JobLogEntry(TypedDict):
    """One log line of a job; `n` counts the lines of the job, over all its attempts."""

    timestamp: str
    message: str
    n: int
    task: str | None
    level: str
    stream: str
    attempt: int


class JobLogs(TypedDict):
    """Some lines; `nextToken` continues after them, `complete` says that the job is over and has no more."""

    entries: list[JobLogEntry]
    nextToken: str
    complete: bool


class JobLogReceived(TypedDict):
    """What a download added to a file; `complete`: the file has the whole log of a finished job (None if unknown)."""

    bytes_written: int
    size_bytes: int
    complete: bool | None


class TagCount(TypedDict):
    """A label and the number of jobs that have it."""

    tag: str
    count: int


class TagPage(TypedDict):
    """One page of labels in order; the last has no `nextToken`."""

    tags: list[TagCount]
    nextToken: NotRequired[str | None]
