"""Workers in the test's own process, with runners that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.domain.ids import WorkerId
from pyoco_server.services.context import Stores
from pyoco_server.worker.supervisor.supervisor import Supervisor
from support.runners import ScriptedExecutor


@dataclass(slots=True)
class Working:
    """One worker at work."""

    executor: ScriptedExecutor
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def at_work(
    stores: Stores,
    config: NatsBackendConfig,
    *,
    name: str = "w-1",
    slots: int = 1,
    tags: tuple[str, ...] = ("default",),
    on_begin: Callable[[], None] = lambda: None,
    patience_sec: float = 20.0,
    sync: Any | None = None,
    announcement: FlowAnnouncement = FlowAnnouncement(),  # noqa: B008 - immutable
) -> AsyncIterator[Working]:
    """A worker that takes jobs within the block and stops immediately at its end."""
    worker = Working(executor=ScriptedExecutor(slots, on_begin))
    worker.executor.announcement = announcement
    supervisor = Supervisor(stores, worker.executor, config, WorkerId(name), tags, slots, sync)
    async with asyncio.timeout(patience_sec):
        task = asyncio.create_task(supervisor.run(worker.stop, at_once=worker.at_once))
        try:
            yield worker
        finally:
            worker.stop.set()
            worker.at_once.set()
            await task
