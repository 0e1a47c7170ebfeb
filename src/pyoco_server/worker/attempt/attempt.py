"""One attempt at one run, top to bottom.

    open ─▶ borrow a runner ─▶ EXECUTION_STARTED stored ─▶ runner starts ─▶ steps recorded … ─▶ end stored ─▶ outcome
                                     │ signal (cancel, fence) ─▶ refresh ─▶ runner.cancel … kill after the grace

While runs are short, the start is stored before a runner is borrowed, so that no runner waits for the broker. The end
(event and snapshot) is stored before the queue gets its answer. Broker trouble never ends a run: `RunSession` retries.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace

from msgspec import structs

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
from pyoco_server.domain.flow_yaml import patterns_of
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.secret_params import SecretMask
from pyoco_server.errors import (
    CommandRejected,
    ExecutionFailedError,
    FlowNotFound,
    InvalidJob,
    PyocoError,
    RequestTooLarge,
    RunTimedOut,
    SnapshotTooLarge,
)
from pyoco_server.ports import Delivery, Job
from pyoco_server.services.executions.cancel import holder_is_alive
from pyoco_server.services.executions.command_handler import CommandResult, handle
from pyoco_server.services.executions.submit import create_command
from pyoco_server.services.maintenance.dead_jobs import MAX_DELIVER
from pyoco_server.stores import DeadLetter
from pyoco_server.trace import Step
from pyoco_server.tracing.spans import current_trace
from pyoco_server.worker.attempt.attempt_spans import TaskSpans
from pyoco_server.worker.attempt.context import WorkerContext
from pyoco_server.worker.attempt.disposition import Outcome, OutcomeKind, dead_letter
from pyoco_server.worker.attempt.job_parser import parse_workflow, workflow_text_of
from pyoco_server.worker.attempt.run_session import RunReleased, RunSession
from pyoco_server.worker.attempt.runner_stop import RunnerStop, timeout_failure
from pyoco_server.worker.attempt.step_commands import (
    bounded_last_lines,
    exception_fields,
    mask_lines,
    running_nodes,
    to_commands,
    to_failure,
)
from pyoco_server.worker.output.run_log import RunLogWriter
from pyoco_server.worker.runner_pool.executor import FlowRunner
from pyoco_server.worker.runner_process.protocol import RunEnded, RunJob, RunnerDied, RunUpdate

logger = logging.getLogger(__name__)

# A job that waits longer than this for a runner is released: another worker may be idle.
GIVE_BACK_AFTER_SEC = 1.0
# A run that ends sooner than this is never shown as RUNNING, which saves a third of its writes.
SHOW_RUNNING_AFTER_SEC = 0.003

RELEASED = Outcome(kind=OutcomeKind.RELEASED)
FENCED = Outcome(kind=OutcomeKind.FENCED)
ALREADY_FINISHED = Outcome(kind=OutcomeKind.ALREADY_FINISHED)
HELD_ELSEWHERE = Outcome(kind=OutcomeKind.HELD_ELSEWHERE)


class Attempt:
    def __init__(self, context: WorkerContext, delivery: Delivery, job: Job) -> None:
        self.job = job
        self.delivery = delivery
        # Everything written about this run carries the correlation id of its submit.
        self._origin = structs.replace(context.origin, correlation_id=job.correlation_id)
        max_snapshot_bytes = context.config.max_run_snapshot_bytes
        self.session = RunSession(context.stores, self._origin, job.run_id, max_snapshot_bytes)
        self._context = context
        self._stop: RunnerStop | None = None  # while a runner has the run
        self._log: RunLogWriter | None = None
        self._attempts_before: dict[NodeId, int] = {}
        self._workflow_yaml: str | None = None
        self._is_fenced = False
        self.holds = False
        self.has_started = False
        self.runner_wait_timed_out = False
        self.busy_sec: float | None = None

    @property
    def run_id(self) -> RunId:
        return self.job.run_id

    @property
    def is_running(self) -> bool:
        """Whether a runner has the run, or gets it soon: the log names this worker as its holder."""
        return self._stop is not None or (self.holds and not self.has_started)

    async def run(self) -> Outcome:
        """Processes the run up to its stored end. The caller answers the queue."""
        try:
            if (outcome := await self._open()) is not None:
                return outcome
            async with AsyncExitStack() as held:
                ready = await self._get_ready(held)
                if isinstance(ready, Outcome):
                    self.holds = False
                    return ready
                log = self._open_log()
                last, stop = await self._follow(ready, log)
            # The runner is free for the next run while the end of this one is written.
            if self._is_fenced:
                log.close()
            await log.flush()  # a reader that sees the end finds all lines
            return await self._record_end(last, stop)
        except RunReleased:
            return RELEASED

    # --- 1. open: find or create the run, or the reason why it is not run here ----------------------------------------

    async def _open(self) -> Outcome | None:
        execution = await self.session.open()
        if not execution.exists:
            if self.delivery.created_sequence is not None:
                return ALREADY_FINISHED  # its submit was undone, or retention removed it
            execution = await self._adopt()
        if execution.status.is_terminal:
            return ALREADY_FINISHED
        if execution.cancel is not None and not execution.is_held:
            return await self._cancel_before_start()
        if await holder_is_alive(self._context.stores, execution):
            return HELD_ELSEWHERE
        if execution.attempt >= self._context.config.consumer_max_deliver and execution.cancel is None:
            return await self._give_up(execution.attempt)
        self._workflow_yaml = await workflow_text_of(self._context.stores.events, execution, self.job)
        return None

    async def _adopt(self) -> Execution:
        """Creates the run of a job that a foreign producer put into the queue."""
        job = self.job
        request = Request(flow_name=job.flow_name, tag=job.tag, input=job.params, timeout_sec=job.timeout_sec)
        workflow = None
        if job.workflow_yaml is not None:
            workflow = await asyncio.to_thread(parse_workflow, job, self._context.config)
            request = structs.replace(request, input={**workflow.flow.defaults, **job.params})
        # A submit time in the future would keep the run on top of every list until then.
        submitted_at = min(job.submitted_at, self._now())
        command = create_command(submitted_at, request, job.tags or (job.tag,), workflow)
        try:
            created = (await self.session.commit(command)).accepted()
            await self._context.stores.snapshots.advance(created, create=True)
        except (CommandRejected, RequestTooLarge, SnapshotTooLarge) as error:
            raise InvalidJob(error.detail, run_id=job.run_id, flow_name=job.flow_name) from error
        return await self.session.open()

    async def _cancel_before_start(self) -> Outcome:
        command = ConfirmCanceled(at=self._now(), how=StopHow.BEFORE_START)
        await handle(self._context.stores, self.run_id, command, self._origin)
        return ALREADY_FINISHED

    async def _give_up(self, attempts: int) -> Outcome:
        failure = Failure(
            code=ExecutionFailedError.err_id,
            message=f"given up after {attempts} attempts: each time its worker was lost before the end",
        )
        command = FailExecution(at=self._now(), error=failure)
        await handle(self._context.stores, self.run_id, command, self._origin)
        self._log_failure(ExecutionFailedError, MAX_DELIVER, failure, {})
        return Outcome(kind=OutcomeKind.GIVEN_UP, dead_letter=self._dead_letter(MAX_DELIVER, failure))

    # --- 2. start: a runner, and the start stored ---------------------------------------------------------------------

    async def _get_ready(self, held: AsyncExitStack) -> FlowRunner | Outcome:
        """A runner, with the start stored, in whichever order is faster now."""
        # The start names the wheels of its runner: with wheel sync it has to wait for the runner.
        context = self._context
        started = not context.config.wheel_sync_enabled and await context.start_throttle.acquire(held)
        code = context.executor.code
        expected_version = None if code is None else code.version
        if started and (outcome := await self._start((), expected_version)) is not None:
            return outcome
        runner = await self._borrow(held)
        if runner is None or self.session.is_releasing:
            return RELEASED
        if started and (outcome := await self._check_still_held()) is not None:
            return outcome
        # The start is stored again if the code was replaced in between: it names what runs.
        if not started or runner.code_version != expected_version:
            outcome = await self._start(runner.wheels, runner.code_version)
            if outcome is not None:
                return outcome
        return RELEASED if self.session.is_releasing else runner

    async def _borrow(self, held: AsyncExitStack) -> FlowRunner | None:
        """A runner, or None when the wait is so long that another worker should have the job."""
        # A job that was released often is kept: the broker gives up one that was delivered too many times.
        may_release = self.delivery.num_delivered <= self._context.config.consumer_max_deliver // 2
        try:
            async with asyncio.timeout(GIVE_BACK_AFTER_SEC if may_release else None):
                tenant_id = self.session.execution.request.tenant_id
                return await held.enter_async_context(self._context.executor.borrow(tenant_id))
        except TimeoutError:
            self.runner_wait_timed_out = True
            return None

    async def _check_still_held(self) -> Outcome | None:
        """An outcome if the run was taken over or cancelled during the wait for a runner."""
        execution = self.session.execution
        if execution.status.is_terminal or not self._is_holder(execution):
            return FENCED
        if execution.cancel is not None:
            return await self._confirm_canceled(StopHow.COOPERATIVE, delivered_at=self._now())
        return None

    async def _start(self, wheels: tuple[WheelUsed, ...], code_version: str | None) -> Outcome | None:
        self.holds = True
        while True:
            command = StartExecution(
                at=self._now(),
                attempt=self.session.execution.attempt + 1,
                worker_id=self._context.worker_id,
                instance_id=self._context.instance_id,
                return_to=self.delivery.return_to,
                wheels=wheels,
                code_version=code_version,
            )
            handled = await self.session.commit(command)
            if handled.events:
                return None
            if handled.refused is None:
                continue  # an earlier delivery to this worker started that attempt; this one starts the next
            if handled.refused.why not in (RejectionReason.FENCED, RejectionReason.CANCEL_REQUESTED):
                return ALREADY_FINISHED
            if await holder_is_alive(self._context.stores, handled.execution):
                return HELD_ELSEWHERE
            if handled.refused.why is RejectionReason.CANCEL_REQUESTED:
                return await self._end_abandoned(handled.execution)
            # The snapshot did not show the holder yet, and that holder is lost: start again.

    async def _end_abandoned(self, execution: Execution) -> Outcome:
        if not execution.is_held:
            return await self._cancel_before_start()
        return await self._end(await self.session.commit(ConfirmCanceled(at=self._now(), how=StopHow.ABANDONED)))

    # --- 3. follow: the job to the runner, its steps to the log -------------------------------------------------------

    def _open_log(self) -> RunLogWriter:
        stores = self._context.stores
        log = RunLogWriter(
            stores.run_logs,
            self.run_id,
            self.session.execution.attempt,
            self._context.config.max_run_log_bytes,
            self._context.spawn,
            is_broker_away=lambda: not stores.broker.connected,
            log_fields=self.log_fields(),
        )
        log.begin()
        self._log = log
        return log

    async def _follow(self, runner: FlowRunner, log: RunLogWriter) -> tuple[RunUpdate, RunnerStop]:
        """Gives the job to the runner and records its steps; returns the last update, which has the end."""
        execution, config = self.session.execution, self._context.config
        self._attempts_before = {node_id: node.attempt for node_id, node in execution.nodes.items()}
        task_spans = TaskSpans.of(current_trace.get())
        traceparent, tracestate = (None, None) if task_spans is None else task_spans.carrier
        loop = asyncio.get_running_loop()
        show_running = loop.call_later(SHOW_RUNNING_AFTER_SEC, self._write_snapshot_soon)
        self.has_started = True
        started_at = loop.time()
        runner.begin(
            RunJob(
                run_id=self.run_id,
                flow_name=execution.request.flow_name,
                params=dict(execution.request.input),
                attempt=execution.attempt,
                workflow_yaml=self._workflow_yaml,
                callable_allow=patterns_of(config.callable_allow),
                artifact_dir=config.artifact_dir,
                secret_params=patterns_of(config.secret_params),
                request_id=self.job.request_id,
                correlation_id=self.job.correlation_id,
                traceparent=traceparent,
                tracestate=tracestate,
            ),
            log.add,
        )
        limit_sec, grace_sec = execution.request.timeout_sec, config.cancel_grace_period_sec
        self._stop = stop = RunnerStop(runner, limit_sec, grace_sec, self._now, self.log_fields)
        try:
            async for update in runner.updates():
                log.note_steps(update.steps)
                stop.note_steps(update.steps)
                if task_spans is not None:
                    task_spans.note(update)
                if update.end is not None:
                    return update, stop
                await self._record(update.steps)
            raise RuntimeError("the updates of a run ended without its end")
        finally:
            # From here on a cancel or a fence must not hit what the runner does next.
            self._stop = None
            self.busy_sec = loop.time() - started_at
            show_running.cancel()
            stop.end()

    async def _record(self, steps: tuple[Step, ...]) -> None:
        handled = await self._commit(steps)
        self._is_fenced = self._is_fenced or handled.refused is not None
        self._stop_if_requested()
        self._write_snapshot_soon()

    async def _commit(self, steps: tuple[Step, ...], end: tuple[AttemptStep, ...] = ()) -> CommandResult:
        """Records steps and possibly the end in one commit, or in several if it exceeds the broker's message size."""
        try:
            return await self.session.commit(
                RecordAttempt(
                    at=self._now(),
                    attempt=self.session.execution.attempt,
                    instance_id=self._context.instance_id,
                    steps=(*to_commands(steps, self._attempts_before, self._context.worker_id), *end),
                )
            )
        except RequestTooLarge:
            if len(steps) < 2:
                raise
            half = len(steps) // 2
            await self._commit(steps[:half])
            return await self._commit(steps[half:], end)

    def _write_snapshot_soon(self) -> None:
        self._context.spawn(self._write_snapshot())

    async def _write_snapshot(self) -> None:
        try:
            await self.session.write_snapshot()
        except RunReleased:
            logger.info("snapshot left to the next holder", extra=self.log_fields())
        except SnapshotTooLarge as error:
            logger.warning(error.message(), extra=self.log_fields() | error.ids() | {"error": error.detail})

    # --- 4. end: the end stored, and the outcome for the queue --------------------------------------------------------

    async def _record_end(self, last: RunUpdate, stop: RunnerStop) -> Outcome:
        end, steps = last.end, last.steps
        assert end is not None  # noqa: S101 - true of every last update
        attempt, instance_id = self.session.execution.attempt, self._context.instance_id
        if self._is_fenced:
            return FENCED
        if isinstance(end, RunnerDied) and self.session.is_releasing:
            return RELEASED
        stopped_by_kill = self._context.executor.stopped_by_kill
        if stop.cancelled_at is not None:
            how = stopped_by_kill if isinstance(end, RunnerDied) else StopHow.COOPERATIVE
            return await self._confirm_canceled(how, delivered_at=stop.cancelled_at)
        if isinstance(end, RunnerDied) and end.never_began:
            return RELEASED  # no fault of this run: nothing of it has happened
        if not isinstance(end, RunEnded) or end.how != "completed":
            mask = SecretMask(self.session.execution.request.input, patterns_of(self._context.config.secret_params))
            last = mask_lines(last, mask)
            end = last.end or end
        if (receipt := stop.receipt(end, stopped_by_kill)) is not None:
            return await self._fail_timed_out(last, receipt)
        if isinstance(end, RunEnded) and end.how == "completed":
            named = tuple(NodeId(name) for name in end.results)
            complete = CompleteExecution(at=end.at, attempt=attempt, instance_id=instance_id, result_nodes=named)
            return await self._end(await self._commit(steps, (complete,)))
        not_found = isinstance(end, RunEnded) and end.how == "flow_not_found"
        error = FlowNotFound if not_found else ExecutionFailedError
        return await self._fail(error, to_failure(end, self.job.flow_name), last)

    async def _confirm_canceled(self, how: StopHow, *, delivered_at: float) -> Outcome:
        now, attempt = self._now(), self.session.execution.attempt
        confirm = ConfirmCanceled(at=now, how=how, attempt=attempt, delivered_at=delivered_at, stopped_at=now)
        return await self._end(await self.session.commit(confirm))

    async def _fail_timed_out(self, last: RunUpdate, receipt: TimeoutReceipt) -> Outcome:
        held = [node_id for node_id, node in self.session.execution.nodes.items() if node.status.is_held]
        running, grace_sec = running_nodes(held, last.steps), self._context.config.cancel_grace_period_sec
        failure = timeout_failure(receipt, running, grace_sec)
        return await self._fail(RunTimedOut, failure, last, receipt)

    async def _fail(
        self, error: type[PyocoError], failure: Failure, last: RunUpdate, receipt: TimeoutReceipt | None = None
    ) -> Outcome:
        fail = FailExecution(
            at=self._now(),
            error=failure,
            timeout=receipt,
            last_lines=bounded_last_lines(last.last_lines),
            attempt=self.session.execution.attempt,
            instance_id=self._context.instance_id,
        )
        outcome = await self._end(await self._commit(last.steps, (fail,)))
        if outcome.kind is not OutcomeKind.FINISHED or self.session.execution.status is not Status.FAILED:
            return outcome
        reason = "flow_not_found" if error is FlowNotFound else "execution_error"
        self._log_failure(error, reason, failure, exception_fields(last.end))
        if reason == "execution_error" and not self._context.config.dlq_publish_execution_error:
            return outcome
        return replace(outcome, dead_letter=self._dead_letter(reason, failure))

    async def _end(self, handled: CommandResult) -> Outcome:
        if handled.refused is not None and handled.refused.why is RejectionReason.FENCED:
            return FENCED
        # Also for a run that is found finished: the end may be ours, stored by a try whose answer was lost.
        await self.session.write_snapshot()
        if handled.refused is not None:
            return ALREADY_FINISHED
        return Outcome(kind=OutcomeKind.FINISHED, status=run_status(self.session.execution))

    def _dead_letter(self, reason: str, failure: Failure) -> DeadLetter:
        return dead_letter(self._context, self.delivery, reason=reason, error=failure.message, job=self.job)

    def _log_failure(
        self, error: type[PyocoError], reason: str, failure: Failure, exception: dict[str, object]
    ) -> None:
        fields = {"reason": reason, "error": failure.message, **error.ids(), **exception}
        logger.warning("run failed", extra=self.log_fields() | fields)

    # --- requests of the supervisor during the run --------------------------------------------------------------------

    def release(self) -> None:
        """Leaves the run to another worker because this one stops; kills what runs here."""
        self.session.is_releasing = True
        if self._log is not None:
            self._log.stop_waiting()
        if self._stop is not None:
            self._stop.kill()

    async def refresh(self) -> None:
        """Reads the log, and stops the runner if the run was cancelled or taken over."""
        await self.session.refresh()
        self._stop_if_requested()

    async def heartbeat(self) -> None:
        """Renews the run's heartbeat; also notices a cancel whose signal was lost."""
        await self.session.heartbeat()
        self._stop_if_requested()

    def _stop_if_requested(self) -> None:
        if self._stop is None:
            return
        execution = self.session.execution
        if self._is_fenced or not self._is_holder(execution) or execution.status.is_terminal:
            self._is_fenced = True
            self._stop.kill()
        elif execution.cancel is not None:
            self._stop.cancel()

    def _is_holder(self, execution: Execution) -> bool:
        return execution.holder is not None and execution.holder.instance_id == self._context.instance_id

    def log_fields(self) -> dict[str, object]:
        request_id = self.job.request_id
        return (
            self.session.log_fields()
            | ({} if request_id is None else {"x_request_id": request_id})
            | {
                "flow_name": self.job.flow_name,
                "tag": self.job.tag,
                "worker_id": self._context.worker_id,
                "attempt": self.session.execution.attempt,
            }
        )

    def _now(self) -> float:
        return self._context.stores.clock.now()
