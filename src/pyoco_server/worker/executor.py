"""The promise behind which user code runs: in a process of its own (the CLI) or in a thread (the library)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from pyoco_server.domain.execution.state import StopHow, WheelUsed
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.worker.steps import Report, RunJob

Hear = Callable[[Sequence[LogLine]], None]


class Runner(Protocol):
    """One place where one flow runs at a time."""

    @property
    def wheels(self) -> tuple[WheelUsed, ...]:
        """The wheels of the registry that its flows find here, from its beginning to its end."""

    def begin(self, job: RunJob, hear: Hear | None = None) -> None:
        """Start the job; what comes of it is in `reports`, and what it writes is heard before its end is told."""

    def reports(self) -> AsyncIterator[Report]:
        """What the run does, as it does it; the last one has its end."""

    def cancel(self) -> None:
        """Ask the flow to stop."""

    def kill(self) -> None:
        """Make the flow stop; Died follows."""


class Executor(Protocol):
    """Where runners come from."""

    @property
    def stopped_by_kill(self) -> StopHow:
        """What a kill amounts to: a process is killed, a thread can only be abandoned."""

    @property
    def flows(self) -> tuple[AnnouncedFlow, ...]:
        """What the worker announces: known when it has started, and new with a new environment."""

    def borrow(self) -> AbstractAsyncContextManager[Runner]:
        """Wait for a free runner and hold it."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...


class WheelKeeper(Protocol):
    """Whoever sees to it that an executor's runners have the wheels of the registry."""

    @property
    def wheel_sync(self) -> Mapping[str, Any] | None:
        """What the worker says of it to the fleet."""

    async def start(self) -> None:
        """Start the executor, with the wheels that can be had."""

    async def run(self) -> None:
        """Keep in step with the registry, for ever; never raises but when it is cancelled."""
