"""Removes dead jobs from the queue: exhausted ones, and those of finished runs under a tag without workers.

    exhausted     delivered as often as the broker allows without an end; the broker reports it once
                  ──▶ the run ends FAILED with a dead letter, and the message is removed
    left over     of a finished run, under a tag that no worker serves (a worker would have acknowledged it)
                  ──▶ the message is removed

All gateways may do so at once: the end of a run is decided by compare-and-set, and a message is removed once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence

import orjson

from pyoco_server.domain.execution.commands import FailExecution
from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.execution.state import Execution, Failure
from pyoco_server.domain.fleet.worker_status import QueueState
from pyoco_server.domain.ids import RunId, is_run_id
from pyoco_server.errors import DeadLetterFailed, ExecutionFailedError, PyocoError
from pyoco_server.ports import RunIndex, StoredJob
from pyoco_server.services.context import GATEWAY, Stores
from pyoco_server.services.executions.cancel import holder_is_alive
from pyoco_server.services.executions.command_handler import handle, read_execution
from pyoco_server.services.executions.submit import first_commit
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.stores import DeadLetter

logger = logging.getLogger(__name__)

INVALID_JOB = "invalid_job"
MAX_DELIVER = "max_deliver"

SWEEP_EVERY_SEC = 10.0
# A job must be exhausted at two checks this far apart: one answer during an election or a restart proves nothing.
RECHECK_SEC = 1.0
BATCH = 200
# From this share of the limit on: workers prefetch jobs, and redeliveries count too.
NEAR_LIMIT = 0.8


async def publish_dead_letter(stores: Stores, dead_letter: DeadLetter) -> None:
    """Best effort: a failure is logged, never raised. The events of the run have the truth."""
    try:
        await stores.dead_letters.publish(dead_letter)
    except PyocoError as error:
        facts = {"run_id": dead_letter.run_id, "reason": dead_letter.reason, "error": error.detail}
        logger.warning(DeadLetterFailed.message(), extra={**facts, **DeadLetterFailed.ids()})


def names_in(job: StoredJob) -> tuple[RunId | None, str | None]:
    """The run id and the flow name of a queued job, as far as it has valid ones: it may hold anything."""
    try:
        fields = orjson.loads(job.payload)
    except orjson.JSONDecodeError:
        return None, None
    fields = fields if isinstance(fields, dict) else {}
    run_id, flow_name = str(fields.get("run_id")).lower(), fields.get("flow_name")
    return RunId(run_id) if is_run_id(run_id) else None, flow_name if isinstance(flow_name, str) else None


class DeadJobSweeper:
    """Removes dead queue messages; `wake` asks for a sweep now."""

    def __init__(self, stores: Stores, index: RunIndex, fleet: FleetView) -> None:
        self._stores = stores
        self._index = index
        self._fleet = fleet
        self.wake = asyncio.Event()
        self.wake.set()
        self._is_listening = False
        self._suspects: dict[tuple[str, int], float] = {}
        self._positions: dict[str, int] = {}
        self._warned: dict[str, tuple[int, int]] = {}

    async def sweep(self) -> None:
        """One iteration over all tags that have jobs."""
        if not self._is_listening:
            await self._stores.queue.on_given_up(self.wake.set)
            self._is_listening = True
        slots = self._slots()
        suspects: dict[tuple[str, int], float] = {}
        for tag in await self._stores.queue.tags():
            state = await self._stores.queue.state(tag)
            self._warn_near_limit(tag, state, slots.get(tag, 0))
            suspects |= await self._end_exhausted(tag, state)
            if tag not in slots:
                await self._clear_left_over(tag)
        self._suspects = suspects
        if suspects:
            asyncio.get_running_loop().call_later(RECHECK_SEC, self.wake.set)

    def _slots(self) -> Mapping[str, int]:
        """How many runs the active workers of each tag can run at a time."""
        slots = Counter[str]()
        for seen in self._fleet.workers():
            if seen.is_active:
                slots.update(dict.fromkeys(seen.record.tags, seen.record.slots))
        return slots

    def _warn_near_limit(self, tag: str, state: QueueState, slots: int) -> None:
        limit = state.most_in_work
        if limit is None or limit <= 0 or slots < NEAR_LIMIT * limit:
            self._warned.pop(tag, None)
        elif self._warned.get(tag) != (slots, limit):
            self._warned[tag] = (slots, limit)
            facts = {"tag": tag, "slots": slots, "limit": limit, "setting": "PYOCO_CONSUMER_MAX_ACK_PENDING"}
            logger.warning("worker slots of a tag near the consumer's limit", extra=facts)

    async def _end_exhausted(self, tag: str, state: QueueState) -> dict[tuple[str, int], float]:
        """End the runs of jobs that are exhausted at a second check; the others are suspects for the next sweep."""
        now = self._stores.clock.monotonic()
        suspects: dict[tuple[str, int], float] = {}
        for job in await self._stores.queue.stored(tag, upto=state.given_up_through, limit=BATCH):
            known_since = self._suspects.get((tag, job.sequence), now)
            if now - known_since < RECHECK_SEC or not await self._end(job, state):
                suspects[tag, job.sequence] = known_since
        return suspects

    async def _end(self, job: StoredJob, state: QueueState) -> bool:
        """End the run of an exhausted job and remove the job; False while its holder works on it."""
        run_id, _ = names_in(job)
        execution = None if run_id is None else await read_execution(self._stores, run_id)
        if execution is None or not execution.exists:
            if job.created_sequence is None:  # of a foreign producer, never adopted by a worker
                await publish_dead_letter(self._stores, self._dead_letter(job, state))
        elif not execution.status.is_terminal and not await self._fail(job, execution, state):
            return False
        await self._stores.queue.discard(job)
        return True

    async def _fail(self, job: StoredJob, execution: Execution, state: QueueState) -> bool:
        # `confirm_cancels` ends a run with a requested cancel.
        if execution.cancel is not None or await holder_is_alive(self._stores, execution):
            return False
        failure = Failure(code=ExecutionFailedError.err_id, message=_failure_text(execution, state))
        # With the attempt: another one that is started meanwhile is not ended.
        command = FailExecution(at=self._stores.clock.now(), error=failure, attempt=execution.attempt or None)
        result = await handle(self._stores, execution.execution_id, command, GATEWAY)
        if result.refused is not None:
            return result.execution.status.is_terminal
        facts = {"run_id": execution.execution_id, "tag": job.tag, "attempt": execution.attempt, "reason": MAX_DELIVER}
        logger.warning("ended the run of an exhausted job", extra=facts | ExecutionFailedError.ids())
        await publish_dead_letter(self._stores, self._dead_letter(job, state, execution, failure))
        return True

    def _dead_letter(
        self, job: StoredJob, state: QueueState, execution: Execution | None = None, failure: Failure | None = None
    ) -> DeadLetter:
        run_id, flow_name = names_in(job)
        holder = execution.holder if execution else None
        return DeadLetter(
            timestamp=self._stores.clock.now(),
            reason=MAX_DELIVER if run_id else INVALID_JOB,
            error=failure.message if failure else "the job was delivered as often as the queue does it, in vain",
            run_id=run_id,
            flow_name=flow_name,
            tag=job.tag,
            tags=execution.labels if execution else None,
            worker_id=holder.worker_id if holder else None,
            num_delivered=state.most_deliveries,
            subject=job.subject,
        )

    async def _clear_left_over(self, tag: str) -> None:
        """Check a part of the jobs of a tag without workers in each sweep: a long queue costs no more."""
        after = self._positions.get(tag, 0)
        jobs = await self._stores.queue.stored(tag, after=after, limit=BATCH)
        self._positions[tag] = jobs[-1].sequence if len(jobs) == BATCH else 0
        finished = await self._finished(jobs)
        for job in finished:
            await self._stores.queue.discard(job)
        if finished:
            logger.info("removed jobs of finished runs", extra={"tag": tag, "jobs": len(finished)})

    async def _finished(self, jobs: Sequence[StoredJob]) -> list[StoredJob]:
        named = [(job, run_id) for job in jobs if (run_id := names_in(job)[0]) is not None]
        known = self._index.known([run_id for _, run_id in named])
        done: list[StoredJob] = []
        for job, run_id in named:
            if (run := known.get(run_id)) is not None:
                is_done = run.status in TERMINAL_RUN_STATUSES
            else:  # perhaps removed by retention
                is_done = job.created_sequence is not None and await first_commit(self._stores.events, run_id) is None
            done += [job] if is_done else []
        return done


def _failure_text(execution: Execution, state: QueueState) -> str:
    times = f"{state.most_deliveries} times" if state.most_deliveries else "as often as allowed"
    begun = f"{execution.attempt} attempts were begun" if execution.attempt else "it was never begun"
    return f"given up after its job was delivered {times} ({begun}): each time its worker was lost or gave it back"
