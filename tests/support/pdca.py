"""Requests of the PDCA API in memory, and what drives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from pyoco_server.domain.execution.commands import CreateExecution
from pyoco_server.domain.execution.state import Request, Work
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, Batches, Recheck, pack
from pyoco_server.ports.pdca import BatchEngine
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.pdca.plans import PlanCache
from pyoco_server.services.pdca.request_run import Parts, RequestRun
from support.executions_in_memory import executions_of
from support.world import USER, World

FIRST, SECOND, THIRD = (node_of(number) for number in (1, 2, 3))
THREE: Batches = [[StrategyId("a"), StrategyId("b")], [StrategyId("c"), StrategyId("d")], [StrategyId("e")]]


def recheck_of(batches: Batches, **changed: Any) -> Recheck:
    asked = Recheck(
        kind="recheck",
        reason="test",
        window={"lookback_days": 7},
        client_id="tester",
        batches=len(batches),
        strategies=sum(map(len, batches)),
        engine="memory",
    )
    return msgspec.structs.replace(asked, **changed)


def creation(at: float, batches: Batches = THREE, tenant_id: str | None = None) -> CreateExecution:
    """The command that a request begins with."""
    plain: dict[str, Any] = msgspec.to_builtins(recheck_of(batches))
    return CreateExecution(
        at=at,
        request=Request(flow_name=REQUEST_FLOW, work=Work.NODES, input=plain, tenant_id=tenant_id),
        node_ids=tuple(node_of(number) for number in range(1, len(batches) + 1)),
        node_inputs=pack(batches),
    )


async def requested(world: World, batches: Batches = THREE, tenant_id: str | None = None) -> RunId:
    """A request that was created and not started."""
    run_id = world.truth.ids.run_id()
    (await world.handle(run_id, creation(world.now(), batches, tenant_id))).accepted()
    return run_id


def request_run(
    world: World,
    run_id: RunId,
    engine: BatchEngine,
    *,
    executions: ExecutionService | None = None,
    owns: Callable[[RunId], bool] = lambda run_id: True,
) -> RequestRun:
    """What a gateway drives the request with; each has a cache of its own."""
    executions = executions or executions_of(world, cache=ExecutionCache(world.stores))
    parts = Parts(
        executions=executions,
        engine=engine,
        artifacts=world.stores.artifacts,
        plans=PlanCache(world.stores.events),
        slots=asyncio.Semaphore(2),
        owns=owns,
        first_retry_sec=0.001,
    )
    return RequestRun(run_id, parts)


async def request_cancel(world: World, run_id: RunId) -> None:
    """Cancel as a caller does."""
    (await cancel(world.truth, run_id, "no longer wanted", USER)).accepted()


async def statuses(world: World, run_id: RunId) -> dict[NodeId, str]:
    return {node_id: node.status.value for node_id, node in (await world.execution(run_id)).nodes.items()}
