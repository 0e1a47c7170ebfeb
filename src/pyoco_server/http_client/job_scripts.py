"""How to read jobs, their tags and their logs to the end: the logic of both clients, without their I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from pyoco_server.http_client import job_calls
from pyoco_server.http_client.call_parts import Call, Words
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Script, Sleep
from pyoco_server.http_client.errors import PyocoClientError
from pyoco_server.http_client.job_shapes import JOB_ENDS, Job, JobLogEntry, JobLogs, JobStatus
from pyoco_server.http_client.scripts import all_items, send, within
from pyoco_server.http_client.sse import ServerEvent
from pyoco_server.http_client.streaming import Stream
from pyoco_server.http_client.watching import SETTLING_SEC

# What an answer may take beyond the time that was waited at the gateway.
ANSWER_SEC = 10.0
LINE, END = "logEntry", "end"


def all_jobs(connection: Connection, *, tags: Words, status: str | None, limit: int) -> Script[None]:
    """Tells every job that matches, page after page."""

    def page_at(token: str) -> Call[Any]:
        return job_calls.list_jobs(tags=tags, status=status, limit=limit, next_token=token)

    yield from all_items(page_at, connection, "nextToken", "jobs")


def all_tags(connection: Connection, *, prefix: str, limit: int) -> Script[None]:
    """Tells every label that jobs have, page after page."""

    def page_at(token: str) -> Call[Any]:
        return job_calls.list_tags(prefix=prefix, limit=limit, next_token=token)

    yield from all_items(page_at, connection, "nextToken", "tags")


def logs(connection: Connection, call: Call[JobLogs], wait_sec: float) -> Script[JobLogs]:
    """A page of lines. The time that is waited at the gateway is not counted as its silence, nor as trouble."""
    patience = replace(connection.patience, within_sec=connection.patience.within_sec + wait_sec)
    silence_sec = max(connection.timeout_sec, wait_sec + ANSWER_SEC)
    return (yield from send(call, replace(connection, patience=patience), silence_sec=silence_sec))


@dataclass(slots=True, kw_only=True)
class LogTail(Stream):
    """The stream of what a job writes. `status` and `job` are how it ended, once that was told."""

    job_id: str
    since_token: str | None = None
    tail: int | None = None
    task: str | None = None
    level: str | None = None
    status: JobStatus | None = None
    job: Job | None = None

    def follow(self) -> Script[None]:
        """Tells every line with its place, those that are there and those that come, until the job is over and all
        were told."""
        while True:
            failure = yield from self.connect_and_listen()
            if self.told_all or self.has_ended():
                break
            yield Sleep(self.pause(failure))
        yield from self._look_at_the_end()

    def ask(self) -> Call[str]:
        return job_calls.follow_job_logs(
            self.job_id,
            self.last_event_id,
            since_token=self.since_token,
            tail=self.tail,
            task=self.task,
            level=self.level,
        )

    def read(self, event: ServerEvent, data: dict[str, Any]) -> tuple[str, JobLogEntry] | None:
        if event.event == END:
            self.status = cast("JobStatus", data.get("status"))
        return (event.id, cast("JobLogEntry", data)) if event.event == LINE else None

    def has_ended(self) -> bool:
        return self.status is not None

    def _look_at_the_end(self) -> Script[None]:
        """The job as reads show it: a stream may be some milliseconds ahead of them, and whoever has followed a job to
        its end must not be shown it running when they look."""
        for pause in SETTLING_SEC:
            try:
                job = yield from send(job_calls.get_job(self.job_id), within(self.connection, pause))
            except PyocoClientError:
                return  # the end is known; what cannot be read now does not change it
            if job.get("status") in JOB_ENDS:
                self.job, self.status = job, self.status or job["status"]
                return
            yield Sleep(pause)
