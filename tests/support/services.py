"""The services of a gateway over the stores of a world in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyoco_server.bootstrap import build_services
from pyoco_server.services.container import Services
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.testing.strategy_results import MemoryStrategyResults
from support.world import World


def services_of(world: World) -> Services:
    """Services whose index is not kept up to date."""
    indexer = Indexer(world.live_feed, world.index, world.truth.clock)
    return build_services(world.stores, world.index, indexer, world.config, results=MemoryStrategyResults())


@asynccontextmanager
async def following(world: World) -> AsyncIterator[Services]:
    """Services whose index is kept up to date within the block."""
    services = services_of(world)
    task = asyncio.create_task(services.lists.indexer.run())
    try:
        await services.lists.indexer.wait_caught_up()
        yield services
    finally:
        task.cancel()
        await asyncio.wait([task])
