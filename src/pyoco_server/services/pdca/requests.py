"""Requests for rechecks: accepted, stored as executions, and shown with their progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec.structs import replace

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.commands import CompleteExecution, CreateExecution
from pyoco_server.domain.execution.state import Execution, Request, Work
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, node_of, number_of, ulid_of
from pyoco_server.domain.pdca.recheck import (
    MAX_BATCHES,
    MAX_PACKED_BYTES,
    REQUEST_FLOW,
    Batch,
    Recheck,
    divide,
    pack,
)
from pyoco_server.domain.pdca.strategies import RequestProgress, StrategyFilter
from pyoco_server.errors import InvalidRequest, RunNotFound
from pyoco_server.ports.pdca import BatchEngine
from pyoco_server.services.context import GATEWAY, CommandContext
from pyoco_server.services.executions.command_handler import read_execution
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.idempotency import IdempotentAttempt
from pyoco_server.tracing.spans import current_trace

# The label of every request; with its id, that of one.
LABEL = "pdca"
NO_REQUEST = "there is no request with this id"
# Packing as many takes tens of milliseconds.
QUICK_STRATEGIES = 1_000


class Strategies(Protocol):
    """What requests need to know of strategies."""

    async def select(self, tenant_id: str | None, chosen: StrategyFilter) -> Sequence[StrategyId]:
        """The enabled ones that match, sorted."""

    async def check(self, tenant_id: str | None, ids: Sequence[StrategyId]) -> None:
        """`StrategyNotFound` for an unknown one, `InvalidRequest` for a disabled one."""

    async def progress(self, run_id: RunId, *, version: int) -> RequestProgress | None:
        """How far a request is, at this version of its log or later."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request: for these strategies, or for those that a filter chooses."""

    recheck: Recheck
    batch_size: int
    strategies: tuple[StrategyId, ...] = ()
    filter: StrategyFilter | None = None
    dry_run: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request. `first_run` is the engine's id of the first batch; a dry run has none."""

    request_id: RunId
    batches: int
    strategies: int
    engine: str
    first_run: str | None


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A request: its execution, and its progress at that version or later."""

    execution: Execution
    progress: RequestProgress
    engine: str
    runs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestService:
    """The requests of one gateway."""

    executions: ExecutionService
    strategies: Strategies
    engine: BatchEngine
    wake: Callable[[RunId], None]

    async def accept(self, asked: Asked, caller: Caller, attempt: IdempotentAttempt) -> Accepted:
        """Store and start a request; once this returns, killing any process cannot lose it.

        A continued attempt continues what the log has, whatever has become of the strategies since. `EngineDown`:
        nothing is stored.
        """
        run_id = RunId(attempt.resource_id)
        if attempt.context.resumed and not asked.dry_run and (known := await self._known(run_id)) is not None:
            started = await self.executions.start_created(known.execution_id, attempt.context)
            return await self._begin(started, attempt.context)
        chosen = await self._choose(asked, caller.tenant_id)
        batches = divide(chosen, asked.batch_size)
        if len(batches) > MAX_BATCHES:
            raise _too_large(f"{len(batches)} batches are more than {MAX_BATCHES}")
        traceparent, tracestate = (None, None) if (trace := current_trace.get()) is None else trace.carrier
        recheck = replace(
            asked.recheck,
            batches=len(batches),
            strategies=len(chosen),
            engine=self.engine.name,
            traceparent=traceparent,
            tracestate=tracestate,
        )
        packed = pack(batches) if len(chosen) <= QUICK_STRATEGIES else await asyncio.to_thread(pack, batches)
        if len(packed) > MAX_PACKED_BYTES:
            raise _too_large(f"the ids of {len(chosen)} strategies are too long for one request")
        if asked.dry_run:
            return _accepted(run_id, recheck, None)
        await self.engine.check()
        create = CreateExecution(
            at=self.executions.stores.clock.now(),
            request=Request(
                flow_name=REQUEST_FLOW,
                input=msgspec.to_builtins(recheck),
                tenant_id=caller.tenant_id,
                api_key_id=caller.api_key_id,
                work=Work.NODES,
            ),
            labels=(LABEL, f"{LABEL}:{ulid_of(run_id)}"),
            node_ids=tuple(node_of(number) for number in range(1, len(batches) + 1)),
            node_inputs=packed,
        )
        started = await self.executions.create_and_start(create, run_id, attempt.context)
        return await self._begin(started, attempt.context)

    async def show(self, run_id: RunId, *, tenant_filter: str | None) -> Shown:
        """A request of this tenant; `RunNotFound` for any other execution."""
        unknown = RunNotFound(NO_REQUEST)
        try:
            execution = await self.executions.look(run_id, tenant_filter=tenant_filter)
        except RunNotFound:
            raise unknown from None
        if execution.request.flow_name != REQUEST_FLOW:
            raise unknown
        progress = await self.strategies.progress(run_id, version=execution.version)
        if progress is None:
            raise unknown
        recheck = recheck_of(execution)
        started = [number_of(node.node_id) for node in execution.nodes.values() if node.attempt]
        runs = [self._run(run_id, number, recheck) for number in started]
        return Shown(execution=execution, progress=progress, engine=recheck.engine, runs=runs)

    async def _choose(self, asked: Asked, tenant_id: str | None) -> Sequence[StrategyId]:
        if asked.filter is not None:
            return await self.strategies.select(tenant_id, asked.filter)
        await self.strategies.check(tenant_id, asked.strategies)
        return asked.strategies

    async def _known(self, run_id: RunId) -> Execution | None:
        """The execution that an earlier attempt has created."""
        execution = await read_execution(self.executions.stores, run_id)
        return execution if execution.exists else None

    async def _begin(self, execution: Execution, context: CommandContext) -> Accepted:
        """Complete a request without batches at once; the driver takes any other."""
        recheck = recheck_of(execution)
        if not execution.nodes and not execution.status.is_terminal:
            end = CompleteExecution(at=self.executions.stores.clock.now())
            # By the gateway, as the end of any other request: the caller has only made it.
            own = replace(context, actor=GATEWAY.actor, commit_id=None, resumed=False, hold=None)
            await self.executions.command(execution.execution_id, end, own)
        self.wake(execution.execution_id)
        first = self._run(execution.execution_id, 1, recheck) if recheck.batches else None
        return _accepted(execution.execution_id, recheck, first)

    def _run(self, run_id: RunId, number: int, recheck: Recheck) -> str:
        """The engine's id of a batch, which does not depend on its strategies."""
        return self.engine.run_id(Batch(request_id=run_id, number=number, strategies=(), recheck=recheck))


def recheck_of(execution: Execution) -> Recheck:
    return msgspec.convert(execution.request.input, Recheck)


def _accepted(run_id: RunId, recheck: Recheck, first_run: str | None) -> Accepted:
    return Accepted(
        request_id=run_id,
        batches=recheck.batches,
        strategies=recheck.strategies,
        engine=recheck.engine,
        first_run=first_run,
    )


def _too_large(why: str) -> InvalidRequest:
    return InvalidRequest(f"{why}: raise batch_size (at most 100), or choose fewer strategies by the filter")
