"""A worker on stores in memory, with runners that do what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyoco_server.adapters.system import SystemClock
from pyoco_server.execution.ids import WorkerId
from pyoco_server.worker.supervisor import Supervisor
from support.runners import ScriptedExecutor
from support.world import World

QUICK: dict[str, Any] = {
    "run_heartbeat_interval_sec": 0.02,
    "worker_heartbeat_interval_sec": 0.05,
    "cancel_grace_period_sec": 0.05,
    "worker_stop_grace_period_sec": 0.1,
}


@dataclass(slots=True)
class Working:
    """One worker at work."""

    executor: ScriptedExecutor
    supervisor: Supervisor
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def working(
    world: World, *, name: str = "w-1", slots: int = 1, tags: tuple[str, ...] = ("default",)
) -> AsyncIterator[Working]:
    """A worker that takes jobs within the block and is told to stop at once at its end."""
    executor = ScriptedExecutor(slots, on_begin=lambda: world.faults.calls.append("runner.begin"))
    supervisor = Supervisor(world.stores, executor, world.config, WorkerId(name), tags, slots)
    worker = Working(executor=executor, supervisor=supervisor)
    async with asyncio.timeout(5.0):
        task = asyncio.create_task(supervisor.run(worker.stop, at_once=worker.at_once))
        try:
            yield worker
        finally:
            worker.stop.set()
            worker.at_once.set()
            await task


@pytest.fixture
def world() -> World:
    return World(clock=SystemClock(), **QUICK)
