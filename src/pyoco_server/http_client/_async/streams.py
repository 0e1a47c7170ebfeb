"""Server-sent events over any number of connections, and what is built on them: watch, wait, events, job logs.

             ┌──────────── pause ◀── lost, ended, 5xx ───┐
             ▼                                           │
start ──▶ connect (Last-Event-ID) ── 200 ──▶ read ───────┤
             │                                           └─ final event, or deadline ──▶ done
             ├─ 204: complete ──▶ done
             └─ 4xx, not a stream ──▶ error
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

from pyoco_server.http_client import answers
from pyoco_server.http_client._async.transport import AsyncTransport
from pyoco_server.http_client.answers import Failure
from pyoco_server.http_client.errors import (
    NotFound,
    PyocoClientError,
    RunNotFound,
    Unavailable,
    UnexpectedAnswer,
    WaitTimeout,
)
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.models.executions import EXECUTION_ENDS, ExecutionEvent
from pyoco_server.http_client.models.jobs import JOB_ENDS, Job, JobLogEntry, JobStatus
from pyoco_server.http_client.models.runs import TERMINAL, RunSnapshot, RunWatchEvent
from pyoco_server.http_client.requests import Request, Strings, execution_path, get, get_stream, job_path, run_path
from pyoco_server.http_client.retrying import Retry
from pyoco_server.http_client.sse import ServerEvent, SseParser

# A gateway sends something far more often; a stream that is silent for so long is dead, whatever TCP reports.
SILENCE_SEC = 45.0
NO_CONTENT = 204
MAX_WATCH_SEC = 600
FIRST_POLL_SEC = 0.2
MAX_POLL_SEC = 2.0
# A stream can be some milliseconds ahead of reads; these are the pauses until a read shows the end too.
SETTLING_SEC = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class AsyncEventStream(ABC):
    """One stream over all its connections. Resumes after the last event that was received."""

    def __init__(self, transport: AsyncTransport, *, last_event_id: str = "", deadline: float | None = None) -> None:
        self.transport = transport
        self.last_event_id = last_event_id
        self.deadline = deadline
        self.is_complete = False
        self._has_events = False
        self._asked_sec: float | None = None
        self._retry = Retry(transport.connection)
        self._retry.progress()  # the time for retries begins with the first failure

    @abstractmethod
    def request(self) -> Request[str]:
        """The request for what follows the last event."""

    @abstractmethod
    def read(self, event: ServerEvent, data: dict[str, Any]) -> Any:
        """The item for an event, or None."""

    def has_ended(self) -> bool:
        """Whether the final event was received, so that the connection can be closed."""
        return False

    @abstractmethod
    async def is_done(self, failure: Failure | None) -> bool:
        """Whether to stop after a connection; `failure` is how it broke."""

    async def follow(self) -> AsyncGenerator[Any, None]:
        """The items of all events, until the stream is done."""
        while not self.is_time_over():
            self._has_events = False
            failure: Failure | None = None
            request = self.request()
            try:
                async with self.transport.open(request, self._silence_sec()) as response:
                    parser = self._parser(response)
                    async for chunk in response.aiter_bytes():
                        for item in self._items(parser, chunk, response):
                            yield item
                        if self.has_ended() or self.is_time_over():
                            break
            except (httpx.RequestError, Unavailable) as error:
                failure = error
            if await self.is_done(failure):
                return
            pause = self._retry.reconnect_sec(failure, request, self._asked_sec)
            left = self.left_sec()
            await self.transport.sleep(pause if left is None else max(0.0, min(pause, left)))

    def left_sec(self) -> float | None:
        return None if self.deadline is None else self.deadline - self.transport.connection.timing.monotonic()

    def is_time_over(self) -> bool:
        left = self.left_sec()
        return left is not None and left <= 0

    def _silence_sec(self) -> float:
        left = self.left_sec()
        return SILENCE_SEC if left is None else min(SILENCE_SEC, left + 1.0)

    def _parser(self, response: httpx.Response) -> SseParser:
        if response.status_code == NO_CONTENT:
            self.is_complete = True
        elif response.headers.get("content-type", "").partition(";")[0].strip().lower() != "text/event-stream":
            raise answers.unexpected(response, " where a stream of events was expected")
        return SseParser(last_event_id=self.last_event_id)

    def _items(self, parser: SseParser, chunk: bytes, response: httpx.Response) -> Iterator[Any]:
        self._retry.progress()  # any byte counts, comments too: a quiet run has no events for long
        try:
            items = [self._item(event) for event in parser.feed(chunk)]
        except (ValueError, RecursionError) as error:
            raise answers.unexpected(response, f", but {error}") from error
        position = parser.last_event_id  # also that of the stream's opening, before the first event
        if position.isascii() and position.isprintable():  # anything else cannot be sent back in a header
            self.last_event_id = position
        if parser.retry_sec is not None:
            self._asked_sec = parser.retry_sec
        return (item for item in items if item is not None)

    def _item(self, event: ServerEvent) -> Any:
        data: Any = json.loads(event.data)
        if not isinstance(data, dict):
            raise ValueError("an event's data is not a JSON object")  # noqa: TRY004 - as any other unreadable event
        self._has_events = True
        return self.read(event, data)


class AsyncRunWatch(AsyncEventStream):
    """The stream of a run. With `polls` a connection without events is followed by a read of the run: a proxy may hold
    streams back until they end."""

    def __init__(
        self,
        transport: AsyncTransport,
        run_id: str,
        *,
        include: Strings = None,
        since: float | None = None,
        deadline: float | None = None,
        polls: bool = False,
    ) -> None:
        super().__init__(transport, deadline=deadline)
        self.run_id = run_id
        self.last_snapshot: RunSnapshot | None = None
        self._include = include
        self._since = since
        self._polls = polls

    def request(self) -> Request[str]:
        left = self.left_sec()
        return get_stream(
            f"{run_path(self.run_id)}/watch",
            self.last_event_id,
            include=self._include,
            since=None if self.last_event_id else self._since,
            timeout_sec=None if left is None else min(MAX_WATCH_SEC, max(1, math.ceil(left))),
        )

    def read(self, event: ServerEvent, data: dict[str, Any]) -> RunWatchEvent:
        if isinstance(data.get("snapshot"), dict):
            self.last_snapshot = data["snapshot"]
        item: Any = {"run_id": self.run_id, "ts": 0.0} | data | {"event": event.event, "id": event.id}
        return cast("RunWatchEvent", item)

    def has_ended(self) -> bool:
        return self.last_snapshot is not None and is_finished(self.last_snapshot)

    async def is_done(self, failure: Failure | None) -> bool:
        if self._polls and not self._has_events and not self.has_ended():
            await self.poll()
        return self.has_ended() or (self.is_complete and not self._polls) or self.is_time_over()

    async def poll(self) -> None:
        """Read the run once."""
        retry = Retry(self.transport.connection, within_sec=self.left_sec())
        self.last_snapshot = await self.transport.send(get(run_path(self.run_id), include=self._include), retry)
        self._retry.progress()

    async def poll_until_finished(self) -> None:
        pause = FIRST_POLL_SEC
        while not self.is_time_over():
            await self.poll()
            if self.has_ended():
                return
            left = self.left_sec()
            await self.transport.sleep(pause if left is None else max(0.0, min(pause, left)))
            pause = min(pause * 1.5, MAX_POLL_SEC)


class AsyncExecutionEvents(AsyncEventStream):
    """The stream of an execution's events. The gateway closes it after the last one."""

    def __init__(self, transport: AsyncTransport, execution_id: str, after: str | None) -> None:
        super().__init__(transport, last_event_id=after or "")
        self._execution_id = execution_id
        self._saw_end = False

    def request(self) -> Request[str]:
        return get_stream(f"{execution_path(self._execution_id)}/events", self.last_event_id)

    def read(self, event: ServerEvent, data: dict[str, Any]) -> ExecutionEvent:
        self._saw_end = self._saw_end or event.event in EXECUTION_ENDS
        item: Any = data | {"type": event.event, "id": event.id}
        return cast("ExecutionEvent", item)

    async def is_done(self, failure: Failure | None) -> bool:
        # Events stored after the end, such as an archiving, follow it: only a regular close is the end.
        return self.is_complete or (self._saw_end and failure is None)


class AsyncJobLogStream(AsyncEventStream):
    """An iterator over the lines of a job. Close it to stop early, or use it with `async with`.

    `status` is how the job ended, None before its last line; `job` is the job after its end, if it could be read.
    `place` is the position after the last line, None before the first; pass it as `after` to continue there.
    """

    def __init__(self, transport: AsyncTransport, job_id: str, after: str | None, **query: Any) -> None:
        super().__init__(transport, last_event_id=after or "")
        self.status: JobStatus | None = None
        self.job: Job | None = None
        self.place = after or None
        self._job_id = job_id
        self._query = query
        self._lines = self.follow()

    def __aiter__(self) -> AsyncJobLogStream:
        return self

    async def __anext__(self) -> JobLogEntry:
        entry: JobLogEntry
        self.place, entry = await anext(self._lines)
        return entry

    async def __aenter__(self) -> AsyncJobLogStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop following; the job continues."""
        await self._lines.aclose()

    def request(self) -> Request[str]:
        # The id of the last event replaces where the stream was to begin.
        start = {"sinceToken", "tail"} if self.last_event_id else set()
        query = {name: value for name, value in self._query.items() if name not in start}
        return get_stream(f"{job_path(self._job_id)}/logs/stream", self.last_event_id, **query)

    def read(self, event: ServerEvent, data: dict[str, Any]) -> tuple[str, JobLogEntry] | None:
        if event.event == "end":
            self.status = cast("JobStatus", data.get("status"))
        return (event.id, cast("JobLogEntry", data)) if event.event == "logEntry" else None

    def has_ended(self) -> bool:
        return self.status is not None

    async def is_done(self, failure: Failure | None) -> bool:
        if not (self.is_complete or self.has_ended()):
            return False
        job: Job | None = await read_until_ended(self.transport, job_path(self._job_id), JOB_ENDS)
        if job is not None:
            self.job, self.status = job, self.status or job["status"]
        return True


class AsyncStreams:
    """The streaming operations of a client."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def watch(
        self, run_id: str, include: Strings, since: float | None, timeout_sec: float | None
    ) -> AsyncGenerator[RunWatchEvent, None]:
        deadline = self._deadline(timeout_sec)
        return AsyncRunWatch(self._transport, run_id, include=include, since=since, deadline=deadline).follow()

    async def wait(self, run_id: str, timeout_sec: float | None) -> RunSnapshot:
        """The terminal snapshot of a run, by its stream, or by polling if streams do not get through."""
        watch = AsyncRunWatch(self._transport, run_id, deadline=self._deadline(timeout_sec), polls=True)
        await watch.poll()
        if watch.has_ended():
            return cast("RunSnapshot", watch.last_snapshot)
        try:
            async for _ in watch.follow():
                pass
        except RunNotFound:
            raise
        except (NotFound, UnexpectedAnswer):
            await watch.poll_until_finished()
        last = cast("RunSnapshot", watch.last_snapshot)
        if not watch.has_ended():
            language = self._transport.connection.headers.get("Accept-Language")
            raise WaitTimeout(run_id, timeout_sec or 0.0, last, language=language)
        return await read_until_ended(self._transport, run_path(run_id), TERMINAL) or last

    def follow_events(self, execution_id: str, after: str | None) -> AsyncGenerator[ExecutionEvent, None]:
        return AsyncExecutionEvents(self._transport, execution_id, after).follow()

    def follow_job_logs(self, job_id: str, after: str | None, **query: Any) -> AsyncJobLogStream:
        return AsyncJobLogStream(self._transport, job_id, after, **query)

    def _deadline(self, timeout_sec: float | None) -> float | None:
        if timeout_sec is None:
            return None
        if not timeout_sec > 0:
            raise ValueError("timeout_sec must be more than 0")
        return self._transport.connection.timing.monotonic() + timeout_sec


def is_finished(snapshot: RunSnapshot) -> bool:
    return snapshot.get("status") in TERMINAL


async def read_until_ended(transport: AsyncTransport, path: str, ends: tuple[str, ...]) -> Any:
    """What a read shows once it shows the end too, so that the caller's next read does. None if it never does: the end
    is known from the stream, and a failing read does not change it."""
    for pause in SETTLING_SEC:
        try:
            found: Any = await transport.send(get(path), Retry(transport.connection, within_sec=pause))
        except PyocoClientError:
            return None
        if found.get("status") in ends:
            return found
        await transport.sleep(pause)
    return None
