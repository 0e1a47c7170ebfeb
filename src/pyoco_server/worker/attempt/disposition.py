"""Outcome of an attempt → queue disposition (contract, appendix E), and carrying it out: the dead letter first.

A message that belongs to another holder gets no answer: a stale ack or term would delete it under that holder.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from pyoco_server.domain.execution.commands import CreateExecution, FailExecution
from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Failure, Request, empty_execution
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import BrokerUnavailable, InvalidJob, RunNotFound
from pyoco_server.ports import Delivery, Job
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.services.maintenance.dead_jobs import INVALID_JOB, publish_dead_letter
from pyoco_server.stores import DeadLetter
from pyoco_server.worker.attempt.context import WorkerContext
from pyoco_server.worker.attempt.job_parser import MAX_FLOW_NAME_CHARS

logger = logging.getLogger(__name__)


class OutcomeKind(Enum):
    """How an attempt ended; the values appear in the log."""

    FINISHED = "Finished"  # the end of the run is stored
    ALREADY_FINISHED = "AlreadyFinished"  # the run had ended before, or its submit was undone
    INVALID = "Invalid"  # the message is not a job, and redelivery does not change that
    GIVEN_UP = "GivenUp"  # all allowed attempts are used; FAILED is stored
    UNAVAILABLE = "Unavailable"  # the broker did not answer before the run started
    RELEASED = "HandedBack"  # this worker is stopping or has no free runner; another one may start at once
    FENCED = "Fenced"  # another attempt has taken over and holds the message
    HELD_ELSEWHERE = "HeldElsewhere"  # a live worker has the run; the message was redelivered too early


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`status` is that of a finished run; the dead letter is published before the queue gets its answer."""

    kind: OutcomeKind
    status: str | None = None
    dead_letter: DeadLetter | None = None


QueueAction = Literal["ack", "nak", "term", "none"]

DISPOSITIONS: Final[Mapping[OutcomeKind, QueueAction]] = {
    OutcomeKind.FINISHED: "ack",
    OutcomeKind.ALREADY_FINISHED: "ack",
    OutcomeKind.INVALID: "term",
    OutcomeKind.GIVEN_UP: "term",
    OutcomeKind.UNAVAILABLE: "nak",
    OutcomeKind.RELEASED: "nak",
    OutcomeKind.FENCED: "none",
    OutcomeKind.HELD_ELSEWHERE: "none",
}
# The delay of a nak: the contract's default after broker trouble; another worker may take a released job at once.
NAK_DELAY_SEC: Final[Mapping[OutcomeKind, float]] = {OutcomeKind.UNAVAILABLE: 2.0, OutcomeKind.RELEASED: 0.0}


async def carry_out(stores: Stores, delivery: Delivery, outcome: Outcome) -> None:
    """Publishes the dead letter, if any, then answers the queue. An answer that is lost leads to redelivery."""
    if outcome.dead_letter is not None:
        await publish_dead_letter(stores, outcome.dead_letter)
    try:
        match DISPOSITIONS[outcome.kind]:
            case "ack":
                await delivery.ack()
            case "nak":
                await delivery.nak(NAK_DELAY_SEC[outcome.kind])
            case "term":
                await delivery.term()
            case "none":
                return
    except BrokerUnavailable as error:
        # Redelivered, the run is found finished.
        facts = {"subject": delivery.subject, "error": error.detail}
        logger.warning("queue did not receive the disposition", extra=facts | error.ids())


def dead_letter(
    context: WorkerContext,
    delivery: Delivery,
    *,
    reason: str,
    error: str,
    job: Job | None = None,
    run_id: RunId | None = None,
) -> DeadLetter:
    return DeadLetter(
        timestamp=context.stores.clock.now(),
        reason=reason,
        error=error,
        run_id=job.run_id if job else run_id,
        flow_name=job.flow_name if job else None,
        tag=job.tag if job else delivery.tag,
        tags=job.tags if job else (),
        worker_id=context.worker_id,
        num_delivered=delivery.num_delivered,
        subject=delivery.subject,
    )


async def reject(context: WorkerContext, delivery: Delivery, error: InvalidJob) -> Outcome:
    """Handles a message that is not a job. The run it names is failed if the message is that run's own."""
    run_id = _parsed_run_id(error.facts.get("run_id"))
    extra = {"subject": delivery.subject, "tag": delivery.tag, "worker_id": context.worker_id, "reason": INVALID_JOB}
    named = {name: value for name, value in error.facts.items() if isinstance(value, str)}
    logger.warning(error.message(), extra=named | extra | {"error": error.detail} | error.ids())
    if run_id is not None:
        await _fail(context, delivery, run_id, error)
    letter = dead_letter(context, delivery, reason=INVALID_JOB, error=error.detail, run_id=run_id)
    return Outcome(kind=OutcomeKind.INVALID, dead_letter=letter)


def _parsed_run_id(run_id: object) -> RunId | None:
    try:
        return parse_run_id(run_id) if isinstance(run_id, str) else None
    except RunNotFound:
        return None


async def _fail(context: WorkerContext, delivery: Delivery, run_id: RunId, error: InvalidJob) -> None:
    stores, now = context.stores, context.stores.clock.now()
    if delivery.created_sequence is None:
        flow_name = error.facts.get("flow_name")
        known = flow_name if isinstance(flow_name, str) else ""
        request = Request(flow_name=known[:MAX_FLOW_NAME_CHARS], tag=delivery.tag)
        await handle(stores, run_id, CreateExecution(at=now, request=request), context.origin)
    # From the log: a snapshot may not show the present holder yet.
    commits = await stores.events.read(run_id)
    # A run that was submitted to the gateway has its own job in the queue; a foreign message must not fail it.
    is_its_job = delivery.created_sequence is not None or _was_created_by_worker(commits)
    if is_its_job and not fold_commits(commits, empty_execution(run_id)).is_held:
        failure = Failure(code=error.err_id, message=f"{error.message()}: {error.detail}")
        await handle(stores, run_id, FailExecution(at=now, error=failure), context.origin)


def _was_created_by_worker(commits: Sequence[StoredCommit]) -> bool:
    return bool(commits) and commits[0].commit.actor.kind == "worker"
