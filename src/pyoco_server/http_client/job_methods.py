"""What can be asked about jobs, as blocking methods; what they do stands in the scripts."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from pyoco_server.http_client import job_calls as calls
from pyoco_server.http_client.asking import Asker
from pyoco_server.http_client.call_parts import Words
from pyoco_server.http_client.job_log_files import LogTarget, log_file
from pyoco_server.http_client.job_log_streams import JobLogStream
from pyoco_server.http_client.job_shapes import Job, JobLogReceived, JobLogs, JobPage, TagCount, TagPage


class JobMethods(Asker):
    """Jobs: have one done, look at them, read and follow their logs, and find them by their tags."""

    def submit_job(
        self,
        parameters: Mapping[str, Any] | None = None,
        *,
        flow: str | None = None,
        tag: str | None = None,
        tags: Words = (),
        timeout_sec: float | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Have a job done: by the gateway's default flow, or by `flow` on workers of `tag`. `tags` are its labels.

        A job that takes longer than `timeout_sec` is stopped and failed; time in the queue does not count.
        """
        return self._send(calls.submit_job(parameters, flow, tag, tags, timeout_sec, idempotency_key))

    def get_job(self, job_id: str) -> Job:
        """The job as it is now, with its parameters."""
        return self._send(calls.get_job(job_id))

    def list_jobs(
        self, *, tags: Words = (), status: str | None = None, limit: int = 50, next_token: str | None = None
    ) -> JobPage:
        """One page of jobs that have all of `tags`, newest first; its `nextToken`, given as `next_token`, brings the
        next. A page may be short, even empty, and not be the last."""
        return self._send(calls.list_jobs(tags=tags, status=status, limit=limit, next_token=next_token))

    def iter_jobs(self, *, tags: Words = (), status: str | None = None, limit: int = 50) -> Generator[Job, None, None]:
        """All jobs that match, newest first, page after page of `limit` each."""
        from pyoco_server.http_client import job_scripts

        return self._tell(job_scripts.all_jobs(self._connection, tags=tags, status=status, limit=limit))

    def delete_job(self, job_id: str, *, idempotency_key: str | None = None) -> None:
        """Cancel a job that is not over, or take one that is out of the lists. Also done when there is no such job."""
        self._send(calls.delete_job(job_id, idempotency_key))

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
        """What the job has written so far, from a token on, or its last `tail` lines; of one task, or of one level and
        what is more severe. With `wait_sec` (30 at most) the gateway waits so long for the first line."""
        from pyoco_server.http_client import job_scripts

        call = calls.job_logs(job_id, since_token, limit=limit, tail=tail, task=task, level=level, wait_sec=wait_sec)
        return self._run(job_scripts.logs(self._connection, call, wait_sec))

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
        """Every line that the job has written and writes, as it writes them, until it is over; `status` is then how.

        `after`: the `place` of an earlier one, which goes on there. A lost connection is made again and goes on where
        it was lost.
        """
        from pyoco_server.http_client import job_scripts

        following = job_scripts.LogTail(
            connection=self._connection,
            job_id=job_id,
            since_token=since_token,
            tail=tail,
            task=task,
            level=level,
            last_event_id=after or "",
        )
        return JobLogStream(following, self._tell(following.follow()))

    def download_job_log(self, job_id: str, file: LogTarget, *, resume: bool = True) -> JobLogReceived:
        """Write the log as text to a path or into an open file, which goes on where it ends; without `resume` anew.

        Connections that break are made again. A file that cannot be the beginning of this log is a ValueError.
        """
        from pyoco_server.http_client import job_log_download

        with log_file(file, resume=resume) as log:
            download = job_log_download.LogDownload(connection=self._connection, job_id=job_id, position=log.size)
            for place, piece in self._tell(download.run()):
                log.write(place, piece)
            log.finish()
        return {"bytes_written": log.written, "size_bytes": log.size, "complete": download.complete}

    def job_tags(self, job_id: str) -> list[str]:
        """The labels of a job."""
        return self._send(calls.job_tags(job_id))

    def add_job_tag(self, job_id: str, tag: str, *, idempotency_key: str | None = None) -> list[str]:
        """Give a job a label, be it finished or not; all that it has then. One that it has already is no error."""
        return self._send(calls.add_job_tag(job_id, tag, idempotency_key))

    def remove_job_tag(self, job_id: str, tag: str, *, idempotency_key: str | None = None) -> None:
        """Take a label from a job; one that it does not have is no error."""
        self._send(calls.remove_job_tag(job_id, tag, idempotency_key))

    def list_tags(self, prefix: str = "", limit: int = 100, *, next_token: str | None = None) -> TagPage:
        """The labels that jobs have and how many have each, by label, one page; its `nextToken`, given as
        `next_token`, brings the next."""
        return self._send(calls.list_tags(prefix=prefix, limit=limit, next_token=next_token))

    def iter_tags(self, prefix: str = "", limit: int = 100) -> Generator[TagCount, None, None]:
        """All labels that begin so, page after page of `limit` each."""
        from pyoco_server.http_client import job_scripts

        return self._tell(job_scripts.all_tags(self._connection, prefix=prefix, limit=limit))
