"""The use cases on executions: submit, create, start, cancel, discard, label, command, read.

The creation decides who works on an execution. Nodes of a stored graph, or of an unknown name, are claimed one by one.
A flow that workers announce is run by those workers, once the execution is started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.as_of import AsOf, fold_as_of
from pyoco_server.domain.execution.commands import (
    AddTag,
    ArchiveExecution,
    Command,
    CreateExecution,
    FailNode,
    RemoveTag,
    StartExecution,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.events import declared_edges
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.graph import Edge
from pyoco_server.domain.execution.snapshot import bounded_snapshot
from pyoco_server.domain.execution.state import Execution, Request, Work, empty_execution
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import check_name
from pyoco_server.errors import InvalidRequest, RunNotFound
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.services.executions.command_handler import CommandResult, commit, handle
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.submit import SubmitService, first_commit, may_queue_again, queue_again

FindFlow = Callable[[str], Awaitable[AnnouncedFlow | None]]


class NewExecution(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an execution. With a tag it is for the workers of that tag, whatever they announce."""

    graph_id: str
    input: Mapping[str, Any]
    tag: str | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionService(SubmitService):
    """The execution use cases of one gateway."""

    cache: ExecutionCache
    config: NatsBackendConfig
    find_flow: FindFlow

    async def cancel(self, run_id: RunId, reason: str | None, context: CommandContext) -> CommandResult:
        """Request a cancel. The result shows the request; the end may already be stored when it arrives."""
        return await cancel(self.stores, run_id, reason, context)

    async def discard(self, run_id: RunId, context: CommandContext) -> CommandResult:
        """Cancel an execution, or archive it when it is finished; nothing is removed before retention does so."""
        result = await self.cancel(run_id, None, context)
        # Events mean that the request is done: a retried request may find its own archival.
        if result.events or not result.execution.status.is_terminal:
            return result
        return await handle(self.stores, run_id, ArchiveExecution(at=self._now(), from_outside=True), context)

    async def add_label(self, run_id: RunId, label: str, context: CommandContext) -> CommandResult:
        """Add a label at any time of a run's life; one that is there keeps its position."""
        return await handle(self.stores, run_id, AddTag(at=self._now(), tag=label, from_outside=True), context)

    async def remove_label(self, run_id: RunId, label: str, context: CommandContext) -> CommandResult:
        """Remove a label at any time of a run's life; removing a missing one succeeds."""
        return await handle(self.stores, run_id, RemoveTag(at=self._now(), tag=label, from_outside=True), context)

    async def get_snapshot(self, run_id: RunId, *, tenant_filter: str | None) -> Mapping[str, Any]:
        """The stored snapshot with every change that this gateway has acknowledged; hides other tenants' runs."""
        await self.cache.flush_one(run_id)
        loaded = await self.stores.snapshots.load(run_id)
        if loaded is None or tenant_filter not in (None, loaded.execution.request.tenant_id):
            raise RunNotFound(run_id=run_id)
        return loaded.plain

    async def create(self, asked: NewExecution, run_id: RunId, context: CommandContext) -> CommandResult:
        """Create an execution under this id; once this returns, killing any process cannot lose it."""
        return await self._create(await self._create_command(asked), run_id, context)

    async def create_and_start(self, command: CreateExecution, run_id: RunId, context: CommandContext) -> Execution:
        """Create an execution whose nodes are claimed, and start it. A continued request continues both."""
        (await self._create(command, run_id, context)).accepted()
        return await self.start_created(run_id, context)

    async def start_created(self, run_id: RunId, context: CommandContext) -> Execution:
        """Start what this request has created; both commits name the same request, so that it has one audit record."""
        # A commit of its own: the id of the context is that of the creation.
        own = replace(context, commit_id=None, resumed=False, hold=None)
        if context.resumed and (first := await first_commit(self.stores.events, run_id)) is not None:
            own = replace(own, request_id=first.commit.request_id)
        return (await self.start(run_id, own)).execution

    async def _create(self, command: CreateExecution, run_id: RunId, context: CommandContext) -> CommandResult:
        result = await commit(self.stores, empty_execution(run_id), command, context)
        if result.refused is None:
            await self.stores.snapshots.advance(result.execution, create=True)
            self.queued.add(run_id)
        return result

    async def start(self, run_id: RunId, context: CommandContext) -> CommandResult:
        """Start an execution: the first nodes of a graph become ready, or the job of a flow is queued."""
        result = await self.command(run_id, StartExecution(at=self._now(), from_outside=True), context)
        execution = result.execution
        is_flow = result.refused is None and result.events and execution.request.work is Work.ON_START
        if is_flow and may_queue_again(execution, self._now()):
            await queue_again(self.stores, execution)
        return result

    async def command(self, run_id: RunId, command: Command, context: CommandContext) -> CommandResult:
        """Carry out any other command. A holder that ends its node after a cancel is refused, but has stopped."""
        result = await self.cache.handle(run_id, command, context)
        is_cancelled = result.refused is not None and result.refused.why is RejectionReason.CANCEL_REQUESTED
        if is_cancelled and isinstance(command, SucceedNode | FailNode):
            stop = StopNode(at=self._now(), node_id=command.node_id, attempt=command.attempt, from_outside=True)
            await self.cache.handle(run_id, stop, replace(context, commit_id=None, resumed=False, hold=None))
        return result

    async def get_snapshot_as_of(self, run_id: RunId, as_of: AsOf, *, tenant_filter: str | None) -> Mapping[str, Any]:
        """The snapshot as it was; a run that did not exist then is not found."""
        execution, first_version = await self._past(run_id, as_of, tenant_filter)
        if not execution.exists:
            raise RunNotFound(f"at: the run began with version {first_version}", run_id=run_id)
        return bounded_snapshot(execution, self.config.max_run_snapshot_bytes)

    async def look(self, run_id: RunId, *, tenant_filter: str | None, at: AsOf | None = None) -> Execution:
        """The execution now, or as it was; hides other tenants' executions."""
        if at is None:
            return _visible(await self.cache.look(run_id), tenant_filter)
        execution, first_version = await self._past(run_id, at, tenant_filter)
        if not execution.exists:
            raise InvalidRequest(f"at: the execution began with version {first_version}")
        return execution

    async def whole(self, execution: Execution) -> Execution:
        """The execution with the records that its snapshot had to truncate."""
        return await read_whole(self.stores, execution.execution_id) if execution.records_truncated else execution

    async def edges_of(self, execution: Execution) -> tuple[Edge, ...]:
        """The edges between its nodes: those of its graph, or those of its flow, which only its events have."""
        if execution.graph is not None:
            return execution.graph.edges
        stored = await self.stores.events.read(execution.execution_id) if len(execution.nodes) > 1 else []
        edges = declared_edges(one.commit for one in stored)
        return tuple(edge for edge in edges if execution.nodes.keys() >= set(edge))

    async def _past(self, run_id: RunId, as_of: AsOf, tenant_filter: str | None) -> tuple[Execution, int]:
        """The execution as it was, and its first version; who may not see it now learns nothing about its past."""
        commits = await self.stores.events.read(run_id)
        _visible(fold_commits(commits, empty_execution(run_id)), tenant_filter)
        return fold_as_of(commits, run_id, as_of), commits[0].sequence

    async def _create_command(self, asked: NewExecution) -> CreateExecution:
        check_name(asked.graph_id)
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
        tag = asked.tag or await self._announced_tag(asked.graph_id)
        if tag is None:
            return CreateExecution(at=self._now(), request=request)
        return CreateExecution(at=self._now(), request=replace(request, tag=tag, work=Work.ON_START), labels=(tag,))

    async def _announced_tag(self, graph_id: str) -> str | None:
        """A tag whose workers announce a flow of this name."""
        flow = await self.find_flow(graph_id)
        return None if flow is None else self.tag_of(flow)

    def tag_of(self, flow: AnnouncedFlow) -> str:
        """The tag under which an announced flow is run: the default tag if it is one of its tags."""
        default = self.config.default_tag
        return default if default in flow.tags else min(flow.tags, default=default)

    def _now(self) -> float:
        return self.stores.clock.now()


def _visible(execution: Execution, tenant_filter: str | None) -> Execution:
    if not execution.exists or tenant_filter not in (None, execution.request.tenant_id):
        raise RunNotFound(run_id=execution.execution_id)
    return execution


async def read_whole(stores: Stores, run_id: RunId) -> Execution:
    """The execution with everything that its events say."""
    return fold_commits(await stores.events.read(run_id), empty_execution(run_id))
