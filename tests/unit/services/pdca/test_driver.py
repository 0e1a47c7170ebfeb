"""The driver of a gateway: executions that only have the name of a request cost nothing for long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pyoco_server.domain.execution.commands import CreateExecution
from pyoco_server.domain.execution.state import Request, Work
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from pyoco_server.domain.queries.query import Listed, RunQuery
from pyoco_server.services.pdca import driver
from pyoco_server.testing.batch_engine import MemoryBatchEngine
from support.executions_in_memory import executions_of
from support.world import World

FAKES = 1_200
LOOKS = 20


class Roster:
    """The only gateway."""

    def owns(self, run_id: RunId) -> bool:
        return True


class Index:
    """Finds these executions at every look, and says when it was asked often enough."""

    def __init__(self, found: Sequence[RunId]) -> None:
        self._found = found
        self._looks = 0
        self.was_asked = asyncio.Event()

    def rows(self, query: RunQuery) -> list[Listed]:
        self._looks += 1
        if self._looks == LOOKS:
            self.was_asked.set()
        return [Listed(1.0, run_id, b"") for run_id in self._found[: query.limit]]


async def test_executions_that_are_no_requests_are_looked_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver, "FIND_EVERY_SEC", 0.05)
    fakes = [world.truth.ids.run_id() for _ in range(FAKES)]
    request = Request(flow_name=REQUEST_FLOW, work=Work.NODES)
    for run_id in fakes:
        await world.handle(run_id, CreateExecution(at=world.now(), request=request))
    index, roster = Index(fakes), Roster()
    parts: Any = (executions_of(world), index, MemoryBatchEngine(), roster)

    async with asyncio.TaskGroup() as group:
        running = group.create_task(driver.BatchDriver(*parts).run())
        await index.was_asked.wait()
        running.cancel()

    assert sum("left alone" in record.message for record in caplog.records) == FAKES
