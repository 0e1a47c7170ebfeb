"""How to execute, claim, and follow events: the logic of both clients, without their I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from pyoco_server.http_client import call_parts, execution_calls
from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Script, Sleep
from pyoco_server.http_client.execution_shapes import EXECUTION_ENDS, Claim, CommandAccepted, ExecutionEvent
from pyoco_server.http_client.scripts import all_items, send
from pyoco_server.http_client.sse import ServerEvent
from pyoco_server.http_client.streaming import Stream

# What an answer may take beyond the time that was waited at the gateway.
ANSWER_SEC = 10.0


def execute(
    connection: Connection, graph_id: str, input: execution_calls.Input, tag: str | None, idempotency_key: str | None
) -> Script[CommandAccepted]:
    """The started execution. Both commands have one key, so that whoever repeats them with it has one execution."""
    key = call_parts.key(idempotency_key)
    created = yield from send(execution_calls.create_execution(graph_id, input, tag, key), connection)
    start = execution_calls.command(created["executionId"], "start", key)
    # It is there, though nobody was told yet: whoever cannot start it must learn the key.
    return (yield from send(replace(start, makes=True), connection, unsure=True))


def claim(
    connection: Connection,
    graph_ids: Iterable[str],
    worker_id: str,
    wait_sec: float,
    lease_sec: float,
    idempotency_key: str | None,
) -> Script[Claim | None]:
    """A node, or None. The time that is waited at the gateway is not counted as its silence, nor as trouble."""
    call = execution_calls.claim_node(graph_ids, worker_id, wait_sec, lease_sec, idempotency_key)
    patience = replace(connection.patience, within_sec=connection.patience.within_sec + wait_sec)
    silence_sec = max(connection.timeout_sec, wait_sec + ANSWER_SEC)
    return (yield from send(call, replace(connection, patience=patience), silence_sec=silence_sec))


def all_executions(connection: Connection, **filters: Any) -> Script[None]:
    """Tells every execution that matches, page after page."""
    yield from _all(lambda cursor: execution_calls.list_executions(**filters, cursor=cursor or None), connection)


def all_events(connection: Connection, execution_id: str, limit: int | None) -> Script[None]:
    """Tells every event that there is, in order."""
    yield from _all(lambda cursor: execution_calls.list_events(execution_id, limit, cursor), connection)


def all_waits(connection: Connection, **filters: Any) -> Script[None]:
    """Tells every node that waits for somebody."""
    yield from _all(lambda cursor: execution_calls.list_waits(**filters, cursor=cursor or None), connection)


def all_graphs(connection: Connection, **filters: Any) -> Script[None]:
    """Tells every graph, by id."""
    yield from _all(lambda cursor: execution_calls.list_graphs(**filters, cursor=cursor or None), connection)


def follow(connection: Connection, execution_id: str, after: str | None) -> Script[None]:
    """Tells every event behind a place, those that are there and those that come, until the execution is over."""
    tail = EventTail(connection=connection, execution_id=execution_id, last_event_id=after or "")
    while True:
        failure = yield from tail.connect_and_listen()
        if tail.told_all or (tail.saw_the_end and failure is None):
            return
        yield Sleep(tail.pause(failure))


@dataclass(slots=True, kw_only=True)
class EventTail(Stream):
    """The stream of an execution's events. The gateway ends it when the execution has ended and all was told."""

    execution_id: str
    saw_the_end: bool = False

    def ask(self) -> Call[str]:
        return execution_calls.follow_events(self.execution_id, self.last_event_id)

    def read(self, event: ServerEvent, data: dict[str, Any]) -> ExecutionEvent:
        self.saw_the_end = self.saw_the_end or event.event in EXECUTION_ENDS
        told: Any = data | {"type": event.event, "id": event.id}
        return cast("ExecutionEvent", told)

    def has_ended(self) -> bool:
        return False  # what was stored after the end, as an archiving, comes behind it


def _all(page_at: Any, connection: Connection) -> Script[None]:
    yield from all_items(page_at, connection, "nextCursor")
