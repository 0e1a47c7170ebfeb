"""Searched pages of logs are read a few at a time; a request that waits for lines holds up no other."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import line_filter
from pyoco_server.services.run_logs.read import LogPage, LogQuery, RunLogService
from pyoco_server.services.streaming.topics import RunTopics
from support.executions_in_memory import executions_of
from support.world import World
from support.written import Writer

PATIENCE_SEC = 10.0
# Reads in memory take less.
LONG_ENOUGH_SEC = 0.05
NEEDLE = line_filter(task=None, level=None, text="needle")


class Logs:
    """The service with one turn at a time."""

    def __init__(self, world: World) -> None:
        topics = RunTopics(world.stores, world.config)
        self.turn = asyncio.Semaphore(1)
        self.service = RunLogService(executions=executions_of(world), topics=topics, heavy=self.turn)

    async def read(self, run_id: RunId, query: LogQuery) -> LogPage:
        end = await self.service.end(run_id, tenant_filter=None)
        return (await self.service.page(run_id, query, end, caller=Caller()))[0]


@pytest.mark.parametrize("wait_sec", [0.0, 0.001])
async def test_a_search_takes_a_turn_whether_it_waits_for_lines_or_not(world: World, wait_sec: float) -> None:
    logs, run_id = Logs(world), await world.submit()
    await Writer(world.truth.run_logs, run_id).write("needle")

    async with asyncio.TaskGroup() as tasks, logs.turn:
        search = tasks.create_task(logs.read(run_id, LogQuery(only=NEEDLE, wait_sec=wait_sec)))
        plain = await logs.read(run_id, LogQuery())
        early, _ = await asyncio.wait([search], timeout=LONG_ENOUGH_SEC)

    assert [len(plain.lines), len(early), len(search.result().lines)] == [1, 0, 1]


async def test_a_search_that_waits_for_lines_lets_others_search(world: World) -> None:
    logs, run_id = Logs(world), await world.submit()
    writer = Writer(world.truth.run_logs, run_id)
    await writer.write("hay")

    async with asyncio.timeout(PATIENCE_SEC), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(logs.read(run_id, LogQuery(only=NEEDLE, wait_sec=PATIENCE_SEC)))
        await asyncio.wait([waiting], timeout=LONG_ENOUGH_SEC)
        other = await logs.read(run_id, LogQuery(only=NEEDLE))
        await writer.write("needle")

    assert [len(other.lines), len(waiting.result().lines)] == [0, 1]
