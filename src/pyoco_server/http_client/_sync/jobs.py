# Generated from _async/jobs.py by scripts/unasync. Do not edit.
"""Methods for jobs: submit, read, list, delete, logs, tags."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from pyoco_server.http_client._sync.base import Methods
from pyoco_server.http_client.files import FileTarget, open_log
from pyoco_server.http_client.models.jobs import Job, JobLogReceived, JobLogs, JobPage, TagCount, TagPage
from pyoco_server.http_client.requests import (
    AsOf,
    Request,
    Strings,
    Time,
    change,
    get,
    job_path,
    ranges,
    read_array,
    read_nothing,
    read_page,
    tag_path,
    to_strings,
    to_time,
)

if TYPE_CHECKING:
    from pyoco_server.http_client._sync.streams import JobLogStream


class JobMethods(Methods):
    def submit_job(
        self,
        parameters: Mapping[str, Any] | None = None,
        *,
        flow: str | None = None,
        tag: str | None = None,
        tags: Strings = (),
        timeout_sec: float | None = None,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> Job:
        """Submit a job for the gateway's default flow, or for `flow` on workers of `tag`. `tags` are its labels.

        A job that takes longer than `timeout_sec` is stopped and failed; time in the queue does not count.
        `strict`: InvalidRequest for an unknown flow, parameter or tag, as far as the running workers announce all of
        their flows; otherwise the answer has `warnings`.
        """
        body = {
            "parameters": dict(parameters or {}),
            "tags": to_strings(tags) or None,
            "flow": flow,
            "tag": tag,
            "timeout_sec": timeout_sec,
            "strict": strict or None,
        }
        return self._transport.send(change("POST", "/jobs", idempotency_key, body, creates=True))

    def get_job(self, job_id: str, at: AsOf | None = None) -> Job:
        """The current state of a job, or its state at a time or a version; with its parameters."""
        return self._transport.send(get(job_path(job_id), at=to_time(at)))

    def list_jobs(
        self,
        *,
        tags: Strings = (),
        status: str | None = None,
        limit: int = 50,
        next_token: str | None = None,
        submitted_after: Time | None = None,
        submitted_before: Time | None = None,
        id_prefix: str | None = None,
    ) -> JobPage:
        """One page of jobs that have all of `tags`, newest first; pass its `nextToken` as `next_token` to get the next
        page. A page can be short or empty without being the last.

        Submitted at `submitted_after` or later, and earlier than `submitted_before`.
        """
        return self._transport.send(
            get(
                "/jobs",
                read=read_page("jobs"),
                tag=tags,
                status=status,
                limit=limit,
                nextToken=next_token or None,
                **ranges(submitted_after, submitted_before, id_prefix),
            )
        )

    def iter_jobs(
        self,
        *,
        tags: Strings = (),
        status: str | None = None,
        limit: int = 50,
        submitted_after: Time | None = None,
        submitted_before: Time | None = None,
        id_prefix: str | None = None,
    ) -> Generator[Job, None, None]:
        """All matching jobs, newest first, in pages of `limit`."""
        request: Request[Any] = get(
            "/jobs",
            read=read_page("jobs"),
            tag=tags,
            status=status,
            limit=limit,
            **ranges(submitted_after, submitted_before, id_prefix),
        )
        return self._transport.pages(request, "nextToken", "nextToken", "jobs")

    def delete_job(self, job_id: str, *, idempotency_key: str | None = None) -> None:
        """Cancel an unfinished job, or remove a finished one from the lists. Succeeds if the job does not exist."""
        self._transport.send(change("DELETE", job_path(job_id), idempotency_key, read=read_nothing))

    def job_logs(
        self,
        job_id: str,
        *,
        since_token: str | None = None,
        limit: int = 1000,
        tail: int | None = None,
        task: str | None = None,
        level: str | None = None,
        wait_sec: float = 0,
    ) -> JobLogs:
        """The log lines so far, from a token on, or the last `tail` lines; of one task, or of one level and above. With
        `wait_sec` (30 at most) the gateway waits that long for the first line."""
        return self._transport.send(
            get(
                f"{job_path(job_id)}/logs",
                read=read_page("entries"),
                hold_sec=wait_sec,
                sinceToken=since_token or None,
                limit=limit,
                tail=tail,
                task=task,
                level=level,
                waitSec=wait_sec or None,
            )
        )

    def follow_job_logs(
        self,
        job_id: str,
        *,
        since_token: str | None = None,
        tail: int | None = None,
        task: str | None = None,
        level: str | None = None,
        after: str | None = None,
    ) -> JobLogStream:
        """All log lines of a job as they are written, until it is over; then `status` is how it ended.

        `after`: the `place` of an earlier stream, to continue there. A lost connection is opened again and resumes
        where it was lost.
        """
        return self._streams.follow_job_logs(
            job_id, after, sinceToken=since_token or None, tail=tail, task=task, level=level
        )

    def download_job_log(self, job_id: str, file: FileTarget, *, resume: bool = True) -> JobLogReceived:
        """Append the log as text to a path or an open file that has its beginning; without `resume`, write it anew.

        Lost connections are opened again. A file that cannot be the beginning of this log is a ValueError.
        """
        with open_log(file, resume=resume) as log:
            complete = self._transfers.download_job_log(job_id, log)
            log.finish()
        return {"bytes_written": log.written, "size_bytes": log.size, "complete": complete}

    def job_tags(self, job_id: str) -> list[str]:
        """The labels of a job."""
        return self._transport.send(get(f"{job_path(job_id)}/tags", read=read_array))

    def add_job_tag(self, job_id: str, tag: str, *, idempotency_key: str | None = None) -> list[str]:
        """Add a label to a job, finished or not, and return all its labels. Adding one twice is no error."""
        return self._transport.send(
            change("POST", f"{job_path(job_id)}/tags", idempotency_key, {"tag": tag}, read=read_array)
        )

    def remove_job_tag(self, job_id: str, tag: str, *, idempotency_key: str | None = None) -> None:
        """Remove a label from a job; removing one that it does not have is no error."""
        path = tag_path(f"{job_path(job_id)}/tags", tag)
        self._transport.send(change("DELETE", path, idempotency_key, read=read_nothing))

    def list_tags(self, prefix: str = "", limit: int = 100, *, next_token: str | None = None) -> TagPage:
        """One page of the labels of all jobs with their counts, by label; pass its `nextToken` as `next_token` to get
        the next page."""
        return self._transport.send(
            get("/tags", read=read_page("tags"), prefix=prefix or None, limit=limit, nextToken=next_token or None)
        )

    def iter_tags(self, prefix: str = "", limit: int = 100) -> Generator[TagCount, None, None]:
        """All labels with this prefix, in pages of `limit`."""
        request: Request[Any] = get("/tags", read=read_page("tags"), prefix=prefix or None, limit=limit)
        return self._transport.pages(request, "nextToken", "nextToken", "tags")
