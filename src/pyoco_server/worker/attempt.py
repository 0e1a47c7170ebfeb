"""One attempt at one run, top to bottom: open, take a runner, start, record what it does, end.

    open ─▶ borrow a runner ─▶ EXECUTION_STARTED stored ─▶ runner begins ─▶ steps recorded … ─▶ end stored ─▶ outcome
                                     │ tapped (cancel, fence) ─▶ look at the log ─▶ runner.cancel … kill after the grace

While runs are short the start is stored first and a runner borrowed then, so that no runner waits for the broker.
The end is stored — event and snapshot — before the queue hears of it. Broker trouble never ends a run: the ledger waits
it out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import (
    AttemptStep,
    CompleteExecution,
    ConfirmCanceled,
    FailExecution,
    RecordAttempt,
    StartExecution,
)
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, Failure, Request, Status, StopHow, TimeoutReceipt, WheelUsed
from pyoco_server.domain.flow_yaml.document import patterns_of
from pyoco_server.domain.ids import InstanceId, NodeId, RunId, WorkerId
from pyoco_server.errors import (
    CancelTimedOut,
    CommandRejected,
    ExecutionFailedError,
    InvalidJob,
    RequestTooLarge,
    SnapshotTooLarge,
)
from pyoco_server.ports import DeadLetter, Delivery, Job
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, handle
from pyoco_server.services.executions.holder import holder_is_alive
from pyoco_server.services.executions.submit import create_command
from pyoco_server.services.maintenance.dead_letter_publisher import MAX_DELIVER
from pyoco_server.worker.executor import Executor, Runner
from pyoco_server.worker.ledger import Ledger, LetGo
from pyoco_server.worker.run_log import RunLog
from pyoco_server.worker.settle import AlreadyFinished, Fenced, Finished, GivenUp, HandedBack, HeldElsewhere, Outcome
from pyoco_server.worker.start_line import StartLine
from pyoco_server.worker.steps import Died, Ended, Report, RunJob, Step
from pyoco_server.worker.time_limit import TimeLimit, timed_out
from pyoco_server.worker.verdict import at_work, commands_of, failure_of, last_words
from pyoco_server.worker.workflows import foreign_workflow, text_to_run

logger = logging.getLogger(__name__)

# A job that waits so long for a runner of ours is given back: another worker may be idle.
GIVE_BACK_AFTER_SEC = 1.0
# A run that is over before this is never shown as RUNNING, which saves a third of its writes.
SHOW_RUNNING_AFTER_SEC = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What all attempts of one worker share; `spawn` starts a task that the worker owns."""

    stores: Stores
    executor: Executor
    config: NatsBackendConfig
    worker_id: WorkerId
    instance_id: InstanceId
    origin: CommandContext
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    line: StartLine


@dataclass(frozen=True, slots=True)
class Instead:
    """There is nothing to run; this is what came of the attempt."""

    outcome: Outcome


class Attempt:
    """The life of one delivery in this worker's hands."""

    def __init__(self, place: Workplace, delivery: Delivery, job: Job) -> None:
        self.job = job
        self.delivery = delivery
        # All that is written of this run can be found by what its submit can be found by.
        self._origin = replace(place.origin, correlation_id=job.correlation_id)
        self.ledger = Ledger(place.stores, self._origin, job.run_id)
        self._place = place
        self._runner: Runner | None = None
        self._log: RunLog | None = None
        self._attempts_before: dict[NodeId, int] = {}
        self._workflow_yaml: str | None = None
        self._delivered_at: float | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._limit: TimeLimit | None = None
        self._fenced = False
        self.holds = False
        self.has_begun = False
        self.waited_in_vain = False
        self.busy_sec: float | None = None

    @property
    def run_id(self) -> RunId:
        return self.job.run_id

    @property
    def is_running(self) -> bool:
        """Whether a runner has it, or will have it in a moment: the log says that we hold it."""
        return self._runner is not None or (self.holds and not self.has_begun)

    async def run(self) -> Outcome:
        """Everything from the open to the stored end; what to tell the queue is the caller's business."""
        try:
            if (outcome := await self._open()) is not None:
                return outcome
            async with AsyncExitStack() as held:
                ready = await self._get_ready(held)
                if isinstance(ready, Instead):
                    self.holds = False
                    return ready.outcome
                log = self._open_log()
                last = await self._follow(ready, log)
            # The runner is free for the next run while this one's end is written.
            if self._fenced:
                log.close()
            await log.settle()  # whoever sees the end finds all lines
            return await self._ended(last)
        except LetGo:
            return HandedBack()

    async def _get_ready(self, held: AsyncExitStack) -> Runner | Instead:
        """A runner of ours with the start stored, in whichever order is better now."""
        # Which wheels a run has is a matter of its runner: where they are synced, the start has to wait for it.
        started = not self._place.config.wheel_sync_enabled and await self._place.line.join(held)
        if started and (outcome := await self._start(wheels=())) is not None:
            return Instead(outcome)
        runner = await self._borrow(held)
        if runner is None or self.ledger.letting_go:
            return Instead(HandedBack())
        if (outcome := await (self._still_ours() if started else self._start(runner.wheels))) is not None:
            return Instead(outcome)
        return Instead(HandedBack()) if self.ledger.letting_go else runner

    async def _borrow(self, held: AsyncExitStack) -> Runner | None:
        """A runner, or None when the wait is so long that another worker should have the job."""
        # A job that was passed around often stays: the broker gives up one that was delivered too many times.
        may_go = self.delivery.num_delivered <= self._place.config.consumer_max_deliver // 2
        try:
            async with asyncio.timeout(GIVE_BACK_AFTER_SEC if may_go else None):
                return await held.enter_async_context(self._place.executor.borrow())
        except TimeoutError:
            self.waited_in_vain = True
            return None

    async def _still_ours(self) -> Outcome | None:
        """Whether what was heard while we waited for a runner leaves anything to run."""
        execution = self.ledger.execution
        holder = execution.holder
        if execution.status.is_terminal or holder is None or holder.instance_id != self._place.instance_id:
            return Fenced()
        if execution.cancel is not None:
            return await self._confirm_canceled(StopHow.COOPERATIVE, delivered_at=self._now())
        return None

    def hand_back(self) -> None:
        """This worker is stopping: leave the run to another one, killing what runs here."""
        self.ledger.letting_go = True
        if self._log is not None:
            self._log.give_up_soon()
        if self._runner is not None:
            self._runner.kill()

    async def look(self) -> None:
        """Something may have happened to the run: read the log, and stop if it says so."""
        await self.ledger.refresh()
        self._stop_if_told()

    async def beat(self) -> None:
        """A sign of life for the run, and the second way to hear of a cancel."""
        await self.ledger.beat()
        self._stop_if_told()

    # --- before it runs -----------------------------------------------------------------------------------------------

    async def _open(self) -> Outcome | None:
        execution = await self.ledger.open()
        if not execution.exists:
            if self.delivery.created_sequence is not None:
                return AlreadyFinished()  # its submit was undone, or retention took it
            execution = await self._adopt()
        if execution.status.is_terminal:
            return AlreadyFinished()
        if execution.cancel is not None and not execution.is_held:
            return await self._cancel_before_start()
        if await holder_is_alive(self._place.stores, execution):
            return HeldElsewhere()
        if execution.attempt >= self._place.config.consumer_max_deliver and execution.cancel is None:
            return await self._give_up(execution.attempt)
        self._workflow_yaml = await text_to_run(self._place.stores.events, execution, self.job)
        return None

    async def _adopt(self) -> Execution:
        """A job that a foreign producer put into the queue: its run begins with us."""
        job = self.job
        request = Request(flow_name=job.flow_name, tag=job.tag, input=job.params, timeout_sec=job.timeout_sec)
        workflow = None
        if job.workflow_yaml is not None:
            workflow = await asyncio.to_thread(foreign_workflow, job, self._place.config)
            request = replace(request, input={**workflow.flow.defaults, **job.params})
        # Nobody has submitted it later than now; a run of next year would be the newest in every list until then.
        submitted_at = min(job.submitted_at, self._now())
        command = create_command(submitted_at, request, job.tags or (job.tag,), workflow)
        try:
            created = (await self.ledger.commit(command)).accepted()
            await self._place.stores.snapshots.advance(created, create=True)
        except (CommandRejected, RequestTooLarge, SnapshotTooLarge) as error:
            raise InvalidJob(error.detail, run_id=job.run_id, flow_name=job.flow_name) from error
        return await self.ledger.open()

    async def _cancel_before_start(self) -> Outcome:
        command = ConfirmCanceled(at=self._now(), how=StopHow.BEFORE_START)
        await handle(self._place.stores, self.run_id, command, self._origin)
        return AlreadyFinished()

    async def _give_up(self, attempts: int) -> Outcome:
        failure = Failure(
            code=ExecutionFailedError.err_id,
            message=f"given up after {attempts} attempts: each time its worker was lost before the end",
        )
        command = FailExecution(at=self._now(), error=failure)
        await handle(self._place.stores, self.run_id, command, self._origin)
        return GivenUp(letter=self._letter(MAX_DELIVER, failure))

    async def _start(self, wheels: tuple[WheelUsed, ...]) -> Outcome | None:
        self.holds = True
        while True:
            command = StartExecution(
                at=self._now(),
                attempt=self.ledger.execution.attempt + 1,
                worker_id=self._place.worker_id,
                instance_id=self._place.instance_id,
                return_to=self.delivery.return_to,
                wheels=wheels,
            )
            handled = await self.ledger.commit(command)
            if handled.events:
                return None
            if handled.refused is None:
                continue  # an earlier delivery to this very worker began that attempt; ours is the next one
            if handled.refused.why not in (RejectionReason.FENCED, RejectionReason.CANCEL_REQUESTED):
                return AlreadyFinished()
            if await holder_is_alive(self._place.stores, handled.execution):
                return HeldElsewhere()
            if handled.refused.why is RejectionReason.CANCEL_REQUESTED:
                return await self._end_abandoned(handled.execution)
            # The snapshot we began with did not show yet that somebody had it, and that somebody is lost.

    async def _end_abandoned(self, execution: Execution) -> Outcome:
        if not execution.is_held:
            return await self._cancel_before_start()
        return await self._end(await self.ledger.commit(ConfirmCanceled(at=self._now(), how=StopHow.ABANDONED)))

    # --- while it runs ------------------------------------------------------------------------------------------------

    def _open_log(self) -> RunLog:
        place, attempt = self._place, self.ledger.execution.attempt
        broker = place.stores.broker
        log = RunLog(
            place.stores.run_logs,
            self.run_id,
            attempt,
            place.config.max_run_log_bytes,
            place.spawn,
            is_away=lambda: not broker.connected,
            facts=self.ledger.facts(),
        )
        log.begin()
        self._log = log
        return log

    async def _follow(self, runner: Runner, log: RunLog) -> Report:
        """Hand the job over and record what comes of it; the last report has the end."""
        execution = self.ledger.execution
        self._attempts_before = {node_id: node.attempt for node_id, node in execution.nodes.items()}
        loop = asyncio.get_running_loop()
        showing = loop.call_later(SHOW_RUNNING_AFTER_SEC, self._show_soon)
        self._runner = runner
        self.has_begun = True
        began = loop.time()
        runner.begin(
            RunJob(
                run_id=self.run_id,
                flow_name=execution.request.flow_name,
                params=dict(execution.request.input),
                attempt=execution.attempt,
                workflow_yaml=self._workflow_yaml,
                callable_allow=patterns_of(self._place.config.callable_allow),
            ),
            log.hear,
        )
        self._limit = TimeLimit(
            execution.request.timeout_sec, self._place.config.cancel_grace_period_sec, self._place.stores.clock.now
        )
        self._limit.begin(runner, self.facts)
        try:
            async for report in runner.reports():
                log.note(report.steps)
                if report.end is not None:
                    return report
                await self._record(report.steps)
            return Report(end=Died(exit_code=None, signal_name=None, last_lines=()))
        finally:
            # Its part is over: from here on a cancel or a fence must not hit what the runner does next.
            self._runner = None
            self.busy_sec = loop.time() - began
            showing.cancel()
            self._limit.end()
            if self._kill_timer is not None:
                self._kill_timer.cancel()

    async def _record(self, steps: tuple[Step, ...]) -> None:
        self._heed(await self._commit(steps))
        self._show_soon()

    async def _commit(self, steps: tuple[Step, ...], verdict: tuple[AttemptStep, ...] = ()) -> CommandResult:
        """Record steps and perhaps the end: in one commit, or in several where the broker's messages are too small."""
        try:
            return await self.ledger.commit(self._recording(steps, verdict))
        except RequestTooLarge:
            if len(steps) < 2:
                raise
            half = len(steps) // 2
            await self._commit(steps[:half])
            return await self._commit(steps[half:], verdict)

    def _recording(self, steps: tuple[Step, ...], verdict: tuple[AttemptStep, ...] = ()) -> RecordAttempt:
        return RecordAttempt(
            at=self._now(),
            attempt=self.ledger.execution.attempt,
            instance_id=self._place.instance_id,
            steps=(*commands_of(steps, self._attempts_before, self._place.worker_id), *verdict),
        )

    def _heed(self, handled: CommandResult) -> None:
        if handled.refused is not None:
            self._fenced = True
        self._stop_if_told()

    def _stop_if_told(self) -> None:
        runner, execution = self._runner, self.ledger.execution
        if runner is None:
            return
        holder = execution.holder
        ours = holder is not None and holder.instance_id == self._place.instance_id
        if self._fenced or not ours or execution.status.is_terminal:
            self._fenced = True
            runner.kill()
        elif execution.cancel is not None and self._delivered_at is None:
            self._delivered_at = self._now()
            if self._limit is not None:
                self._limit.end()  # cancel wins: from here on its grace period counts
            runner.cancel()
            grace = self._place.config.cancel_grace_period_sec
            self._kill_timer = asyncio.get_running_loop().call_later(grace, self._kill_stubborn, runner)

    def _kill_stubborn(self, runner: Runner) -> None:
        ids = {"err_id": CancelTimedOut.err_id, "msg_id": CancelTimedOut.msg_id}
        logger.warning(CancelTimedOut.message(), extra=self.facts() | ids)
        runner.kill()

    def _show_soon(self) -> None:
        self._place.spawn(self._show())

    async def _show(self) -> None:
        try:
            await self.ledger.show()
        except LetGo:
            logger.info("snapshot left to the next holder", extra=self.facts())
        except SnapshotTooLarge as error:
            ids = {"err_id": error.err_id, "msg_id": error.msg_id}
            logger.warning(error.message(), extra=self.facts() | ids | {"error": error.detail})

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _ended(self, last: Report) -> Outcome:
        end, steps = last.end, last.steps
        assert end is not None  # noqa: S101 - what makes it the last report
        attempt, instance_id = self.ledger.execution.attempt, self._place.instance_id
        if self._fenced:
            return Fenced()
        if isinstance(end, Died) and self.ledger.letting_go:
            return HandedBack()
        if self._delivered_at is not None:
            how = self._place.executor.stopped_by_kill if isinstance(end, Died) else StopHow.COOPERATIVE
            return await self._confirm_canceled(how, delivered_at=self._delivered_at)
        if isinstance(end, Died) and end.never_began:
            return HandedBack()  # not a fault of this run: nothing of it has happened
        if self._limit is not None and self._limit.has_stopped(end):
            return await self._fail_late(last, self._limit.receipt(end, self._place.executor.stopped_by_kill))
        if isinstance(end, Ended) and end.how == "completed":
            complete = CompleteExecution(at=end.at, attempt=attempt, instance_id=instance_id)
            return await self._end(await self._commit(steps, (complete,)))
        not_found = isinstance(end, Ended) and end.how == "flow_not_found"
        reason = "flow_not_found" if not_found else "execution_error"
        return await self._fail(failure_of(end, self.job.flow_name), last, reason)

    async def _confirm_canceled(self, how: StopHow, *, delivered_at: float) -> Outcome:
        now, attempt = self._now(), self.ledger.execution.attempt
        confirm = ConfirmCanceled(at=now, how=how, attempt=attempt, delivered_at=delivered_at, stopped_at=now)
        return await self._end(await self.ledger.commit(confirm))

    async def _fail_late(self, last: Report, receipt: TimeoutReceipt) -> Outcome:
        held = [node_id for node_id, node in self.ledger.execution.nodes.items() if node.status.is_held]
        return await self._fail(timed_out(receipt, at_work(held, last.steps)), last, "execution_error", receipt)

    async def _fail(
        self, failure: Failure, last: Report, reason: str, receipt: TimeoutReceipt | None = None
    ) -> Outcome:
        verdict = FailExecution(
            at=self._now(),
            error=failure,
            timeout=receipt,
            last_lines=last_words(last.last_lines),
            attempt=self.ledger.execution.attempt,
            instance_id=self._place.instance_id,
        )
        outcome = await self._end(await self._commit(last.steps, (verdict,)))
        if not isinstance(outcome, Finished) or self.ledger.execution.status is not Status.FAILED:
            return outcome
        logger.warning("run failed", extra=self.facts() | {"reason": reason, "error": failure.message})
        wanted = reason == "flow_not_found" or self._place.config.dlq_publish_execution_error
        return Finished(status=outcome.status, letter=self._letter(reason, failure) if wanted else None)

    async def _end(self, handled: CommandResult) -> Outcome:
        if handled.refused is not None and handled.refused.why is RejectionReason.FENCED:
            return Fenced()
        # Also of a run that is found finished: the end may be our own, stored by a try whose answer was lost.
        await self.ledger.show()
        if handled.refused is not None:
            return AlreadyFinished()
        return Finished(status=run_status(self.ledger.execution))

    def _letter(self, reason: str, failure: Failure) -> DeadLetter:
        return DeadLetter(
            timestamp=self._now(),
            reason=reason,
            error=failure.message,
            run_id=self.run_id,
            flow_name=self.job.flow_name,
            tag=self.job.tag,
            tags=self.job.tags,
            worker_id=self._place.worker_id,
            num_delivered=self.delivery.num_delivered,
            subject=self.delivery.subject,
        )

    def facts(self) -> dict[str, object]:
        """What a log line about this attempt carries."""
        return self.ledger.facts() | {
            "flow_name": self.job.flow_name,
            "tag": self.job.tag,
            "worker_id": self._place.worker_id,
            "attempt": self.ledger.execution.attempt,
        }

    def _now(self) -> float:
        return self._place.stores.clock.now()
