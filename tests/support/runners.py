"""Runners that a test controls, with the interface of the real ones; without user code, process or thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pyoco_server.domain.execution.state import StopHow, WheelUsed
from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.domain.fleet.records import Isolation, WorkerCode
from pyoco_server.domain.run_logs.lines import Level, LogLine, Stream
from pyoco_server.trace import Step, TasksDeclared, TaskStarted, TaskSucceeded
from pyoco_server.worker.runner_pool.executor import LineSink
from pyoco_server.worker.runner_process.protocol import EndKind, RunEnded, RunJob, RunnerDied, RunUpdate

AT = 1_700_000_000.0


class ScriptedRunner:
    """Runner. The test takes the role of the flow: `say`, `end`, `die`."""

    def __init__(
        self,
        began: Callable[[ScriptedRunner], None],
        wheels: tuple[WheelUsed, ...] = (),
        code_version: str | None = None,
    ) -> None:
        self.wheels = wheels
        self.code_version = code_version
        self.job: RunJob | None = None
        self.cancelled = asyncio.Event()
        self.killed = asyncio.Event()
        self._began = began
        self._on_lines: LineSink | None = None
        self._updates: asyncio.Queue[RunUpdate] = asyncio.Queue()

    def begin(self, job: RunJob, on_lines: LineSink | None = None) -> None:
        self.job = job
        self._on_lines = on_lines
        self._began(self)

    async def updates(self) -> AsyncIterator[RunUpdate]:
        while True:
            update = await self._updates.get()
            yield update
            if update.end is not None:
                return

    def cancel(self) -> None:
        self.cancelled.set()

    def kill(self) -> None:
        if not self.killed.is_set():
            self.killed.set()
            self.die("SIGKILL")

    def write(self, *texts: str, task: str | None = None, stream: Stream = "stdout", level: Level = "INFO") -> None:
        """Output of the flow."""
        assert self._on_lines is not None
        self._on_lines([LogLine(AT, task, stream, level, text) for text in texts])

    def say(self, *steps: Step) -> None:
        self._updates.put_nowait(RunUpdate(steps=steps))

    def end(
        self,
        how: EndKind = "completed",
        *steps: Step,
        at: float = AT,
        results: tuple[str, ...] = (),
        **error: str,
    ) -> None:
        end = RunEnded(at=at, how=how, results=results, **error)
        self._updates.put_nowait(RunUpdate(steps=steps, end=end))

    def die(self, signal_name: str, *last_lines: str, never_began: bool = False) -> None:
        end = RunnerDied(exit_code=None, signal_name=signal_name, last_lines=last_lines, never_began=never_began)
        self._updates.put_nowait(RunUpdate(end=end))


class ScriptedExecutor:
    """Executor."""

    stopped_by_kill = StopHow.KILLED

    def __init__(self, slots: int = 1, on_begin: Callable[[], None] = lambda: None) -> None:
        self.runs = 0
        self.tenants: list[str | None] = []
        self.isolation: Isolation = "tenant"
        self.wheels: tuple[WheelUsed, ...] = ()
        self.code: WorkerCode | None = None
        self.announcement = FlowAnnouncement()
        self._free = asyncio.Semaphore(slots)
        self._begun: asyncio.Queue[ScriptedRunner] = asyncio.Queue()
        self._on_begin = on_begin

    async def start(self) -> None:
        """Starts nothing."""

    async def close(self) -> None:
        """Stops nothing."""

    @asynccontextmanager
    async def borrow(self, tenant_id: str | None = None) -> AsyncIterator[ScriptedRunner]:
        self.tenants.append(tenant_id)
        async with self._free:
            yield ScriptedRunner(self._began, self.wheels, self.code.version if self.code else None)

    async def begun(self) -> ScriptedRunner:
        """Waits for the next runner that gets a job."""
        return await self._begun.get()

    def _began(self, runner: ScriptedRunner) -> None:
        self.runs += 1
        self._on_begin()
        self._begun.put_nowait(runner)


def declared(*nodes: str) -> TasksDeclared:
    return TasksDeclared(at=AT, nodes=nodes)


def began(node: str, nth: int = 1) -> TaskStarted:
    return TaskStarted(at=AT, node=node, nth=nth)


def succeeded(node: str, output: object = None, nth: int = 1) -> TaskSucceeded:
    return TaskSucceeded(at=AT, node=node, nth=nth, output=output)
