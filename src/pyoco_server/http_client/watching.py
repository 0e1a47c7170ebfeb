"""How to watch a run and how to wait for its end: the logic of both clients, without their I/O.

             ┌──────────── pause ◀── lost, ended, 5xx ───┐
             ▼                                           │
start ──▶ connect (Last-Event-ID) ── 200 ──▶ listen ─────┤
             │                                           └─ terminal snapshot, or time over ──▶ done
             └─ 4xx, not a stream ──▶ error
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, cast

from pyoco_server.http_client import answers, calls
from pyoco_server.http_client.calls import MAX_WATCH_SEC, Call, Words
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Close, Open, Read, Script, Sleep, Tell
from pyoco_server.http_client.errors import (
    NotFound,
    PyocoClientError,
    PyocoHttpError,
    RunNotFound,
    UnexpectedAnswer,
    WaitTimeout,
)
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.retry import Trouble, backoff_sec
from pyoco_server.http_client.scripts import raise_failure, send, within
from pyoco_server.http_client.shapes import TERMINAL, RunSnapshot, RunWatchEvent
from pyoco_server.http_client.sse import EventTooLong, ServerEvent, SseParser

# A gateway shows life far more often; a stream that is silent for so long is dead, whatever TCP thinks.
SILENCE_SEC = 45.0
MAX_RETRY_SEC = 30.0
NO_CONTENT = 204  # the run is finished, and not newer than what was asked for
FIRST_POLL_SEC = 0.2
MAX_POLL_SEC = 2.0
SETTLING_SEC = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

Failure = httpx.RequestError | PyocoHttpError


@dataclass(slots=True)
class Watch:
    """One watch over all its connections: where it is in the stream, and since when it has heard nothing."""

    connection: Connection
    run_id: str
    include: Words = None
    since: float | None = None
    deadline: float | None = None
    last_event_id: str = ""
    retry_sec: float | None = None
    last_seen: RunSnapshot | None = None
    heard: bool = False
    told_all: bool = False
    failures: int = 0
    failing_since: float | None = None
    call: Call[str] = field(init=False)

    def follow(self, *, polls: bool = False) -> Script[RunSnapshot | None]:
        """Tells each event. The terminal snapshot, or None when the time is over.

        With `polls` a connection that brought nothing is followed by a plain read: something on the way may hold
        streams back until they end.
        """
        while not self._time_is_over():
            failure = yield from self._connect_and_listen()
            if self._finished():
                return self.last_seen
            if polls and not self.heard:
                yield from self._poll()
                if self._finished():
                    return self.last_seen
            if (self.told_all and not polls) or self._time_is_over():
                return None
            yield Sleep(self._pause(failure))
        return None

    def left_sec(self) -> float | None:
        return None if self.deadline is None else self.deadline - self.connection.timing.monotonic()

    def _time_is_over(self) -> bool:
        left = self.left_sec()
        return left is not None and left <= 0

    def _connect_and_listen(self) -> Script[Failure | None]:
        """One connection, to its end. What was wrong with it, if anything was; raises what another try cannot mend."""
        self.heard = False
        left = self.left_sec()
        asked = None if left is None else min(MAX_WATCH_SEC, max(1, math.ceil(left)))
        self.call = calls.watch_run(self.run_id, self.include, self.since, asked, self.last_event_id)
        silence = SILENCE_SEC if left is None else min(SILENCE_SEC, left + 1.0)
        answer: httpx.Response | httpx.RequestError = yield Open(self.call, silence)
        if isinstance(answer, httpx.RequestError):
            return answer
        if not answer.is_success:
            error = answers.error_of(answer, self.connection.timing.now())
            if answers.trouble_of(error) is Trouble.FINAL:
                raise error
            return error
        if answer.status_code == NO_CONTENT:
            self.told_all = True
            return None
        if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != "text/event-stream":
            yield Close()
            raise answers.not_a_stream(answer)
        failure = yield from self._listen(answer)
        yield Close()
        return failure

    def _listen(self, response: httpx.Response) -> Script[httpx.RequestError | None]:
        parser = SseParser(last_event_id=self.last_event_id)
        while not self._time_is_over():
            chunk: bytes | httpx.RequestError | None = yield Read()
            if not isinstance(chunk, bytes):
                return chunk
            self._life()
            try:
                events = [self._heard(event) for event in parser.feed(chunk)]
            except (EventTooLong, ValueError, RecursionError) as error:
                yield Close()
                raise answers.broken_stream(response, str(error)) from error
            self.retry_sec = parser.retry_sec if parser.retry_sec is not None else self.retry_sec
            for event in events:
                yield Tell(event)
            if self._finished():
                return None
        return None

    def _heard(self, event: ServerEvent) -> RunWatchEvent:
        data: Any = json.loads(event.data)
        if not isinstance(data, dict):
            raise ValueError("an event's data is not a JSON object")  # noqa: TRY004 - as any other unreadable event
        self.heard = True
        if event.id.isascii() and event.id.isprintable():  # anything else cannot be sent back in a header
            self.last_event_id = event.id
        if isinstance(data.get("snapshot"), dict):
            self.last_seen = data["snapshot"]
        told: Any = {"run_id": self.run_id, "ts": 0.0} | data | {"event": event.event, "id": event.id}
        return cast("RunWatchEvent", told)

    def _poll(self) -> Script[None]:
        self.last_seen = yield from send(
            calls.get_run(self.run_id, self.include), within(self.connection, self.left_sec())
        )
        self._life()

    def _life(self) -> None:
        """Somebody is there: whatever fails next is a new trouble. (A quiet run has no events for long.)"""
        self.failures, self.failing_since = 0, None

    def _finished(self) -> bool:
        return self.last_seen is not None and is_finished(self.last_seen)

    def _pause(self, failure: Failure | None) -> float:
        """How long to wait before the next connection; raises when there is to be none."""
        now, patience = self.connection.timing.monotonic(), self.connection.patience
        if failure is not None:
            self._give_up_on_what_stays(failure, now)
        self.failures += 1
        pause = backoff_sec(self.failures, patience, self.connection.timing.luck())
        asked = failure.retry_after if isinstance(failure, PyocoHttpError) else self.retry_sec
        pause = max(pause, min(asked or 0.0, MAX_RETRY_SEC))
        left = self.left_sec()
        return pause if left is None else max(0.0, min(pause, left))

    def _give_up_on_what_stays(self, failure: Failure, now: float) -> None:
        patience = self.connection.patience
        if self.failing_since is None:
            self.failing_since = now
        over = now - self.failing_since >= patience.within_sec or patience.retries <= 0
        if over or answers.trouble_of(failure) is Trouble.FINAL:
            raise_failure(failure, self.call, self.failures + 1)


def is_finished(snapshot: RunSnapshot) -> bool:
    return snapshot.get("status") in TERMINAL


def watch(
    connection: Connection, run_id: str, include: Words, since: float | None, timeout_sec: float | None
) -> Script[None]:
    """Tells what is heard of a run until it is finished or the time is over."""
    yield from Watch(connection, run_id, include, since, _deadline(connection, timeout_sec)).follow()


def wait(connection: Connection, run_id: str, timeout_sec: float | None) -> Script[RunSnapshot]:
    """The terminal snapshot of a run, by its stream; by asking again and again where streams do not come through."""
    deadline = _deadline(connection, timeout_sec)
    snapshot = yield from send(calls.get_run(run_id), within(connection, timeout_sec))
    if is_finished(snapshot):
        return snapshot
    watching = Watch(connection, run_id, deadline=deadline, last_seen=snapshot)
    try:
        finished = yield from watching.follow(polls=True)
    except RunNotFound:
        raise
    except (NotFound, UnexpectedAnswer):
        finished = yield from _poll_until_finished(watching)
    if finished is None:
        raise WaitTimeout(run_id, timeout_sec or 0.0, watching.last_seen or snapshot)
    return (yield from _read_finished(connection, run_id, finished))


def cancel(
    connection: Connection, call: Call[RunSnapshot], run_id: str, *, waits: bool, timeout_sec: float | None
) -> Script[RunSnapshot]:
    """Ask for the end of a run and, if wished, wait for it."""
    snapshot = yield from send(call, connection)
    if not waits or is_finished(snapshot):
        return snapshot
    return (yield from wait(connection, run_id, timeout_sec))


def _read_finished(connection: Connection, run_id: str, finished: RunSnapshot) -> Script[RunSnapshot]:
    """The finished run as reads show it. A stream is fed by the log and may be some milliseconds ahead of them; whoever
    has waited for a run must not be shown it running when they look."""
    for pause in SETTLING_SEC:
        try:
            snapshot = yield from send(calls.get_run(run_id), within(connection, pause))
        except PyocoClientError:
            return finished  # the end is known; what cannot be read now does not change it
        if is_finished(snapshot):
            return snapshot
        yield Sleep(pause)
    return finished


def _poll_until_finished(watching: Watch) -> Script[RunSnapshot | None]:
    pause = FIRST_POLL_SEC
    while (left := watching.left_sec()) is None or left > 0:
        snapshot = yield from send(calls.get_run(watching.run_id), within(watching.connection, left))
        watching.last_seen = snapshot
        if is_finished(snapshot):
            return snapshot
        yield Sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, MAX_POLL_SEC)
    return None


def _deadline(connection: Connection, timeout_sec: float | None) -> float | None:
    if timeout_sec is None:
        return None
    if not timeout_sec > 0:
        raise ValueError("timeout_sec must be more than 0")
    return connection.timing.monotonic() + timeout_sec
