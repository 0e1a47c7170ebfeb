"""The lines of a job as they come, with how it ended: what following a log gives to users of either client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING

from pyoco_server.http_client.job_shapes import Job, JobLogEntry, JobStatus

if TYPE_CHECKING:
    from pyoco_server.http_client.job_scripts import LogTail


Placed = tuple[str, JobLogEntry]


class _Followed:
    """How far a log was followed, and how its job ended."""

    def __init__(self, tail: LogTail) -> None:
        self._tail = tail
        self._place = tail.last_event_id or None

    def _told(self, placed: Placed) -> JobLogEntry:
        self._place, entry = placed
        return entry

    @property
    def status(self) -> JobStatus | None:
        """How the job ended; None until its last line was told."""
        return self._tail.status

    @property
    def job(self) -> Job | None:
        """The job as it ended; None until then, and where it could not be read."""
        return self._tail.job

    @property
    def place(self) -> str | None:
        """Behind the last line that was told: given as `after` it goes on there; None before the first."""
        return self._place


class JobLogStream(_Followed):
    """An iterator over lines, to be closed by whoever stops early; a `with` does that."""

    def __init__(self, tail: LogTail, lines: Generator[Placed, None, None]) -> None:
        super().__init__(tail)
        self._lines = lines

    def __iter__(self) -> JobLogStream:
        return self

    def __next__(self) -> JobLogEntry:
        return self._told(next(self._lines))

    def __enter__(self) -> JobLogStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the following; the job goes on."""
        self._lines.close()


class AsyncJobLogStream(_Followed):
    """An async iterator over lines, to be closed by whoever stops early; an `async with` does that."""

    def __init__(self, tail: LogTail, lines: AsyncGenerator[Placed, None]) -> None:
        super().__init__(tail)
        self._lines = lines

    def __aiter__(self) -> AsyncJobLogStream:
        return self

    async def __anext__(self) -> JobLogEntry:
        return self._told(await anext(self._lines))

    async def __aenter__(self) -> AsyncJobLogStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the following; the job goes on."""
        await self._lines.aclose()
