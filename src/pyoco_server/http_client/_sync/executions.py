# Generated from _async/executions.py by scripts/unasync. Do not edit.
"""Methods for executions: create, start, end, read, list, events."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from pyoco_server.http_client._sync.base import Methods
from pyoco_server.http_client.models.executions import (
    CommandAccepted,
    EventPage,
    ExecutionEvent,
    ExecutionPage,
    ExecutionSnapshot,
    ExecutionSummary,
)
from pyoco_server.http_client.requests import (
    AsOf,
    Request,
    change,
    checked_key,
    execution_path,
    get,
    read_page,
    to_time,
)

Input = Mapping[str, Any] | None


class ExecutionMethods(Methods):
    def create_execution(
        self,
        graph_id: str,
        input: Input = None,
        tag: str | None = None,
        *,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """Create an execution, to be started by `start_execution`. `graph_id` is a stored graph, a flow that workers
        announce (`tag` selects the workers), or any name for an open graph, which `strict` refuses."""
        body = {"graphId": graph_id, "input": dict(input or {}), "tag": tag, "strict": strict or None}
        return self._transport.send(change("POST", "/executions", idempotency_key, body, creates=True))

    def start_execution(self, execution_id: str, *, idempotency_key: str | None = None) -> CommandAccepted:
        """Start it: the first nodes of a graph become READY; the job of a flow is queued."""
        return self._command(execution_id, "start", idempotency_key)

    def execute(
        self,
        graph_id: str,
        input: Input = None,
        tag: str | None = None,
        *,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> CommandAccepted:
        """Create and start. Repeating it with the same key, also from another client, is the same execution."""
        key = checked_key(idempotency_key)
        created = self.create_execution(graph_id, input, tag, strict=strict, idempotency_key=key)
        # The execution exists, but the caller does not know its id: a failing start must report the key.
        started = self._command(created["executionId"], "start", key, creates=True, partly_done=True)
        return {**started, "warnings": created["warnings"]} if "warnings" in created else started

    def cancel_execution(
        self, execution_id: str, reason: str | None = None, *, idempotency_key: str | None = None
    ) -> CommandAccepted:
        """Cancel it; no other end is possible then. Workers on its nodes learn of it with their next command."""
        return self._command(execution_id, "cancel", idempotency_key, {"reason": reason})

    def archive_execution(self, execution_id: str, *, idempotency_key: str | None = None) -> CommandAccepted:
        """Remove a finished execution from the default lists; it can still be read by its id."""
        return self._command(execution_id, "archive", idempotency_key)

    def complete_execution(self, execution_id: str, *, idempotency_key: str | None = None) -> CommandAccepted:
        """End an open graph with success. A stored graph completes by itself."""
        return self._command(execution_id, "complete", idempotency_key)

    def fail_execution(
        self, execution_id: str, code: str, message: str, *, idempotency_key: str | None = None
    ) -> CommandAccepted:
        """End an execution whose nodes are claimed one by one, without success."""
        error = {"code": code, "message": message}
        return self._command(execution_id, "fail", idempotency_key, {"error": error})

    def get_execution(self, execution_id: str, at: AsOf | None = None, include: str | None = None) -> ExecutionSnapshot:
        """The current state of an execution, or its state at a time or a version.

        `include="records"` adds every output, however many there are; `"graph"` adds nodes and edges of its graph.
        """
        return self._transport.send(get(execution_path(execution_id), at=to_time(at), include=include))

    def list_executions(
        self,
        status: str | None = None,
        graph_id: str | None = None,
        archived: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionPage:
        """One page of executions, last changed first; pass its `nextCursor` as `cursor` to get the next page.

        With `archived` only the archived ones.
        """
        return self._transport.send(
            get(
                "/executions",
                read=read_page(),
                status=status,
                graphId=graph_id,
                archived=archived,
                limit=limit,
                cursor=cursor,
            )
        )

    def iter_executions(
        self,
        status: str | None = None,
        graph_id: str | None = None,
        archived: bool | None = None,
        limit: int | None = None,
    ) -> Generator[ExecutionSummary, None, None]:
        """All matching executions, in pages of `limit`. One that changes meanwhile may appear again."""
        request: Request[Any] = get(
            "/executions", read=read_page(), status=status, graphId=graph_id, archived=archived, limit=limit
        )
        return self._transport.pages(request, "cursor", "nextCursor")

    def list_events(
        self,
        execution_id: str,
        limit: int | None = None,
        cursor: str | None = None,
        *,
        order: str | None = None,
        node_id: str | None = None,
    ) -> EventPage:
        """One page of events: what happened, when, and by which command.

        `order`: `asc`, or `desc` from the newest; `node_id`: only those of this node.
        """
        path = f"{execution_path(execution_id)}/events"
        return self._transport.send(
            get(path, read=read_page(), limit=limit, order=order, nodeId=node_id, cursor=cursor or None)
        )

    def iter_events(
        self, execution_id: str, limit: int | None = None, *, order: str | None = None, node_id: str | None = None
    ) -> Generator[ExecutionEvent, None, None]:
        """All events so far, in pages of `limit`; `order` and `node_id` as in `list_events`."""
        path = f"{execution_path(execution_id)}/events"
        request: Request[Any] = get(path, read=read_page(), limit=limit, order=order, nodeId=node_id)
        return self._transport.pages(request, "cursor", "nextCursor")

    def follow_events(self, execution_id: str, after: str | None = None) -> Generator[ExecutionEvent, None, None]:
        """All events, stored and new, until the execution is over.

        `after`: the `id` of the last received event. A lost connection is opened again and resumes where it was lost.
        """
        return self._streams.follow_events(execution_id, after)

    def _command(
        self, execution_id: str, name: str, idempotency_key: str | None, body: Input = None, **options: Any
    ) -> CommandAccepted:
        path = f"{execution_path(execution_id)}/{name}"
        return self._transport.send(change("POST", path, idempotency_key, body or {}, **options))
