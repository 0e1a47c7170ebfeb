"""Carries an outcome out: the dead letter first, then the word to the queue. What the word is, `settle` has decided."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyoco_server.domain.execution.commands import CreateExecution, FailExecution
from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Failure, Request, empty_execution
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import BrokerUnavailable, InvalidJob, RunNotFound
from pyoco_server.ports import DeadLetter, Delivery
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.services.maintenance.dead_letter_publisher import INVALID_JOB, publish_dead_letter
from pyoco_server.worker.attempt import Workplace
from pyoco_server.worker.intake import MAX_FLOW_NAME_CHARS
from pyoco_server.worker.settle import Ack, Invalid, Nak, Nothing, Outcome, Term, letter_of, settle

logger = logging.getLogger(__name__)


async def carry_out(stores: Stores, delivery: Delivery, outcome: Outcome) -> None:
    """Write the letter, if any, and tell the queue; a broker that does not hear us delivers the job again."""
    if (letter := letter_of(outcome)) is not None:
        await publish_dead_letter(stores, letter)
    try:
        match settle(outcome):
            case Ack():
                await delivery.ack()
            case Nak(delay_sec=delay_sec):
                await delivery.nak(delay_sec)
            case Term():
                await delivery.term()
            case Nothing():
                pass
    except BrokerUnavailable:
        # Not answered means delivered again, and then found finished.
        logger.warning("the queue did not hear the answer", extra={"subject": delivery.subject})


async def refuse(place: Workplace, delivery: Delivery, error: InvalidJob) -> Invalid:
    """The outcome of a message that is no job; the run that it names, if that is its own, has failed."""
    ids = {"err_id": error.err_id, "msg_id": error.msg_id, "reason": INVALID_JOB}
    logger.warning(error.message(), extra={"subject": delivery.subject, "error": error.detail} | ids)
    run_id = _named(error.facts.get("run_id"))
    if run_id is not None:
        await _fail(place, delivery, run_id, error)
    return Invalid(
        letter=DeadLetter(
            timestamp=place.stores.clock.now(),
            reason=INVALID_JOB,
            error=error.detail,
            run_id=run_id,
            tag=delivery.tag,
            worker_id=place.worker_id,
            num_delivered=delivery.num_delivered,
            subject=delivery.subject,
        )
    )


def _named(run_id: object) -> RunId | None:
    try:
        return parse_run_id(run_id) if isinstance(run_id, str) else None
    except RunNotFound:
        return None


async def _fail(place: Workplace, delivery: Delivery, run_id: RunId, error: InvalidJob) -> None:
    stores, now = place.stores, place.stores.clock.now()
    if delivery.created_sequence is None:
        flow_name = error.facts.get("flow_name")
        known = flow_name if isinstance(flow_name, str) else ""
        request = Request(flow_name=known[:MAX_FLOW_NAME_CHARS], tag=delivery.tag)
        await handle(stores, run_id, CreateExecution(at=now, request=request), place.origin)
    # From the log: a snapshot may not show yet that somebody works on it.
    commits = await stores.events.read(run_id)
    # Of a run that was submitted here the queue has a job of our own; a stranger's has no say in what becomes of it.
    is_its_job = delivery.created_sequence is not None or _begun_by_a_worker(commits)
    if is_its_job and not fold_commits(commits, empty_execution(run_id)).is_held:
        failure = Failure(code=error.err_id, message=f"{error.message()}: {error.detail}")
        await handle(stores, run_id, FailExecution(at=now, error=failure), place.origin)


def _begun_by_a_worker(commits: Sequence[StoredCommit]) -> bool:
    """Whether the run came out of the queue."""
    return bool(commits) and commits[0].commit.actor.kind == "worker"
