"""How to listen to a stream of events over all its connections: the logic of both clients, without their I/O.

             ┌──────────── pause ◀── lost, ended, 5xx ───┐
             ▼                                           │
start ──▶ connect (Last-Event-ID) ── 200 ──▶ listen ─────┤
             │                                           └─ the end of what is told, or time over ──▶ done
             └─ 4xx, not a stream ──▶ error

What is asked, how an event is read and when it is over is for those who build on it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from pyoco_server.http_client import answers
from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Close, Open, Read, Script, Tell
from pyoco_server.http_client.errors import PyocoHttpError
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.retry import Trouble, backoff_sec
from pyoco_server.http_client.scripts import raise_failure
from pyoco_server.http_client.sse import EventTooLong, ServerEvent, SseParser

# A gateway shows life far more often; a stream that is silent for so long is dead, whatever TCP thinks.
SILENCE_SEC = 45.0
MAX_RETRY_SEC = 30.0
NO_CONTENT = 204  # it is over, and all of it was told

Failure = httpx.RequestError | PyocoHttpError


@dataclass(slots=True, kw_only=True)
class Stream(ABC):
    """One stream over all its connections: where it is, and since when it has heard nothing."""

    connection: Connection
    deadline: float | None = None
    last_event_id: str = ""
    retry_sec: float | None = None
    heard: bool = False
    told_all: bool = False
    failures: int = 0
    failing_since: float | None = None
    call: Call[str] = field(init=False)

    @abstractmethod
    def ask(self) -> Call[str]:
        """What to ask for, from the last event on."""

    @abstractmethod
    def read(self, event: ServerEvent, data: dict[str, Any]) -> Any:
        """What to tell of an event; None where that is nothing."""

    @abstractmethod
    def has_ended(self) -> bool:
        """Whether nothing more is worth waiting for on this connection."""

    def left_sec(self) -> float | None:
        return None if self.deadline is None else self.deadline - self.connection.timing.monotonic()

    def time_is_over(self) -> bool:
        left = self.left_sec()
        return left is not None and left <= 0

    def connect_and_listen(self) -> Script[Failure | None]:
        """One connection, to its end. What was wrong with it, if anything was; raises what another try cannot mend."""
        self.heard = False
        left = self.left_sec()
        self.call = self.ask()
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
        while not self.time_is_over():
            chunk: bytes | httpx.RequestError | None = yield Read()
            if not isinstance(chunk, bytes):
                return chunk
            self.life()
            try:
                events = [self._heard(event) for event in parser.feed(chunk)]
            except (EventTooLong, ValueError, RecursionError) as error:
                yield Close()
                raise answers.broken_stream(response, str(error)) from error
            place = parser.last_event_id  # that of the opening too, before there is any event
            if place.isascii() and place.isprintable():  # anything else cannot be sent back in a header
                self.last_event_id = place
            self.retry_sec = parser.retry_sec if parser.retry_sec is not None else self.retry_sec
            for event in events:
                if event is not None:
                    yield Tell(event)
            if self.has_ended():
                return None
        return None

    def _heard(self, event: ServerEvent) -> Any:
        data: Any = json.loads(event.data)
        if not isinstance(data, dict):
            raise ValueError("an event's data is not a JSON object")  # noqa: TRY004 - as any other unreadable event
        self.heard = True
        return self.read(event, data)

    def life(self) -> None:
        """Somebody is there: whatever fails next is a new trouble. (A quiet run has no events for long.)"""
        self.failures, self.failing_since = 0, None

    def pause(self, failure: Failure | None) -> float:
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
