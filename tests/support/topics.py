"""Streams of one gateway in memory; all are closed with the block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any, TypeVar

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import ALL_LINES, LineFilter
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.services.context import Stores
from pyoco_server.services.streaming.topics import LogUpdate, RunTopic, RunTopics, WatchUpdate
from support.world import World

T = TypeVar("T")

PATIENCE_SEC = 10.0
Updates = AsyncGenerator[WatchUpdate, None]
LogUpdates = AsyncGenerator[LogUpdate, None]


class Followers(AsyncExitStack):
    """Heartbeats come from `beat` only, unless the settings of the world have a short interval."""

    def __init__(self, world: World, stores: Stores | None = None) -> None:
        super().__init__()
        self.topics = RunTopics(stores or world.stores, world.config)

    async def join(self, run_id: RunId, tenant_filter: str | None = None) -> RunTopic:
        return await self.enter_async_context(self.topics.join(run_id, tenant_filter=tenant_filter))

    async def run(self, run_id: RunId, **options: Any) -> Updates:
        topic = await self.join(run_id)
        return await self.enter_async_context(aclosing(topic.follow_run(**options)))

    async def log(
        self, run_id: RunId, place: LogPosition = START, *, tail: int | None = None, only: LineFilter = ALL_LINES
    ) -> LogUpdates:
        topic = await self.join(run_id)
        return await self.enter_async_context(aclosing(topic.follow_log(await topic.open_log(place, tail), only)))

    async def beat(self) -> None:
        """A heartbeat of each topic."""
        for topic in self.topics._topics.values():
            await topic.beat()


async def following(updates: AsyncGenerator[T, None]) -> T:
    """The next update."""
    async with asyncio.timeout(PATIENCE_SEC):
        return await anext(updates)


async def has_ended(updates: AsyncGenerator[Any, None]) -> bool:
    async with asyncio.timeout(PATIENCE_SEC):
        return await anext(updates, None) is None
