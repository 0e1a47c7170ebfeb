"""What can be asked about executions as a whole, as methods to await; what they do stands in the scripts."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pyoco_server.http_client import execution_calls as calls
from pyoco_server.http_client.async_asking import AsyncAsker
from pyoco_server.http_client.execution_calls import Input
from pyoco_server.http_client.execution_shapes import (
    CommandAccepted,
    EventPage,
    ExecutionEvent,
    ExecutionPage,
    ExecutionSnapshot,
    ExecutionSummary,
)


class AsyncExecutionMethods(AsyncAsker):
    """Executions: bring them about, end them, look at them, and read who did what."""

    async def create_execution(
        self, graph_id: str, input: Input = None, tag: str | None = None, *, idempotency_key: str | None = None
    ) -> CommandAccepted:
        """Bring an execution into being; it begins with its start. `graph_id` is a graph that was put, a flow that
        workers announce (`tag` says which of them may run it), or any name for an open graph."""
        return await self._send(calls.create_execution(graph_id, input, tag, idempotency_key))

    async def start_execution(self, execution_id: str, *, idempotency_key: str | None = None) -> CommandAccepted:
        """Let it begin: the first nodes of a graph are ready; the job of a flow is in its queue."""
        return await self._send(calls.command(execution_id, "start", idempotency_key))

    async def execute(
        self, graph_id: str, input: Input = None, tag: str | None = None, *, idempotency_key: str | None = None
    ) -> CommandAccepted:
        """Create and start. Repeated with the same key, also by others, it is the same execution."""
        from pyoco_server.http_client import execution_scripts

        return await self._run(execution_scripts.execute(self._connection, graph_id, input, tag, idempotency_key))

    async def cancel_execution(
        self, execution_id: str, reason: str | None = None, *, idempotency_key: str | None = None
    ) -> CommandAccepted:
        """Stop it; nothing else can come of it then. Whoever works on a node is told with his next command."""
        return await self._send(calls.command(execution_id, "cancel", idempotency_key, reason=reason))

    async def archive_execution(self, execution_id: str, *, idempotency_key: str | None = None) -> CommandAccepted:
        """Take a finished execution out of the default lists; it can still be read by its id."""
        return await self._send(calls.command(execution_id, "archive", idempotency_key))

    async def complete_execution(self, execution_id: str, *, idempotency_key: str | None = None) -> CommandAccepted:
        """End an open graph with success. A known graph is complete by itself."""
        return await self._send(calls.command(execution_id, "complete", idempotency_key))

    async def fail_execution(
        self, execution_id: str, code: str, message: str, *, idempotency_key: str | None = None
    ) -> CommandAccepted:
        """End an execution, whose nodes are taken one by one, without success."""
        error = calls.error_body(code, message)
        return await self._send(calls.command(execution_id, "fail", idempotency_key, error=error))

    async def get_execution(
        self, execution_id: str, at: int | None = None, include: str | None = None
    ) -> ExecutionSnapshot:
        """The execution as it is now, or as it was with the event of version `at`.

        `include="records"` adds every output, however many there are; `"graph"` adds nodes and edges of its graph.
        """
        return await self._send(calls.get_execution(execution_id, at, include))

    async def list_executions(
        self,
        status: str | None = None,
        graph_id: str | None = None,
        archived: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionPage:
        """One page of executions, those changed last first; its `nextCursor`, given as `cursor`, brings the next.

        With `archived` those that were archived, instead of the others.
        """
        return await self._send(
            calls.list_executions(status=status, graphId=graph_id, archived=archived, limit=limit, cursor=cursor)
        )

    def iter_executions(
        self,
        status: str | None = None,
        graph_id: str | None = None,
        archived: bool | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[ExecutionSummary, None]:
        """All executions that match, page after page of `limit` each. One that changes meanwhile may come again."""
        from pyoco_server.http_client import execution_scripts

        return self._tell(
            execution_scripts.all_executions(
                self._connection, status=status, graphId=graph_id, archived=archived, limit=limit
            )
        )

    async def list_events(self, execution_id: str, limit: int | None = None, cursor: str | None = None) -> EventPage:
        """One page of what happened, in order: what, when, by whose command."""
        return await self._send(calls.list_events(execution_id, limit, cursor))

    def iter_events(self, execution_id: str, limit: int | None = None) -> AsyncGenerator[ExecutionEvent, None]:
        """All that has happened so far, page after page of `limit` events each."""
        from pyoco_server.http_client import execution_scripts

        return self._tell(execution_scripts.all_events(self._connection, execution_id, limit))

    def follow_events(self, execution_id: str, after: str | None = None) -> AsyncGenerator[ExecutionEvent, None]:
        """What has happened and what happens, as it is stored, until the execution is over.

        `after`: the `id` of the event that was heard last. A lost connection is made again and goes on where it was
        lost.
        """
        from pyoco_server.http_client import execution_scripts

        return self._tell(execution_scripts.follow(self._connection, execution_id, after))
