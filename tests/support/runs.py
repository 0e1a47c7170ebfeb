"""Runs in a pool of real runners, without a supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pyoco_server.trace import TaskSucceeded
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.runner_process.protocol import RunEnded, RunJob

PATIENCE_SEC = 60.0


async def outcome_of(pool: RunnerPool, flow_name: str, *, tenant_id: str | None = None, **params: Any) -> Any:
    """The output of the only task of the flow."""
    async with asyncio.timeout(PATIENCE_SEC), pool.borrow(tenant_id) as runner:
        runner.begin(RunJob(run_id="run-1", flow_name=flow_name, params=params, attempt=1))
        outputs = []
        async for update in runner.updates():
            outputs += [step.output for step in update.steps if isinstance(step, TaskSucceeded)]
    assert isinstance(update.end, RunEnded), update
    assert update.end.how == "completed", update
    return outputs[0]


async def until(condition: Callable[[], bool]) -> None:
    """Polls for an effect of other processes."""
    async with asyncio.timeout(PATIENCE_SEC):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
