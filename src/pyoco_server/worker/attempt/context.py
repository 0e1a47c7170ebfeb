"""What all attempts of one worker share: stores, executor, identity, and the throttle for early starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import InstanceId, WorkerId
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.worker.runner_pool.executor import Executor

# Runs that take longer than this on average are not started early.
SHORT_RUN_SEC = 0.02


class StartThrottle:
    """Decides whether a run's start is stored before a runner is free, and limits how many.

    A runner that waits for the broker to store the next start idles longer than a short run takes. So while runs are
    short, up to one start per runner is stored ahead. Long runs are never started early: this worker would hold them
    without working on them while another worker may be idle.
    """

    def __init__(self, slots: int, average_run_sec: float) -> None:
        self.average_run_sec = average_run_sec
        self._permits = asyncio.Semaphore(2 * slots)

    async def acquire(self, held: AsyncExitStack) -> bool:
        """Returns whether to start before a runner is free; the permit is then held as long as the runner."""
        if self.average_run_sec >= SHORT_RUN_SEC:
            return False
        await held.enter_async_context(self._permits)
        return self.average_run_sec < SHORT_RUN_SEC

    def note_run(self, busy_sec: float) -> None:
        self.average_run_sec += (busy_sec - self.average_run_sec) / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """`spawn` starts a task that the worker owns."""

    stores: Stores
    executor: Executor
    config: NatsBackendConfig
    worker_id: WorkerId
    instance_id: InstanceId
    origin: CommandContext
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    start_throttle: StartThrottle
