"""Requests for rechecks in tests: strategies that are registered, bodies, and an engine that only answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import httpx
from msgspec import to_builtins

from pyoco_server.domain.execution.commands import CreateExecution, StartExecution
from pyoco_server.domain.execution.state import Request, Work
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.outcome import BatchOutcome
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, Batch, Recheck, pack
from pyoco_server.domain.pdca.strategies import Strategy
from pyoco_server.errors import EngineDown
from pyoco_server.ports.pdca import BatchState
from pyoco_server.services.container import Services
from pyoco_server.services.context import GATEWAY
from support.world import World

ONE = StrategyId("strat.meanrev.m1")
BODY: Mapping[str, Any] = {"strategies": [ONE], "window": {"lookback_days": 14}, "reason": "manual"}
BODY_FOR_ALL: Mapping[str, Any] = {"window": {"lookback_days": 7}, "reason": "daily-bulk"}

_keys = count(1)


def key() -> dict[str, str]:
    """A new idempotency key."""
    return {"Idempotency-Key": f"key-{next(_keys):08}"}


class FakeEngine:
    """BatchEngine that answers `check`; its batches wait for ever."""

    name = "dag"
    concurrency = 1
    poll_interval_sec = 60.0

    def __init__(self) -> None:
        self.is_down = False
        self.checks = 0

    async def check(self) -> None:
        self.checks += 1
        if self.is_down:
            raise EngineDown

    def run_id(self, batch: Batch) -> str:
        return f"run-{batch.number}"

    async def start(self, batch: Batch) -> None:
        return None

    async def states(self, batches: Sequence[Batch]) -> Mapping[int, BatchState]:
        return {batch.number: BatchState.QUEUED for batch in batches}

    async def outcome(self, batch: Batch) -> BatchOutcome:
        raise AssertionError

    async def cancel(self, batch: Batch) -> None:
        return None


def services_behind(client: httpx.AsyncClient) -> Services:
    """The services of the gateway of a client without a socket."""
    transport: Any = client._transport
    services: Services = transport.gateway.state.services
    return services


async def request_in(world: World, tenant_id: str | None = None) -> RunId:
    """A request with one batch that was started, stored in a world in memory."""
    recheck = Recheck(
        kind="recheck", reason="manual", window={}, client_id="ann", batches=1, strategies=1, engine=FakeEngine.name
    )
    request = Request(flow_name=REQUEST_FLOW, input=to_builtins(recheck), tenant_id=tenant_id, work=Work.NODES)
    create = CreateExecution(at=world.now(), request=request, node_ids=(node_of(1),), node_inputs=pack([[ONE]]))
    run_id = world.truth.ids.run_id()
    await world.handle(run_id, create)
    await world.handle(run_id, StartExecution(at=world.now(), from_outside=True))
    return run_id


async def register(services: Services, *ids: str, tenant_id: str | None = None, **changed: Any) -> None:
    """Register strategies, so that this gateway knows them."""
    for one in ids:
        strategy = Strategy(**{"id": StrategyId(one), "title": one, "instrument": "USDJPY", **changed})
        await services.strategies.put(tenant_id, strategy, context=GATEWAY)
