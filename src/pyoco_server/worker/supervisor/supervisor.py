"""The lifecycle of a worker: pulls jobs by tag, runs attempts, renews leases and heartbeats, drains on shutdown.

    tags ──pull──▶ held deliveries ──▶ Attempt ──▶ disposition ──▶ ack | nak | term | none
                     ▲ tick: in_progress to the queue, heartbeat to the runs, record to the registry
    signal (pyoco.tell.<instance>) ──▶ Attempt.refresh

The supervisor never runs user code, so a flow cannot starve its heartbeats, acks or cancels.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.errors import BrokerUnavailable, InProgressFailed, InvalidJob, PyocoError
from pyoco_server.log_context import begin_work, end_work
from pyoco_server.ports import Delivery, Job, TagQueue
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.worker.attempt.attempt import HELD_ELSEWHERE, RELEASED, Attempt
from pyoco_server.worker.attempt.attempt_spans import run_traced
from pyoco_server.worker.attempt.context import StartThrottle, WorkerContext
from pyoco_server.worker.attempt.disposition import Outcome, OutcomeKind, carry_out, reject
from pyoco_server.worker.attempt.job_parser import parse_job
from pyoco_server.worker.runner_pool.executor import Executor
from pyoco_server.worker.supervisor.registration import WorkerRegistration

if TYPE_CHECKING:
    from pyoco_server.tracing.opentelemetry import Tracing
    from pyoco_server.worker.wheels.wheel_sync import WheelSync

logger = logging.getLogger(__name__)

T = TypeVar("T")

# The pause after a failed pull; a pull itself waits for jobs.
PULL_PAUSE_SEC = 0.5
# Jobs are prefetched if they can start within this time, going by the average duration of the last runs.
PREFETCH_SEC = 0.05
MAX_PREFETCH = 16
# Releasing a run takes a kill and an answer to the queue. An unreachable broker must not keep a worker from stopping.
RELEASE_SEC = 5.0
CANCEL_AGAIN_SEC = 0.2


class Supervisor:
    """One worker: its identity, tags, executor, and the deliveries it holds."""

    def __init__(
        self,
        stores: Stores,
        executor: Executor,
        config: NatsBackendConfig,
        worker_id: WorkerId,
        tags: Sequence[str],
        slots: int,
        sync: WheelSync | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.tags = tuple(dict.fromkeys(tags))
        self.slots = slots
        self._stores = stores
        self._executor = executor
        self._sync = sync
        self._tracing = tracing
        self._config = config
        self._tasks: set[asyncio.Task[None]] = set()
        self._attempts: dict[RunId, Attempt] = {}
        self._held: set[Delivery] = set()
        self._working: dict[Delivery, asyncio.Task[None]] = {}
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._ack_wait_sec = config.consumer_ack_wait_sec
        self._start_throttle = StartThrottle(slots, PREFETCH_SEC)
        instance_id = stores.ids.instance_id()
        self._context = WorkerContext(
            stores=stores,
            executor=executor,
            config=config,
            worker_id=worker_id,
            instance_id=instance_id,
            origin=CommandContext(actor=Actor(kind="worker", id=worker_id)),
            spawn=self._spawn,
            start_throttle=self._start_throttle,
        )
        self._last_run: dict[str, str] = {}
        self._registration = WorkerRegistration(stores, worker_id, instance_id, self.tags, slots, self._record_fields)

    async def run(self, stop: asyncio.Event, *, at_once: asyncio.Event) -> None:
        """Works until `stop` is set, then drains within the grace period, or less with `at_once`."""
        async with AsyncExitStack() as service:
            if await unless_stopped(stop, service.enter_async_context(self.in_service())) is None:
                return
            async with asyncio.TaskGroup() as group:
                pulling = [group.create_task(self._pull(tag)) for tag in self.tags]
                await stop.wait()
                for task in pulling:
                    task.cancel()
                await self._drain(at_once)

    @asynccontextmanager
    async def in_service(self) -> AsyncIterator[Self]:
        """Within the block the worker is registered and renews the leases of what it holds."""
        await (self._executor.start() if self._sync is None else self._sync.start())
        try:
            # Before registering: of two workers that start with one id, the registered one must answer the other.
            await self._stores.signals.listen(self._context.instance_id, self._on_signal, self._holds)
            await self._registration.register()
            code = self._executor.code
            facts = {"code_version": code.version, "code_reload": code.reload} if code is not None else {}
            flows = len(self._executor.announcement.flows)
            logger.info("worker ready", extra=self._log_fields() | {"flows": flows} | facts)
            background = [asyncio.create_task(self._tick_forever())]
            if self._sync is not None:
                background.append(asyncio.create_task(self._sync.run()))
            try:
                yield self
            finally:
                for task in background:
                    task.cancel()
                await asyncio.wait(background)
            await self._unregister()
        finally:
            await self._executor.close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    async def _pull(self, tag: str) -> None:
        queue: TagQueue | None = None
        try:
            while True:
                try:
                    if queue is None:
                        queue = await self._stores.queue.open(tag)
                        self._ack_wait_sec = min(self._ack_wait_sec, queue.ack_wait_sec)
                    await self._has_capacity.wait()
                    for delivery in await queue.receive(self._credit()):
                        self.hold(delivery)
                        self._working[delivery] = self._spawn(self.work(delivery))
                except BrokerUnavailable as error:
                    logger.warning("cannot pull; retrying", extra=self._log_fields() | {"tag": tag} | error.ids())
                    await asyncio.sleep(PULL_PAUSE_SEC)
        finally:
            if queue is not None:
                await queue.close()

    def _credit(self) -> int:
        return max(1, (self._limit() - len(self._held)) // len(self.tags))

    def _limit(self) -> int:
        """One job per slot, and only as many more as can start soon: other workers may be idle."""
        prefetch = int(self.slots * PREFETCH_SEC / max(self._start_throttle.average_run_sec, 0.001))
        return self.slots + min(prefetch, MAX_PREFETCH)

    def _note_duration(self, attempt: Attempt) -> None:
        if attempt.busy_sec is not None:
            self._start_throttle.note_run(attempt.busy_sec)
        elif attempt.runner_wait_timed_out:
            # No prefetch until runs are short again: each delivery counts towards the broker's limit, and a job that
            # is released too often would be given up silently.
            self._start_throttle.average_run_sec = float(self.slots)

    def hold(self, delivery: Delivery) -> None:
        """Renews the lease of the delivery from now on."""
        self._held.add(delivery)
        self._update_capacity()

    async def work(self, delivery: Delivery) -> None:
        """Processes one delivery and answers the queue."""
        before = begin_work(None, None)
        try:
            outcome = await self._outcome(delivery)
            await self.answer(delivery, outcome)
        except asyncio.CancelledError:
            await self.answer(delivery, RELEASED)
            raise
        finally:
            # Whatever went wrong: a delivery that stays held would have its lease renewed forever.
            self._drop(delivery)
            self._working.pop(delivery, None)
            end_work(before)

    async def answer(self, delivery: Delivery, outcome: Outcome) -> None:
        try:
            await carry_out(self._stores, delivery, outcome)
        finally:
            self._drop(delivery)

    async def _outcome(self, delivery: Delivery) -> Outcome:
        try:
            try:
                return await self._attempt(delivery, parse_job(delivery.payload))
            except InvalidJob as error:
                return await reject(self._context, delivery, error)
        except BrokerUnavailable as error:
            facts = {"subject": delivery.subject, "tag": delivery.tag, "error": error.detail}
            logger.warning("broker unavailable; job is delivered again", extra=self._log_fields() | facts | error.ids())
        except PyocoError:
            logger.exception("attempt failed", extra={"subject": delivery.subject})
        return Outcome(kind=OutcomeKind.UNAVAILABLE)

    async def _attempt(self, delivery: Delivery, job: Job) -> Outcome:
        if job.run_id in self._attempts:
            return HELD_ELSEWHERE  # the same run, delivered twice to this worker
        begin_work(job.request_id, job.correlation_id)
        attempt = Attempt(self._context, delivery, job)
        self._attempts[job.run_id] = attempt
        try:
            if self._tracing is None:
                outcome = await attempt.run()
            else:
                outcome = await run_traced(self._tracing, attempt, self._context.worker_id)
        finally:
            del self._attempts[job.run_id]
        self._note_duration(attempt)
        if outcome.status is not None:
            self._last_run = {"last_run_id": job.run_id, "last_run_status": outcome.status}
        logger.info("attempt over", extra=attempt.log_fields() | {"outcome": outcome.kind.value})
        return outcome

    def _drop(self, delivery: Delivery) -> None:
        self._held.discard(delivery)
        self._update_capacity()

    # --- leases and heartbeats ----------------------------------------------------------------------------------------

    async def _tick_forever(self) -> None:
        beat_sec = self._config.run_heartbeat_interval_sec
        next_progress = 0.0
        while True:
            await asyncio.sleep(beat_sec)
            now = self._stores.clock.monotonic()
            try:
                if now >= next_progress:
                    lease_sec = min(self._config.ack_progress_interval_sec, self._ack_wait_sec / 3)
                    next_progress = now + lease_sec - beat_sec / 2
                    await self._renew_leases()
                await self._heartbeat()
            except Exception:
                # The outermost loop: without it every held run would look lost and be started elsewhere.
                logger.exception("heartbeat failed", extra=self._log_fields())

    async def _renew_leases(self) -> None:
        try:
            for delivery in list(self._held):
                await delivery.in_progress()
        except BrokerUnavailable:
            logger.warning(InProgressFailed.message(), extra=self._log_fields() | InProgressFailed.ids())

    async def _heartbeat(self) -> None:
        try:
            # First: trouble with one run must not make the whole worker look lost.
            await self._registration.update(self._config.worker_heartbeat_interval_sec)
            running = [attempt for attempt in self._attempts.values() if attempt.is_running]
            await asyncio.gather(*(attempt.heartbeat() for attempt in running))
        except BrokerUnavailable as error:
            logger.warning("no heartbeat: the broker is away", extra=self._log_fields() | error.ids())

    def _on_signal(self, run_id: RunId) -> None:
        if (attempt := self._attempts.get(run_id)) is not None:
            self._spawn(self._refresh(attempt))

    def _holds(self, run_id: RunId) -> bool:
        attempt = self._attempts.get(run_id)
        return attempt is not None and attempt.holds

    async def _refresh(self, attempt: Attempt) -> None:
        try:
            await attempt.refresh()
        except BrokerUnavailable as error:
            logger.warning("could not read the log; the next heartbeat does", extra=attempt.log_fields() | error.ids())

    # --- shutdown -----------------------------------------------------------------------------------------------------

    async def _drain(self, at_once: asyncio.Event) -> None:
        """Lets runs finish within the grace period. Releases what has not started at once, the rest afterwards."""
        started = {attempt.delivery for attempt in self._attempts.values() if attempt.has_started}
        for delivery, task in self._working.items():
            if delivery not in started:
                task.cancel()
        grace_sec = self._config.worker_stop_grace_period_sec
        if self._attempts:
            logger.info(
                "finishing runs", extra=self._log_fields() | {"runs": len(self._attempts), "seconds": grace_sec}
            )
        hurry = asyncio.ensure_future(at_once.wait())
        finished = asyncio.ensure_future(self._tasks_done())
        await asyncio.wait([hurry, finished], timeout=grace_sec, return_when=asyncio.FIRST_COMPLETED)
        for attempt in list(self._attempts.values()):
            attempt.release()
        await asyncio.wait([finished], timeout=RELEASE_SEC)
        hurry.cancel()
        finished.cancel()

    async def _tasks_done(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _unregister(self) -> None:
        try:
            await self._registration.unregister("stopped")
        except BrokerUnavailable as error:
            logger.warning("could not unregister", extra=self._log_fields() | error.ids())
        logger.info("worker stopped", extra=self._log_fields())

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("worker task failed", exc_info=error, extra=self._log_fields())

    def _update_capacity(self) -> None:
        if len(self._held) < self._limit():
            self._has_capacity.set()
        else:
            self._has_capacity.clear()

    def _record_fields(self) -> dict[str, Any]:
        return {
            "current_run_ids": tuple(run_id for run_id, attempt in self._attempts.items() if attempt.is_running),
            "wheel_sync": None if self._sync is None else self._sync.wheel_sync,
            "code": self._executor.code,
            "isolation": self._executor.isolation,
            "runner_user": self._config.runner_user or _own_user(),
            "flows": self._executor.announcement.flows,
            "flows_complete": self._executor.announcement.is_complete,
            **self._last_run,
        }

    def _log_fields(self) -> dict[str, object]:
        return {"worker_id": self._context.worker_id, "tags": list(self.tags)}


def _own_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


async def unless_stopped(stop: asyncio.Event, start: Coroutine[Any, Any, T]) -> T | None:
    """The result of `start`, or None if the stop came first; a start that hangs does not delay the stop."""
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        # Repeated: on Python 3.11 `asyncio.wait_for`, which nats-py uses, can swallow a cancel.
        while not starting.done():
            starting.cancel()
            await asyncio.wait([starting], timeout=CANCEL_AGAIN_SEC)
    return None if starting.cancelled() else starting.result()
