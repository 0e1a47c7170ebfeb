"""Accept a run: it is accepted when log, snapshot and queue all have it, and undone when one of them has not.

With an idempotency key nothing is undone: whoever sends the request again carries on where this one ended.
"""

from __future__ import annotations

import asyncio
import logging

from pyoco_server.domain.execution.commands import ConfirmCanceled, CreateExecution
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.state import Execution, Request, StopHow, empty_execution
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.errors import BrokerUnavailable, OrphanRunPossible, PyocoError, Unanswered
from pyoco_server.ports import Job
from pyoco_server.services.context import GATEWAY, CommandContext, Stores
from pyoco_server.services.executions.command_handler import commit, handle
from pyoco_server.services.executions.workflow import Workflow, first_commit, workflow_in

logger = logging.getLogger(__name__)

# The broker swallows a repeated message id for two minutes; after that the same job again would be a second one.
QUEUE_WITHIN_SEC = 100.0


async def submit(
    stores: Stores,
    request: Request,
    labels: tuple[str, ...],
    origin: CommandContext,
    workflow: Workflow | None = None,
    *,
    run_id: RunId | None = None,
) -> Execution:
    """Create a run and queue it; when this returns, no kill of any process can lose it."""
    create = create_command(stores.clock.now(), request, labels, workflow)
    return await submit_command(stores, create, origin, run_id=run_id)


async def submit_command(
    stores: Stores, create: CreateExecution, origin: CommandContext, *, run_id: RunId | None = None
) -> Execution:
    """The same for a command that is ready. `run_id` is given where the id was chosen before."""
    run_id = run_id or stores.ids.run_id()
    try:
        created = (await commit(stores, empty_execution(run_id), create, origin)).accepted()
    except Unanswered as error:
        if origin.commit_id is not None:
            raise
        raise OrphanRunPossible(f"nats did not answer; run {run_id} may have been stored all the same") from error
    # The log has it; the other two do not depend on each other. A worker that gets the job before the snapshot is
    # there reads the log.
    outcomes = await asyncio.gather(
        stores.snapshots.advance(created, create=True), _queue(stores, created, create, origin), return_exceptions=True
    )
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if not failures:
        return created
    if origin.commit_id is None and not await _undo(stores, run_id):
        return created
    raise next((failure for failure in failures if not isinstance(failure, BrokerUnavailable)), failures[0])


async def _queue(stores: Stores, created: Execution, create: CreateExecution, origin: CommandContext) -> None:
    """Put the job in; where others may carry on with the same request, only if it cannot become a second one."""
    if origin.commit_id is None or may_queue_again(created, stores.clock.now()):
        job = job_of(created, create.workflow_yaml, origin.correlation_id)
        await stores.queue.publish(job, created_sequence=created.version)


def may_queue_again(execution: Execution, now: float) -> bool:
    """Whether the job of a new run can be published once more: where the first publish went through, the broker
    swallows this one. A run that has had no job for longer is found as a stray."""
    unheld = execution.holder is None and execution.cancel is None and not execution.status.is_terminal
    queued_at = execution.queued_at or execution.created_at or 0.0
    return execution.is_queued and unheld and now - queued_at < QUEUE_WITHIN_SEC


def create_command(
    at: float, request: Request, labels: tuple[str, ...], workflow: Workflow | None = None
) -> CreateExecution:
    """The command that brings a run into being; with a workflow, its text and its nodes go into the same commit."""
    if workflow is None:
        return CreateExecution(at=at, request=request, labels=labels)
    return CreateExecution(
        at=at,
        request=workflow.stamped(request),
        labels=labels,
        node_ids=tuple(NodeId(name) for name in workflow.flow.graph.nodes),
        workflow_yaml=workflow.text,
    )


async def job_again(stores: Stores, execution: Execution) -> Job:
    """The message for a run that is queued once more; what only the first commit knows is read from the log."""
    first = await first_commit(stores.events, execution.execution_id)
    if first is None:
        return job_of(execution)
    return job_of(execution, workflow_in(first), first.correlation_id)


def job_of(execution: Execution, workflow_yaml: str | None = None, correlation_id: str | None = None) -> Job:
    """The message that asks a worker to run this execution."""
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
        correlation_id=correlation_id,
    )


async def _undo(stores: Stores, run_id: RunId) -> bool:
    """Take a half-submitted run back: by an event, because a purged log would let a job in the queue revive it.

    False: a worker has begun it already, so the queue had it in spite of the answer, and it is accepted after all.
    """
    command = ConfirmCanceled(at=stores.clock.now(), how=StopHow.SUBMIT_FAILED)
    try:
        handled = await handle(stores, run_id, command, GATEWAY)
        if handled.refused is not None and handled.refused.why is not RejectionReason.NOT_FOUND:
            return False
        await stores.snapshots.remove(run_id)
    except PyocoError as error:
        logger.exception(
            "a run that was not accepted could not be undone",
            extra={"run_id": run_id, "err_id": OrphanRunPossible.err_id, "msg_id": OrphanRunPossible.msg_id},
        )
        raise OrphanRunPossible(
            f"run {run_id} could not be taken back: it may have been left behind, or run all the same"
        ) from error
    return True
