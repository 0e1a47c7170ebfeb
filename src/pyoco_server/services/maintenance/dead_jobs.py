"""What lies dead in the queue: jobs that the broker has given up, and jobs that nobody will ever take away.

    given up      delivered as often as the broker does it, in vain; it says so once and is silent from then on
                  ──▶ the run ends FAILED with a dead letter, and the message goes
    left over     of a run that is finished, under a tag that nobody serves (a worker would have acknowledged it)
                  ──▶ the message goes

Every gateway may do so at once: the end of a run is decided by compare-and-set, and a message goes only once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pyoco_server.domain.execution.commands import FailExecution
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.execution.state import Execution, Failure, empty_execution
from pyoco_server.domain.fleet.worker_status import QueueState
from pyoco_server.errors import ExecutionFailedError
from pyoco_server.ports import RunIndex, StoredJob
from pyoco_server.services.context import GATEWAY, Stores
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.services.executions.holder import holder_is_alive
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.maintenance.dead_letter_publisher import INVALID_JOB, MAX_DELIVER, publish_dead_letter
from pyoco_server.services.maintenance.error_handling import log_and_continue
from pyoco_server.services.maintenance.job_messages import plain_of, run_id_of
from pyoco_server.stores import DeadLetter

logger = logging.getLogger(__name__)

SWEEP_EVERY_SEC = 10.0
# Looked at twice, so far apart: what a broker says in the middle of an election or a restart is no reason to end a run.
LOOK_AGAIN_SEC = 1.0
AT_A_TIME = 200
# From here on the limit is near: workers take some jobs ahead, and redeliveries count too.
NEAR_THE_LIMIT = 0.8


class DeadJobSweeper:
    """The broom of one gateway."""

    def __init__(self, stores: Stores, index: RunIndex, fleet: FleetView) -> None:
        self._stores = stores
        self._index = index
        self._fleet = fleet
        self._hint = asyncio.Event()
        self._suspects: dict[tuple[str, int], float] = {}
        self._positions: dict[str, int] = {}
        self._warned: dict[str, tuple[int, int]] = {}

    async def run(self) -> None:
        """Sweep until cancelled: from time to time, and soon when the broker gives something up."""
        listens = False
        while True:
            with log_and_continue("sweep"):
                if not listens:
                    await self._stores.queue.on_given_up(self._hint.set)
                    listens = True
                await self.sweep()
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LOOK_AGAIN_SEC if self._suspects else SWEEP_EVERY_SEC):
                await self._hint.wait()
        except TimeoutError:
            return
        self._hint.clear()

    async def sweep(self) -> None:
        """One round through all tags that have jobs."""
        slots = self._slots()
        suspects: dict[tuple[str, int], float] = {}
        for tag in await self._stores.queue.tags():
            state = await self._stores.queue.state(tag)
            self._warn_near_the_limit(tag, state, slots.get(tag, 0))
            suspects |= await self._end_given_up(tag, state)
            if tag not in slots:
                await self._clear_left_over(tag)
        self._suspects = suspects

    def _slots(self) -> Mapping[str, int]:
        """How many runs the living workers of each tag can have at work."""
        slots: dict[str, int] = {}
        for seen in self._fleet.sightings():
            if seen.is_active:
                for tag in seen.record.tags:
                    slots[tag] = slots.get(tag, 0) + seen.record.slots
        return slots

    def _warn_near_the_limit(self, tag: str, state: QueueState, slots: int) -> None:
        limit = state.most_in_work
        if limit is None or limit <= 0 or slots < NEAR_THE_LIMIT * limit:
            self._warned.pop(tag, None)
        elif self._warned.get(tag) != (slots, limit):
            self._warned[tag] = (slots, limit)
            facts = {"tag": tag, "slots": slots, "limit": limit, "setting": "PYOCO_CONSUMER_MAX_ACK_PENDING"}
            logger.warning("the workers of a tag have nearly as many slots as its queue hands out jobs", extra=facts)

    # --- given up -----------------------------------------------------------------------------------------------------

    async def _end_given_up(self, tag: str, state: QueueState) -> dict[tuple[str, int], float]:
        """End what was given up and is seen so for the second time; the rest are suspects for the next round."""
        now = self._stores.clock.monotonic()
        suspects: dict[tuple[str, int], float] = {}
        for job in await self._stores.queue.stored(tag, upto=state.given_up_through, limit=AT_A_TIME):
            known_since = self._suspects.get((tag, job.sequence), now)
            if now - known_since < LOOK_AGAIN_SEC or not await self._end(job, state):
                suspects[tag, job.sequence] = known_since
        return suspects

    async def _end(self, job: StoredJob, state: QueueState) -> bool:
        """End the run of a job that was given up, and take the job out; False while its holder still works on it."""
        plain = plain_of(job)
        run_id = run_id_of(plain)
        execution = empty_execution(run_id) if run_id else None
        if run_id is not None:
            execution = fold_commits(await self._stores.events.read(run_id), empty_execution(run_id))
        if execution is None or not execution.exists:
            if job.created_sequence is None:  # a foreign producer's, which nobody came to adopt
                await publish_dead_letter(
                    self._stores, self._letter(job, plain, state, MAX_DELIVER if run_id else INVALID_JOB)
                )
        elif not execution.status.is_terminal and not await self._fail(job, plain, execution, state):
            return False
        await self._stores.queue.discard(job)
        return True

    async def _fail(self, job: StoredJob, plain: Mapping[str, Any], execution: Execution, state: QueueState) -> bool:
        if execution.cancel is not None:
            return False  # the cancel is seen through by itself, and then the run is finished
        if await holder_is_alive(self._stores, execution):
            return False
        failure = Failure(code=ExecutionFailedError.err_id, message=_words(execution, state))
        # With the attempt: whoever begins another one meanwhile is not ended by us.
        command = FailExecution(at=self._stores.clock.now(), error=failure, attempt=execution.attempt or None)
        handled = await handle(self._stores, execution.execution_id, command, GATEWAY)
        if handled.refused is not None:
            return handled.execution.status.is_terminal
        facts = {"run_id": execution.execution_id, "tag": job.tag, "attempt": execution.attempt, "reason": MAX_DELIVER}
        ids = {"err_id": ExecutionFailedError.err_id, "msg_id": ExecutionFailedError.msg_id}
        logger.warning("ended a run whose job was delivered too often", extra=facts | ids)
        await publish_dead_letter(self._stores, self._letter(job, plain, state, MAX_DELIVER, execution, failure))
        return True

    def _letter(
        self,
        job: StoredJob,
        plain: Mapping[str, Any],
        state: QueueState,
        reason: str,
        execution: Execution | None = None,
        failure: Failure | None = None,
    ) -> DeadLetter:
        flow_name = plain.get("flow_name")
        holder = execution.holder if execution else None
        return DeadLetter(
            timestamp=self._stores.clock.now(),
            reason=reason,
            error=failure.message if failure else "the job was delivered as often as the queue does it, in vain",
            run_id=run_id_of(plain),
            flow_name=flow_name if isinstance(flow_name, str) else None,
            tag=job.tag,
            tags=execution.labels if execution else None,
            worker_id=holder.worker_id if holder else None,
            num_delivered=state.most_deliveries,
            subject=job.subject,
        )

    # --- left over ----------------------------------------------------------------------------------------------------

    async def _clear_left_over(self, tag: str) -> None:
        """Of a tag that nobody serves: a part of its jobs in each round, so that a long queue costs no more."""
        after = self._positions.get(tag, 0)
        jobs = await self._stores.queue.stored(tag, after=after, limit=AT_A_TIME)
        self._positions[tag] = jobs[-1].sequence if len(jobs) == AT_A_TIME else 0
        removed = 0
        for job in await self._finished(jobs):
            await self._stores.queue.discard(job)
            removed += 1
        if removed:
            logger.info("removed jobs of finished runs", extra={"tag": tag, "jobs": removed})

    async def _finished(self, jobs: Sequence[StoredJob]) -> list[StoredJob]:
        named = [(job, run_id) for job in jobs if (run_id := run_id_of(plain_of(job))) is not None]
        known = self._index.known([run_id for _, run_id in named])
        done: list[StoredJob] = []
        for job, run_id in named:
            if run_id in known:
                if known[run_id][1] in TERMINAL_RUN_STATUSES:
                    done.append(job)
            elif job.created_sequence is not None and not await self._stores.events.read(run_id):
                done.append(job)  # retention has taken the run
        return done


def _words(execution: Execution, state: QueueState) -> str:
    times = f"{state.most_deliveries} times" if state.most_deliveries else "as often as allowed"
    begun = f"{execution.attempt} attempts were begun" if execution.attempt else "it was never begun"
    return f"given up after its job was delivered {times} ({begun}): each time its worker was lost or gave it back"
