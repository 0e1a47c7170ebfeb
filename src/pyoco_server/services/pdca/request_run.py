"""Drives one request: starts its batches, ends their nodes, and ends the request. It keeps nothing but pauses.

    read the execution ──▶ ended ──▶ done; canceled before its batches had stopped ──▶ stop them
        │                  cancel requested ──▶ stop what runs, StopNode per batch ──▶ CANCELED
        ▼
    states of RUNNING nodes ── missing ──▶ start again
        │       └── finished ──▶ store reports ──▶ SucceedNode | FailNode
        ▼
    StartNode ──▶ start in the engine        (as many as the engine may have at a time)
        │
        ▼
    all nodes ended ──▶ CompleteExecution | FailExecution

Every step is decided from the log and may be repeated, so a gateway may be killed anywhere and two may drive one
request (ADR-42). A node is RUNNING before its engine hears of the batch: a cancel waits for all that may run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import TypeVar

from pyoco_server.domain.execution.commands import (
    Command,
    CompleteExecution,
    FailExecution,
    FailNode,
    RemoveTag,
    ReportNodeProgress,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.state import Execution, Failure, Node, NodeStatus, empty_execution
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.domain.pdca.ids import artifact_id, number_of
from pyoco_server.domain.pdca.outcome import BatchOutcome
from pyoco_server.domain.pdca.recheck import (
    ENGINE_UNREACHABLE,
    ENGINE_WORKER,
    STOPPING,
    Batch,
    is_stopping,
    unreachable_since,
)
from pyoco_server.domain.pdca.strategies import Artifact, BatchOutput, output_to_plain
from pyoco_server.errors import BrokerUnavailable, EngineDown
from pyoco_server.ports.pdca import ArtifactStore, BatchEngine, BatchState, StoredArtifact
from pyoco_server.services.context import GATEWAY, CommandContext
from pyoco_server.services.executions.cancel import confirm_or_signal
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.loops import log_and_continue, wait_event
from pyoco_server.services.pdca.plans import Plan, PlanCache, UnreadablePlan

logger = logging.getLogger(__name__)

T = TypeVar("T")

BATCH_FAILED = "PDCA_BATCH_FAILED"
BATCHES_FAILED = "PDCA_BATCHES_FAILED"
UNREADABLE = "PDCA_REQUEST_UNREADABLE"
FIRST_RETRY_SEC = 1.0
LONGEST_RETRY_SEC = 30.0
# How much longer than its interval an engine's pause grows while nothing changes.
MAX_POLL_FACTOR = 8.0
MAX_ERROR_CHARS = 500
ENGINE = WorkerId(ENGINE_WORKER)
_GOING_ON = (BatchState.QUEUED, BatchState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What all requests of a gateway share.

    `slots` bounds the batches that it starts or ends at a time. `awaiting` has the engine's ids of batches whose ends
    are awaited, and by which request.
    """

    executions: ExecutionService
    engine: BatchEngine
    artifacts: ArtifactStore
    plans: PlanCache
    slots: asyncio.Semaphore
    owns: Callable[[RunId], bool]
    awaiting: dict[str, RequestRun] = field(default_factory=dict)
    first_retry_sec: float = FIRST_RETRY_SEC


class RequestRun:
    """One request, as long as this gateway drives it."""

    def __init__(self, run_id: RunId, parts: Parts) -> None:
        self.run_id = run_id
        self.version = 0
        """The version of the execution that was seen last."""
        self.is_request = True
        """False for an execution that only has the name of one: nothing is to be done."""
        self._parts = parts
        self._batch_runs: set[str] = set()
        self._woken = asyncio.Event()
        self._context = GATEWAY
        self._latest = empty_execution(run_id)
        self._told_to_stop: set[int] = set()
        self._has_moved = False
        self._is_down = False

    def wake(self) -> None:
        """Look at once."""
        self._woken.set()

    def close(self) -> None:
        """Forget what was kept for this request."""
        for batch_run in self._batch_runs:
            self._parts.awaiting.pop(batch_run, None)
        self._parts.plans.forget(self.run_id)

    async def run(self) -> None:
        """Drive the request until it has ended, or another gateway owns it. A failure is retried after a pause."""
        pause_sec = retry_sec = 0.0
        while self._parts.owns(self.run_id):
            self._woken.clear()
            self._has_moved = False
            failed = True
            try:
                if await self.advance():
                    return
                failed = False
            except (EngineDown, BrokerUnavailable) as error:
                logger.info("request postponed", extra=self._facts(reason=error.detail))
            except Exception:
                # The outermost loop of one request: it must not stop the others.
                logger.exception("request not advanced, retrying", extra=self._facts())
            self._latest = empty_execution(self.run_id)  # a large one is not kept while nothing happens
            if failed:
                retry_sec = min(max(self._parts.first_retry_sec, 2 * retry_sec), LONGEST_RETRY_SEC)
                await asyncio.sleep(retry_sec)
            else:
                retry_sec, first_sec = 0.0, self._parts.engine.poll_interval_sec
                longest_sec = MAX_POLL_FACTOR * first_sec
                pause_sec = first_sec if self._has_moved else min(max(first_sec, 2 * pause_sec), longest_sec)
                await wait_event(self._woken, pause_sec)

    async def advance(self) -> bool:
        """One look at the request and everything that follows from it; True when nothing is left to do."""
        try:
            return await self._look()
        except EngineDown as error:
            await self._note_down(error)
            raise

    async def _look(self) -> bool:
        execution = self._seen(await self._parts.executions.cache.look(self.run_id))
        is_over = execution.status.is_terminal
        if not execution.exists or (is_over and not is_stopping(execution)):
            return True
        try:
            plan = await self._parts.plans.get(execution)
        except UnreadablePlan as error:
            if is_over:
                self.is_request = False
                return True
            failure = Failure(code=UNREADABLE, message=f"the request cannot be read: {error}"[:MAX_ERROR_CHARS])
            await self._command(FailExecution(at=self._now(), error=failure))
            return False
        if plan is None:
            self.is_request = False
            return True
        self._context = CommandContext(actor=GATEWAY.actor, correlation_id=plan.correlation_id)
        if is_over:
            return await self._stop_left(execution, plan)
        if execution.cancel is not None:
            return await self._stop(execution, plan)
        if execution.started_at is None:
            started = await self._parts.executions.start(self.run_id, self._context)
            execution = self._seen(started.execution)
        execution = await self._end_finished(execution, plan)
        execution = await self._start_waiting(execution, plan)
        await self._note_reachable(execution)
        return await self._end(execution) if _is_open(execution) else False

    # --- batches ------------------------------------------------------------------------------------------------------

    async def _end_finished(self, execution: Execution, plan: Plan) -> Execution:
        running = {number_of(node.node_id): node for node in execution.nodes.values() if _is_ours(node)}
        if not running:
            return execution
        batches = [self._awaited(plan, number) for number in running]
        states = await self._parts.engine.states(batches)

        async def advance(batch: Batch) -> None:
            state = states.get(batch.number, BatchState.MISSING)
            if state is BatchState.MISSING:
                await self._parts.engine.start(batch)
            else:
                await self._end_batch(batch, running[batch.number], state)

        await self._each(advance, [batch for batch in batches if states.get(batch.number) not in _GOING_ON])
        return self._latest

    async def _end_batch(self, batch: Batch, node: Node, state: BatchState) -> None:
        outcome = await self._outcome(batch, state)
        if outcome.error is not None:
            failure = Failure(code=BATCH_FAILED, message=outcome.error[:MAX_ERROR_CHARS])
            await self._command(FailNode(at=self._now(), node_id=node.node_id, attempt=node.attempt, error=failure))
            return
        output = BatchOutput(
            results=outcome.results,
            artifacts=await self._store_reports(batch, outcome),
            run=self._parts.engine.run_id(batch),
        )
        await self._command(
            SucceedNode(at=self._now(), node_id=node.node_id, attempt=node.attempt, output=output_to_plain(output))
        )

    async def _outcome(self, batch: Batch, state: BatchState) -> BatchOutcome:
        if state is BatchState.CANCELED:
            return BatchOutcome(error=f"its run {self._parts.engine.run_id(batch)} was canceled")
        outcome = await self._parts.engine.outcome(batch)
        if state is BatchState.FAILED and outcome.error is None:
            return BatchOutcome(error=f"its run {self._parts.engine.run_id(batch)} has failed")
        return outcome

    async def _store_reports(self, batch: Batch, outcome: BatchOutcome) -> tuple[Artifact, ...]:
        """Store them before the event that names them: an artifact that a result names exists."""
        artifacts = []
        for place, report in enumerate(outcome.reports, start=1):
            identity = artifact_id(batch.request_id, batch.number, place)
            await self._parts.artifacts.put(identity, StoredArtifact(media_type=report.media_type, data=report.data))
            artifacts.append(
                Artifact(
                    id=identity,
                    name=report.name,
                    bytes=len(report.data),
                    sha256=sha256(report.data).hexdigest(),
                    media_type=report.media_type,
                )
            )
        return tuple(artifacts)

    async def _start_waiting(self, execution: Execution, plan: Plan) -> Execution:
        running = sum(_is_ours(node) for node in execution.nodes.values())
        free = self._parts.engine.concurrency - running
        # While the engine is away, one batch is enough to notice that it is back.
        waiting = _startable(execution, self._now())[: max(min(free, 1 - running) if self._is_down else free, 0)]

        async def start(node: Node) -> None:
            batch = self._awaited(plan, number_of(node.node_id))
            present = await self._command(
                StartNode(at=self._now(), node_id=node.node_id, attempt=node.attempt + 1, worker_id=ENGINE)
            )
            if present.cancel is None and _is_ours(present.nodes[node.node_id]):
                await self._parts.engine.start(batch)

        await self._each(start, waiting)
        return self._latest

    def _awaited(self, plan: Plan, number: int) -> Batch:
        """The batch; its end wakes this request from now on."""
        batch = plan.batch(number)
        batch_run = self._parts.engine.run_id(batch)
        self._batch_runs.add(batch_run)
        self._parts.awaiting[batch_run] = self
        return batch

    # --- the request --------------------------------------------------------------------------------------------------

    async def _end(self, execution: Execution) -> bool:
        failed = sum(node.status is not NodeStatus.SUCCEEDED for node in execution.nodes.values())
        if failed:
            message = f"{failed} of {len(execution.nodes)} batches failed"
            command: Command = FailExecution(at=self._now(), error=Failure(code=BATCHES_FAILED, message=message))
        else:
            command = CompleteExecution(at=self._now())
        ended = await self._command(command)
        self.wake()  # a cancel may have been first
        return ended.status.is_terminal

    async def _stop(self, execution: Execution, plan: Plan) -> bool:
        """Stop what runs; the last node that stops ends the request."""
        running = {number_of(node.node_id): node for node in execution.nodes.values() if _is_ours(node)}
        if not running:
            await confirm_or_signal(self._parts.executions.stores, execution, grace_sec=None)
            return False
        going_on = await self._stop_batches(self._awaited(plan, number) for number in running)
        for number, node in running.items():
            if number not in going_on:
                await self._command(StopNode(at=self._now(), node_id=node.node_id, attempt=node.attempt))
        return self._latest.status.is_terminal

    async def _stop_left(self, execution: Execution, plan: Plan) -> bool:
        """The request was ended while its engine did not answer: stop what it may still run, until it says so."""
        left = [
            number_of(node.node_id)
            for node in execution.nodes.values()
            if node.attempt and node.status is NodeStatus.CANCELED
        ]
        if await self._stop_batches(self._awaited(plan, number) for number in left):
            return False
        await self._command(RemoveTag(at=self._now(), tag=STOPPING))
        logger.info("batches stopped after the end of their request", extra=self._facts(batches=len(left)))
        return True

    async def _stop_batches(self, those: Iterable[Batch]) -> set[int]:
        """Tell the engine to stop them, each once; returns the numbers of those that still go on."""
        batches = list(those)

        async def cancel(batch: Batch) -> None:
            await self._parts.engine.cancel(batch)
            self._told_to_stop.add(batch.number)

        await self._each(cancel, [batch for batch in batches if batch.number not in self._told_to_stop])
        states = await self._parts.engine.states(batches)
        return {number for number, state in states.items() if state in _GOING_ON}

    # --- the engine is away -------------------------------------------------------------------------------------------

    async def _note_down(self, error: EngineDown) -> None:
        """Say so on a running batch, for all gateways and people."""
        if not self._is_down:
            self._is_down = True
            logger.warning("engine unreachable, retrying", extra=self._facts(reason=error.detail))
        execution = self._latest
        held = next((node for node in execution.nodes.values() if _is_ours(node)), None)
        if held is None or execution.cancel is not None or unreachable_since(execution) is not None:
            return
        since = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with log_and_continue("pdca requests"):
            await self._report(held, f"{ENGINE_UNREACHABLE}{since}")

    async def _note_reachable(self, execution: Execution) -> None:
        """Take the message back, whichever gateway left it."""
        if self._is_down:
            self._is_down = False
            self.wake()  # batches that were held back can start
            logger.info("engine reachable again", extra=self._facts())
        if unreachable_since(execution) is not None:
            for node in execution.nodes.values():
                if _is_ours(node) and node.message is not None and node.message.startswith(ENGINE_UNREACHABLE):
                    await self._report(node, "")

    async def _report(self, node: Node, message: str) -> None:
        await self._command(
            ReportNodeProgress(at=self._now(), node_id=node.node_id, attempt=node.attempt, message=message)
        )

    # --- helpers ------------------------------------------------------------------------------------------------------

    async def _command(self, command: Command) -> Execution:
        """Carry out a command; a refusal means that the state has changed, and the next look sees how."""
        result = await self._parts.executions.command(self.run_id, command, self._context)
        self._has_moved = self._has_moved or bool(result.events)
        if result.refused is not None:
            self.wake()
        return self._seen(result.execution)

    async def _each(self, do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
        """Do it for every item, some at a time; one that fails does not stop the others."""

        async def one(item: T) -> None:
            async with self._parts.slots:
                await do(item)

        outcomes = await asyncio.gather(*map(one, items), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            raise next((failure for failure in failures if not isinstance(failure, EngineDown)), failures[0])

    def _seen(self, execution: Execution) -> Execution:
        if execution.version >= self._latest.version:
            self._latest, self.version = execution, max(self.version, execution.version)
        return execution

    def _facts(self, **more: object) -> dict[str, object]:
        return {"run_id": self.run_id, **more}

    def _now(self) -> float:
        return self._parts.executions.stores.clock.now()


def _is_ours(node: Node) -> bool:
    return node.status is NodeStatus.RUNNING and node.worker_id == ENGINE


def _is_open(execution: Execution) -> bool:
    """Whether all batches have ended and the request has not."""
    ended = all(node.status.is_terminal for node in execution.nodes.values())
    return ended and execution.cancel is None and not execution.status.is_terminal


def _startable(execution: Execution, now: float) -> list[Node]:
    """The batches that can be started, in order: also those that a caller of the API holds without a valid lease."""
    return [
        node
        for node in execution.nodes.values()
        if not node.status.is_terminal and not _is_ours(node) and (node.lease_until is None or node.lease_until <= now)
    ]
