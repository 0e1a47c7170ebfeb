"""A worker on stores in memory, with scripted runners."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pyoco_server.adapters.system import SystemClock
from support.workers import Working, at_work
from support.world import World

QUICK: dict[str, Any] = {
    "run_heartbeat_interval_sec": 0.02,
    "worker_heartbeat_interval_sec": 0.05,
    "cancel_grace_period_sec": 0.05,
    "worker_stop_grace_period_sec": 0.1,
}


def running_worker(world: World, **how: Any) -> AbstractAsyncContextManager[Working]:
    """A worker of the world; starts of its runners are recorded as calls of the world."""

    def note() -> None:
        world.faults.calls.append("runner.begin")

    return at_work(world.stores, world.config, on_begin=note, patience_sec=5.0, **how)


async def letters(world: World) -> list[tuple[str, str | None]]:
    """The reason and run of every dead letter."""
    return [(letter.reason, letter.run_id) for letter in await world.truth.dead_letters.recent()]


@pytest.fixture
def world() -> World:
    return World(clock=SystemClock(), **QUICK)
