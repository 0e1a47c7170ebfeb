"""Submit a run: append its first commit, then write its snapshot and queue its job; undo it when one of them fails.

A request with an idempotency key is never undone: a retry with the same key continues it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from hashlib import sha256

from msgspec.structs import replace

from pyoco_server.domain.execution.commands import ConfirmCanceled, CreateExecution
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.events import Commit, ExecutionCreated, StoredCommit
from pyoco_server.domain.execution.state import Execution, Request, StopHow
from pyoco_server.domain.flow_yaml import FlowFile
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.recheck import check_name
from pyoco_server.errors import BrokerUnavailable, OrphanRunPossible, PyocoError, Unanswered
from pyoco_server.ports import Job
from pyoco_server.services.context import GATEWAY, CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, commit, handle
from pyoco_server.stores.events import EventLog

logger = logging.getLogger(__name__)

# The broker drops a repeated message id for two minutes; after that the same job would be delivered twice.
QUEUE_WITHIN_SEC = 100.0


@dataclass(frozen=True, slots=True)
class Workflow:
    """A parsed flow.yaml and its text. Events and job store the text; a snapshot has its size and hash."""

    text: str
    flow: FlowFile

    def stamped(self, request: Request) -> Request:
        """The request with the size and hash of the file."""
        data = self.text.encode()
        return replace(request, workflow_yaml_sha256=sha256(data).hexdigest(), workflow_yaml_bytes=len(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitService:
    """Submits runs; once a method returns, killing any process cannot lose the run.

    `queued` holds the runs that this process has submitted completely, until maintenance has seen their first commit:
    their jobs need no check.
    """

    stores: Stores
    queued: set[RunId] = field(default_factory=set)

    async def submit(
        self,
        request: Request,
        labels: tuple[str, ...],
        context: CommandContext,
        workflow: Workflow | None = None,
        *,
        run_id: RunId | None = None,
    ) -> Execution:
        """Create a run and queue it; `run_id` is the id of a request that is continued."""
        create = create_command(self.stores.clock.now(), request, labels, workflow)
        return await self.submit_command(create, context, run_id=run_id)

    async def submit_command(
        self, create: CreateExecution, context: CommandContext, *, run_id: RunId | None = None
    ) -> Execution:
        """The same for a command."""
        check_name(create.request.flow_name)
        stores = self.stores
        run_id = run_id or stores.ids.run_id()
        try:
            result = await commit(stores, Execution(execution_id=run_id), create, context)
        except Unanswered as error:
            if context.commit_id is not None:
                raise
            raise OrphanRunPossible(f"nats did not answer; run {run_id} may have been stored all the same") from error
        created = result.accepted()
        # The two writes are independent. A worker that receives the job before the snapshot exists reads the events.
        outcomes = await asyncio.gather(
            stores.snapshots.advance(created, create=True), self._queue(result, create, context), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures and (context.commit_id is not None or await _undo(stores, run_id)):
            raise next((failure for failure in failures if not isinstance(failure, BrokerUnavailable)), failures[0])
        self.queued.add(run_id)
        return created

    async def _queue(self, result: CommandResult, create: CreateExecution, context: CommandContext) -> None:
        """Publish the job; a continued request publishes it only while the broker still drops duplicates."""
        created = result.execution
        if context.commit_id is None or may_queue_again(created, self.stores.clock.now()):
            job = job_of(created, create.workflow_yaml, context)
            await self.stores.queue.publish(job, created_sequence=result.version)


async def queue_again(stores: Stores, execution: Execution, *, nth: int = 1) -> None:
    """Publish the job of an existing run; the parts that only the first commit has are read from the events."""
    first = await first_commit(stores.events, execution.execution_id)
    if first is None:
        await stores.queue.publish(job_of(execution), created_sequence=execution.version, nth=nth)
        return
    job = job_of(execution, workflow_in(first.commit), first.commit)
    await stores.queue.publish(job, created_sequence=first.sequence, nth=nth)


def may_queue_again(execution: Execution, now: float) -> bool:
    """Whether publishing the job once more is safe: the broker still drops the duplicate.

    A run that has no job for longer is found by the stray sweep.
    """
    is_unheld = execution.holder is None and execution.cancel is None and not execution.status.is_terminal
    queued_at = execution.queued_at or execution.created_at or 0.0
    return execution.is_queued and is_unheld and now - queued_at < QUEUE_WITHIN_SEC


def create_command(
    at: float, request: Request, labels: tuple[str, ...], workflow: Workflow | None = None
) -> CreateExecution:
    """The command that creates a run; the text and the nodes of a workflow go into the same commit."""
    if workflow is None:
        return CreateExecution(at=at, request=request, labels=labels)
    return CreateExecution(
        at=at,
        request=workflow.stamped(request),
        labels=labels,
        node_ids=tuple(NodeId(name) for name in workflow.flow.graph.nodes),
        edges=tuple((NodeId(source), NodeId(target)) for source, target in workflow.flow.graph.edges),
        workflow_yaml=workflow.text,
    )


def job_of(
    execution: Execution, workflow_yaml: str | None = None, origin: CommandContext | Commit | None = None
) -> Job:
    """The message that asks a worker to run this execution; `origin` is its submit."""
    request = execution.request
    return Job(
        run_id=execution.execution_id,
        flow_name=request.flow_name,
        tag=request.tag,
        tags=execution.labels,
        params=request.input,
        submitted_at=execution.created_at or execution.updated_at,
        workflow_yaml=workflow_yaml,
        timeout_sec=request.timeout_sec,
        correlation_id=None if origin is None else origin.correlation_id,
        request_id=None if origin is None else origin.request_id,
    )


def is_submitted_text(execution: Execution, text: str | None) -> bool:
    """Whether this is the flow.yaml that the run was submitted with."""
    return text is not None and sha256(text.encode()).hexdigest() == execution.request.workflow_yaml_sha256


async def workflow_text(events: EventLog, execution: Execution) -> str | None:
    """The flow.yaml that the run was submitted with; None for a run of a flow that workers have."""
    if execution.request.workflow_yaml_sha256 is None:
        return None
    first = await first_commit(events, execution.execution_id)
    return None if first is None else workflow_in(first.commit)


async def first_commit(events: EventLog, run_id: RunId) -> StoredCommit | None:
    """The commit that created the run, read alone; None when retention has removed it."""
    return next(iter(await events.read(run_id, limit=1)), None)


def workflow_in(first: Commit) -> str | None:
    """The flow.yaml in a run's first commit."""
    return next((event.workflow_yaml for event in first.events if isinstance(event, ExecutionCreated)), None)


async def _undo(stores: Stores, run_id: RunId) -> bool:
    """Cancel a half-submitted run by an event: purged events would let a queued job recreate it.

    The cancelled snapshot stays, so that lists show the run and retention finds its events. False: a worker has
    started the run, so the queue has the job despite the failed answer, and the run is accepted.
    """
    command = ConfirmCanceled(at=stores.clock.now(), how=StopHow.SUBMIT_FAILED)
    try:
        result = await handle(stores, run_id, command, GATEWAY)
    except PyocoError as error:
        logger.exception("submit not undone", extra={"run_id": run_id, **OrphanRunPossible.ids()})
        raise OrphanRunPossible(
            f"run {run_id} could not be taken back: it may have been left behind, or run all the same"
        ) from error
    return result.refused is None or result.refused.why is RejectionReason.NOT_FOUND
