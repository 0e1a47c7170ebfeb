"""The shapes of what a gateway answers about jobs, their logs and their tags, in the words of its HTTP.

They are plain dicts at run time and nothing here checks them: a newer gateway may say more than is written here. Times
are texts (RFC 3339, UTC).
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

JobStatus = Literal["pending", "running", "completed", "failed", "canceled"]

JOB_ENDS: tuple[JobStatus, ...] = ("completed", "failed", "canceled")


class Job(TypedDict):
    """A job as it is now; in a list it is without its `parameters`."""

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
    error: NotRequired[Any]
    cancelRequestedAt: NotRequired[str | None]
    timeoutSec: NotRequired[float | None]


class JobPage(TypedDict):
    """One page of jobs; it may be short and not be the last, which has no `nextToken`."""

    jobs: list[Job]
    nextToken: NotRequired[str | None]


class JobLogEntry(TypedDict):
    """One line that a job has written; `n` counts the lines of the job, over all its attempts."""

    timestamp: str
    message: str
    n: int
    task: str | None
    level: str
    stream: str
    attempt: int


class JobLogs(TypedDict):
    """Some lines; `nextToken` goes on behind them, `complete` says that the job is over and there are no more."""

    entries: list[JobLogEntry]
    nextToken: str
    complete: bool


class JobLogReceived(TypedDict):
    """What a download has added to a file; `complete`, where that is known: the file holds all there will ever be."""

    bytes_written: int
    size_bytes: int
    complete: bool | None


class TagCount(TypedDict):
    """A label, and how many jobs have it."""

    tag: str
    count: int


class TagPage(TypedDict):
    """One page of labels, in their order; the last has no `nextToken`."""

    tags: list[TagCount]
    nextToken: NotRequired[str | None]
