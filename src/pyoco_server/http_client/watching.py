"""How to watch a run and how to wait for its end: the logic of both clients, without their I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from pyoco_server.http_client import calls
from pyoco_server.http_client.call_parts import Call, Words
from pyoco_server.http_client.calls import MAX_WATCH_SEC
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Script, Sleep
from pyoco_server.http_client.errors import NotFound, PyocoClientError, RunNotFound, UnexpectedAnswer, WaitTimeout
from pyoco_server.http_client.scripts import send, within
from pyoco_server.http_client.shapes import TERMINAL, RunSnapshot, RunWatchEvent
from pyoco_server.http_client.sse import ServerEvent
from pyoco_server.http_client.streaming import Stream

FIRST_POLL_SEC = 0.2
MAX_POLL_SEC = 2.0
SETTLING_SEC = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(slots=True, kw_only=True)
class Watch(Stream):
    """One watch: the stream of a run, and the last that was seen of it."""

    run_id: str
    include: Words = None
    since: float | None = None
    last_seen: RunSnapshot | None = None

    def follow(self, *, polls: bool = False) -> Script[RunSnapshot | None]:
        """Tells each event. The terminal snapshot, or None when the time is over.

        With `polls` a connection that brought nothing is followed by a plain read: something on the way may hold
        streams back until they end.
        """
        while not self.time_is_over():
            failure = yield from self.connect_and_listen()
            if self.has_ended():
                return self.last_seen
            if polls and not self.heard:
                yield from self._poll()
                if self.has_ended():
                    return self.last_seen
            if (self.told_all and not polls) or self.time_is_over():
                return None
            yield Sleep(self.pause(failure))
        return None

    def ask(self) -> Call[str]:
        left = self.left_sec()
        asked = None if left is None else min(MAX_WATCH_SEC, max(1, math.ceil(left)))
        return calls.watch_run(self.run_id, self.include, self.since, asked, self.last_event_id)

    def read(self, event: ServerEvent, data: dict[str, Any]) -> RunWatchEvent:
        if isinstance(data.get("snapshot"), dict):
            self.last_seen = data["snapshot"]
        told: Any = {"run_id": self.run_id, "ts": 0.0} | data | {"event": event.event, "id": event.id}
        return cast("RunWatchEvent", told)

    def has_ended(self) -> bool:
        return self.last_seen is not None and is_finished(self.last_seen)

    def _poll(self) -> Script[None]:
        self.last_seen = yield from send(
            calls.get_run(self.run_id, self.include), within(self.connection, self.left_sec())
        )
        self.life()


def is_finished(snapshot: RunSnapshot) -> bool:
    return snapshot.get("status") in TERMINAL


def watch(
    connection: Connection, run_id: str, include: Words, since: float | None, timeout_sec: float | None
) -> Script[None]:
    """Tells what is heard of a run until it is finished or the time is over."""
    watching = Watch(
        connection=connection,
        run_id=run_id,
        include=include,
        since=since,
        deadline=_deadline(connection, timeout_sec),
    )
    yield from watching.follow()


def wait(connection: Connection, run_id: str, timeout_sec: float | None) -> Script[RunSnapshot]:
    """The terminal snapshot of a run, by its stream; by asking again and again where streams do not come through."""
    deadline = _deadline(connection, timeout_sec)
    snapshot = yield from send(calls.get_run(run_id), within(connection, timeout_sec))
    if is_finished(snapshot):
        return snapshot
    watching = Watch(connection=connection, run_id=run_id, deadline=deadline, last_seen=snapshot)
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
