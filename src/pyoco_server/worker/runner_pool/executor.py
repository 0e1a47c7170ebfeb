"""The interface to whatever runs user code: a process of its own (CLI) or a thread (library)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from pyoco_server.domain.execution.state import StopHow, WheelUsed
from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.domain.fleet.records import Isolation, WorkerCode
from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.worker.runner_process.protocol import RunJob, RunUpdate

LineSink = Callable[[Sequence[LogLine]], None]


class FlowRunner(Protocol):
    """Runs one flow at a time."""

    @property
    def wheels(self) -> tuple[WheelUsed, ...]:
        """The registry wheels that its flows can import; constant over its lifetime."""

    @property
    def code_version(self) -> str | None:
        """The version of the flows' sources; constant over its lifetime, None if unknown."""

    def begin(self, job: RunJob, on_lines: LineSink | None = None) -> None:
        """Starts the job. All its output is delivered to `on_lines` before `updates` yields its end."""

    def updates(self) -> AsyncIterator[RunUpdate]:
        """The steps of the run as they happen; the last update has its end."""

    def cancel(self) -> None:
        """Requests the flow to stop."""

    def kill(self) -> None:
        """Stops the flow by force; RunnerDied follows."""


class Executor(Protocol):
    @property
    def stopped_by_kill(self) -> StopHow:
        """The effect of a kill: a process is killed, a thread can only be abandoned."""

    @property
    def announcement(self) -> FlowAnnouncement:
        """The flows to announce: known after the start, renewed with each environment."""

    @property
    def code(self) -> WorkerCode | None:
        """The version of the flows' sources that the next run gets; None if unknown."""

    @property
    def isolation(self) -> Isolation:
        """What a runner may serve one after the other."""

    def borrow(self, tenant_id: str | None = None) -> AbstractAsyncContextManager[FlowRunner]:
        """Waits for a free runner that may serve this tenant, and holds it."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...
