"""Changes runs as a worker does, for tests that need a run in a certain state without a worker."""

from __future__ import annotations

from typing import Any

from pyoco_server.domain.execution.commands import CompleteExecution, FailExecution, RecordAttempt, StartExecution
from pyoco_server.domain.execution.state import Failure
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.worker.attempt.step_commands import to_commands
from support.world import USER

WORKER, INSTANCE = WorkerId("w-1"), InstanceId("i-1")


class RunDriver:
    """Sends the commands of a worker."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def start(self, run_id: str) -> None:
        now = self._stores.clock.now()
        await self._do(run_id, StartExecution(at=now, attempt=1, worker_id=WORKER, instance_id=INSTANCE))

    async def record(self, run_id: str, *steps: Any) -> None:
        commands = to_commands(steps, {}, WORKER)
        await self._do(run_id, RecordAttempt(at=1.0, attempt=1, instance_id=INSTANCE, steps=commands))

    async def complete(self, run_id: str) -> None:
        await self._do(run_id, CompleteExecution(at=self._stores.clock.now(), attempt=1, instance_id=INSTANCE))

    async def fail(self, run_id: str, message: str) -> None:
        error = Failure(code="ERR-PYOCO-0007", message=message)
        await self._do(run_id, FailExecution(at=self._stores.clock.now(), error=error))

    async def _do(self, run_id: str, command: Any) -> None:
        (await handle(self._stores, RunId(run_id), command, USER)).accepted()
