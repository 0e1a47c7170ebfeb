"""The life of a worker: pull jobs by tag, work on them, keep what it holds alive, hand back what it cannot finish.

    tags ──pull──▶ in hand ──▶ Attempt ──▶ settle ──▶ ack | nak | term | nothing
                     ▲ tick: in_progress to the queue, heartbeat to the runs, a word to the fleet
    tap (pyoco.tell.<instance>) ──▶ Attempt.look

The supervisor never runs user code, so nothing a flow does can starve its heartbeats, acks or cancels.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeVar

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.errors import BrokerUnavailable, InProgressFailed, InvalidJob, PyocoError
from pyoco_server.ports import Delivery, Job, TagQueue
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.worker.answers import carry_out, refuse
from pyoco_server.worker.attempt import Attempt, Workplace
from pyoco_server.worker.executor import Executor, WheelKeeper
from pyoco_server.worker.fleet_voice import FleetVoice
from pyoco_server.worker.intake import parse_job
from pyoco_server.worker.settle import Finished, HandedBack, HeldElsewhere, Outcome, Unavailable
from pyoco_server.worker.start_line import StartLine

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A broker that does not answer is asked again after this; the queue's own waiting does the rest.
PULL_PAUSE_SEC = 0.5
# Jobs are taken ahead of a free slot if they will be begun within this time, going by the pace of the last ones.
AHEAD_SEC = 0.05
MOST_AHEAD = 16
# What is given back takes a kill and a word to the queue; a broker that is away must not keep a worker from stopping.
HAND_BACK_SEC = 5.0
CANCEL_AGAIN_SEC = 0.2


class Supervisor:
    """One worker: an identity, its tags, its executor, and everything it has in hand."""

    def __init__(
        self,
        stores: Stores,
        executor: Executor,
        config: NatsBackendConfig,
        worker_id: WorkerId,
        tags: Sequence[str],
        slots: int,
        sync: WheelKeeper | None = None,
    ) -> None:
        self.tags = tuple(dict.fromkeys(tags))
        self.slots = slots
        self._stores = stores
        self._executor = executor
        self._sync = sync
        self._config = config
        self._tasks: set[asyncio.Task[None]] = set()
        self._attempts: dict[RunId, Attempt] = {}
        self._in_hand: set[Delivery] = set()
        self._working: dict[Delivery, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._ack_wait_sec = config.consumer_ack_wait_sec
        self._line = StartLine(slots, AHEAD_SEC)
        instance_id = stores.ids.instance_id()
        self._place = Workplace(
            stores=stores,
            executor=executor,
            config=config,
            worker_id=worker_id,
            instance_id=instance_id,
            origin=CommandContext(actor=Actor(kind="worker", id=worker_id)),
            spawn=self._spawn,
            line=self._line,
        )
        self._voice = FleetVoice(
            *(stores, worker_id, instance_id, self.tags, slots, self._running, self._wheel_sync),
            flows=lambda: executor.flows,
        )

    async def run(self, stop: asyncio.Event, *, at_once: asyncio.Event) -> None:
        """Work until `stop` is set; then finish within the grace, and hand back the rest: sooner with `at_once`."""
        async with AsyncExitStack() as service:
            if await unless_stopped(stop, service.enter_async_context(self.in_service())) is None:
                return
            async with asyncio.TaskGroup() as keeping:
                pulling = [keeping.create_task(self._pull(tag)) for tag in self.tags]
                await stop.wait()
                for task in pulling:
                    task.cancel()
                await self._drain(at_once)

    @asynccontextmanager
    async def in_service(self) -> AsyncIterator[Self]:
        """Within the block the worker is part of the fleet and keeps alive whatever it holds."""
        await (self._executor.start() if self._sync is None else self._sync.start())
        try:
            # Before it is in the fleet: of two that start under one name, the one that is in answers the other.
            await self._stores.signals.listen(self._place.instance_id, self._tapped, self._holds)
            await self._voice.enter()
            logger.info("worker ready", extra=self._facts() | {"flows": len(self._executor.flows)})
            unasked = [asyncio.create_task(self._tick_for_ever())]
            if self._sync is not None:
                unasked.append(asyncio.create_task(self._sync.run()))
            try:
                yield self
            finally:
                for task in unasked:
                    task.cancel()
                await asyncio.wait(unasked)
            await self._goodbye()
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
                    await self._room.wait()
                    for delivery in await queue.receive(self._credit()):
                        self._take(delivery)
                except BrokerUnavailable:
                    logger.warning("cannot pull; trying again", extra=self._facts() | {"tag": tag})
                    await asyncio.sleep(PULL_PAUSE_SEC)
        finally:
            if queue is not None:
                await queue.close()

    def _credit(self) -> int:
        """How many jobs to ask for, shared between the tags."""
        return max(1, (self._limit() - len(self._in_hand)) // len(self.tags))

    def _limit(self) -> int:
        """One job per slot, and ahead of them only as many as will be begun in a moment: others may be idle."""
        ahead = int(self.slots * AHEAD_SEC / max(self._line.pace_sec, 0.001))
        return self.slots + min(ahead, MOST_AHEAD)

    def _note_pace(self, attempt: Attempt) -> None:
        if attempt.busy_sec is not None:
            self._line.note(attempt.busy_sec)
        elif attempt.waited_in_vain:
            # Nothing ahead until runs are short again: each delivery counts towards the broker's limit, and a job that
            # is passed around would be given up in silence.
            self._line.pace_sec = float(self.slots)

    def _take(self, delivery: Delivery) -> None:
        self.hold(delivery)
        self._working[delivery] = self._spawn(self.work(delivery))

    def hold(self, delivery: Delivery) -> None:
        """From now on the queue hears that we are on it."""
        self._in_hand.add(delivery)
        self._note_room()

    async def work(self, delivery: Delivery) -> None:
        """Work on one delivery and give the queue its answer."""
        try:
            outcome = await self._outcome(delivery)
            await self.answer(delivery, outcome)
        except asyncio.CancelledError:
            await self.answer(delivery, HandedBack())
            raise
        finally:
            # Whatever went wrong: kept in hand, a job would be ours for ever and nobody would work on it.
            self._let_go(delivery)
            self._working.pop(delivery, None)

    async def answer(self, delivery: Delivery, outcome: Outcome) -> None:
        """Tell the queue, and let go of the delivery."""
        try:
            await carry_out(self._stores, delivery, outcome)
        finally:
            self._let_go(delivery)

    async def _outcome(self, delivery: Delivery) -> Outcome:
        try:
            try:
                return await self._attempt(delivery, parse_job(delivery.payload))
            except InvalidJob as error:
                return await refuse(self._place, delivery, error)
        except BrokerUnavailable:
            return Unavailable()
        except PyocoError:
            logger.exception("attempt could not go on", extra={"subject": delivery.subject})
            return Unavailable()

    async def _attempt(self, delivery: Delivery, job: Job) -> Outcome:
        if job.run_id in self._attempts:
            return HeldElsewhere()  # the same run, delivered to us twice
        attempt = Attempt(self._place, delivery, job)
        self._attempts[job.run_id] = attempt
        try:
            outcome = await attempt.run()
        finally:
            del self._attempts[job.run_id]
        self._note_pace(attempt)
        if isinstance(outcome, Finished):
            self._voice.ran(job.run_id, outcome.status)
        logger.info("attempt over", extra=attempt.facts() | {"outcome": type(outcome).__name__})
        return outcome

    def _let_go(self, delivery: Delivery) -> None:
        self._in_hand.discard(delivery)
        self._note_room()

    # --- keeping alive ------------------------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        beat_sec = self._config.run_heartbeat_interval_sec
        next_progress = 0.0
        while True:
            await asyncio.sleep(beat_sec)
            now = self._stores.clock.monotonic()
            try:
                if now >= next_progress:
                    lease_sec = min(self._config.ack_progress_interval_sec, self._ack_wait_sec / 3)
                    next_progress = now + lease_sec - beat_sec / 2
                    await self._progress()
                await self._beat()
            except Exception:
                # The outer loop of a worker: without it every run in hand would look lost and be begun elsewhere.
                logger.exception("a heartbeat broke", extra=self._facts())

    async def _progress(self) -> None:
        try:
            for delivery in list(self._in_hand):
                await delivery.in_progress()
        except BrokerUnavailable:
            ids = {"err_id": InProgressFailed.err_id, "msg_id": InProgressFailed.msg_id}
            logger.warning(InProgressFailed.message(), extra=self._facts() | ids)

    async def _beat(self) -> None:
        try:
            # First: trouble with one run must not make the whole worker look gone.
            await self._voice.speak(self._config.worker_heartbeat_interval_sec)
            running = [attempt for attempt in self._attempts.values() if attempt.is_running]
            await asyncio.gather(*(attempt.beat() for attempt in running))
        except BrokerUnavailable:
            logger.warning("no heartbeat: the broker is away", extra=self._facts())

    def _tapped(self, run_id: RunId) -> None:
        if (attempt := self._attempts.get(run_id)) is not None:
            self._spawn(self._look(attempt))

    def _holds(self, run_id: RunId) -> bool:
        attempt = self._attempts.get(run_id)
        return attempt is not None and attempt.holds

    async def _look(self, attempt: Attempt) -> None:
        try:
            await attempt.look()
        except BrokerUnavailable:
            logger.warning("could not look at the log; the next heartbeat will", extra=attempt.facts())

    # --- stopping -----------------------------------------------------------------------------------------------------

    async def _drain(self, at_once: asyncio.Event) -> None:
        """Let what runs finish within the grace; what has not begun is given back at once, the rest afterwards."""
        begun = {attempt.delivery for attempt in self._attempts.values() if attempt.has_begun}
        for delivery, task in self._working.items():
            if delivery not in begun:
                task.cancel()
        grace_sec = self._config.worker_stop_grace_period_sec
        if self._attempts:
            logger.info("finishing runs", extra=self._facts() | {"runs": len(self._attempts), "seconds": grace_sec})
        hurry = asyncio.ensure_future(at_once.wait())
        finished = asyncio.ensure_future(self._all_settled())
        await asyncio.wait([hurry, finished], timeout=grace_sec, return_when=asyncio.FIRST_COMPLETED)
        for attempt in list(self._attempts.values()):
            attempt.hand_back()
        await asyncio.wait([finished], timeout=HAND_BACK_SEC)
        hurry.cancel()
        finished.cancel()

    async def _all_settled(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _goodbye(self) -> None:
        try:
            await self._voice.leave("stopped")
        except BrokerUnavailable:
            logger.warning("could not say goodbye", extra=self._facts())
        logger.info("worker stopped", extra=self._facts())

    # --- small things -------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the worker broke", exc_info=error, extra=self._facts())

    def _note_room(self) -> None:
        if len(self._in_hand) < self._limit():
            self._room.set()
        else:
            self._room.clear()

    def _running(self) -> list[RunId]:
        return [run_id for run_id, attempt in self._attempts.items() if attempt.is_running]

    def _wheel_sync(self) -> Mapping[str, Any] | None:
        return None if self._sync is None else self._sync.wheel_sync

    def _facts(self) -> dict[str, object]:
        return {"worker_id": self._place.worker_id, "tags": list(self.tags)}


async def unless_stopped(stop: asyncio.Event, start: Coroutine[Any, Any, T]) -> T | None:
    """What the start gives, or None when the stop came first: what never gets ready must not keep us from it."""
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        # Said until it is heard: on Python 3.11 `asyncio.wait_for`, which nats-py uses, can swallow a cancel.
        while not starting.done():
            starting.cancel()
            await asyncio.wait([starting], timeout=CANCEL_AGAIN_SEC)
    return None if starting.cancelled() else starting.result()
