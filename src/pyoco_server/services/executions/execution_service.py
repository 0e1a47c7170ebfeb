"""What `/executions` asks for: bring one into being, start it, stop it, work on its nodes, look at it as of any event.

Who works on an execution is settled with its creation: a graph that somebody put, or a name that nobody knows, is
worked on node by node by whoever takes them; a flow that workers announce is for the workers, once it is started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import (
    Command,
    CreateExecution,
    FailNode,
    StartExecution,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, Request, Work, empty_execution
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import InvalidRequest, RunNotFound
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.services.executions.command_handler import CommandResult, commit
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.submit import job_again, may_queue_again

FlowOf = Callable[[str], Awaitable[AnnouncedFlow | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExecution:
    """What was asked for. With a tag it is meant for the workers of that tag, whatever they announce."""

    graph_id: str
    input: Mapping[str, Any]
    tag: str | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionService:
    """The use cases of one gateway."""

    stores: Stores
    desk: ExecutionCache
    config: NatsBackendConfig
    flow_of: FlowOf
    mark_submitted: Callable[[RunId], None]

    async def create(self, asked: NewExecution, run_id: RunId, origin: CommandContext) -> CommandResult:
        """Bring an execution into being under this id; when this returns, no kill of any process can lose it."""
        command = await self._create_command(asked)
        handled = await commit(self.stores, empty_execution(run_id), command, origin)
        if handled.refused is None:
            await self.stores.snapshots.advance(handled.execution, create=True)
            self.mark_submitted(run_id)
        return handled

    async def start(self, run_id: RunId, origin: CommandContext) -> CommandResult:
        """Let it begin: the first nodes of a graph are ready, or the job of a flow is in the queue."""
        handled = await self.command(run_id, StartExecution(at=self._now(), from_outside=True), origin)
        execution = handled.execution
        if handled.refused is None and handled.events and execution.request.work is Work.ON_START:
            await self._queue(execution)
        return handled

    async def cancel(self, run_id: RunId, reason: str | None, origin: CommandContext) -> CommandResult:
        """Ask for it to stop; where nobody works on it, it has."""
        return await cancel(self.stores, run_id, reason, origin.actor.id, origin)

    async def command(self, run_id: RunId, command: Command, origin: CommandContext) -> CommandResult:
        """Carry out any other command. A holder that ends its node after a cancel is refused, but has stopped."""
        handled = await self.desk.handle(run_id, command, origin)
        if handled.refused is not None and handled.refused.why is RejectionReason.CANCEL_REQUESTED:
            await self._has_stopped(run_id, command, origin)
        return handled

    async def look(self, run_id: RunId, *, tenant_filter: str | None, at: int | None = None) -> Execution:
        """The execution as it is now, or as it was with the event of this sequence; another tenant's is not there."""
        if at is None:
            execution = await self.desk.look(run_id)
        else:
            commits = await self.stores.events.read(run_id)
            execution = fold_commits((stored for stored in commits if stored.sequence <= at), empty_execution(run_id))
            if commits and not execution.exists:
                raise InvalidRequest(f"at: the execution began with version {commits[0].sequence}")
        if not execution.exists or tenant_filter not in (None, execution.request.tenant_id):
            raise RunNotFound(run_id=run_id)
        return execution

    async def check_seen(self, run_id: RunId, *, tenant_filter: str | None) -> None:
        """Refuse a caller for whom the execution is not there."""
        if tenant_filter is not None:
            await self.look(run_id, tenant_filter=tenant_filter)

    async def whole(self, execution: Execution) -> Execution:
        """The same with the records that its snapshot had to give up."""
        if not execution.records_truncated:
            return execution
        return fold_commits(
            await self.stores.events.read(execution.execution_id), empty_execution(execution.execution_id)
        )

    async def _queue(self, execution: Execution) -> None:
        if may_queue_again(execution, self._now()):
            job = await job_again(self.stores, execution)
            await self.stores.queue.publish(job, created_sequence=execution.version)

    async def _has_stopped(self, run_id: RunId, command: Command, origin: CommandContext) -> None:
        if isinstance(command, SucceedNode | FailNode):
            stop = StopNode(at=self._now(), node_id=command.node_id, attempt=command.attempt, from_outside=True)
            await self.desk.handle(run_id, stop, replace(origin, commit_id=None, resumed=False, hold=None))

    async def _create_command(self, asked: NewExecution) -> CreateExecution:
        request = Request(
            flow_name=asked.graph_id,
            input=asked.input,
            tenant_id=asked.tenant_id,
            api_key_id=asked.api_key_id,
            work=Work.NODES,
        )
        stored = await self.stores.graphs.get(asked.tenant_id, asked.graph_id)
        if stored is not None:
            if asked.tag is not None:
                raise InvalidRequest(f"tag: {asked.graph_id!r} is a graph, whose nodes no worker of a tag takes")
            known = replace(request, graph_version=stored.version)
            return CreateExecution(at=self._now(), request=known, graph=stored.document.graph)
        tag = asked.tag or await self._tag_of(asked.graph_id)
        if tag is None:
            return CreateExecution(at=self._now(), request=request)
        return CreateExecution(at=self._now(), request=replace(request, tag=tag, work=Work.ON_START), labels=(tag,))

    async def _tag_of(self, graph_id: str) -> str | None:
        """Where workers announce a flow of this name: the default tag if it is among them."""
        flow = await self.flow_of(graph_id)
        if flow is None:
            return None
        default = self.config.default_tag
        return default if default in flow.tags else min(flow.tags, default=default)

    def _now(self) -> float:
        return self.stores.clock.now()
