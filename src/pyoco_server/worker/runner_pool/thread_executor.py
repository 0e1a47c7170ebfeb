"""Runs flows in a thread of the caller's process, because a library's resolver may be any callable.

A thread cannot be killed: one that ignores the cancel is abandoned, and its run ends without it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pyoco_server.domain.execution.state import StopHow, WheelUsed
from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.domain.fleet.records import Isolation
from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.trace import Step
from pyoco_server.worker.output.capture import ThreadOutputCapture
from pyoco_server.worker.runner_pool.executor import LineSink
from pyoco_server.worker.runner_process.flow_announcement import ANNOUNCE_LIMIT_SEC, announce_flows, log_left_out
from pyoco_server.worker.runner_process.flow_loader import Resolver
from pyoco_server.worker.runner_process.flow_run import CancelSwitch, run_job
from pyoco_server.worker.runner_process.protocol import RunJob, RunnerDied, RunUpdate


class ThreadExecutor:
    """One flow at a time: pyoco mixes up the output of concurrent flows in one process."""

    stopped_by_kill = StopHow.ABANDONED
    code = None  # what the caller's program has imported
    isolation: Isolation = "shared"  # threads of one process share everything

    def __init__(self, resolver: Resolver, flow_names: Sequence[str] = ()) -> None:
        self.announcement = FlowAnnouncement()
        self._resolver = resolver
        self._flow_names = flow_names
        self._free = asyncio.Lock()

    async def start(self) -> None:
        """Determines the flows to announce without building any, because they are built where they run."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[FlowAnnouncement] = loop.create_future()

        def set_answer(announcement: FlowAnnouncement) -> None:
            if not answer.done():
                answer.set_result(announcement)

        def announce() -> None:
            announcement = announce_flows(self._resolver, self._flow_names, build=False)
            if not loop.is_closed():
                loop.call_soon_threadsafe(set_answer, announcement)

        # A daemon thread: a resolver that hangs must not keep the caller's program from ending.
        threading.Thread(target=announce, name="pyoco-announce", daemon=True).start()
        await asyncio.wait([answer], timeout=ANNOUNCE_LIMIT_SEC)
        late = FlowAnnouncement(left_out=(f"no answer within {ANNOUNCE_LIMIT_SEC:g} s",))
        announcement = answer.result() if answer.done() else late
        self.announcement = announcement
        log_left_out(announcement)

    async def close(self) -> None:
        """Nothing to stop: abandoned threads cannot be reached."""

    @asynccontextmanager
    async def borrow(self, tenant_id: str | None = None) -> AsyncIterator[ThreadRunner]:
        async with self._free:
            runner = ThreadRunner(self._resolver)
            try:
                yield runner
            finally:
                runner.cancel()  # a flow that still runs belongs to no run any more


class ThreadRunner:
    """One run in one thread, with the packages of the caller's program and no registry wheels."""

    wheels: tuple[WheelUsed, ...] = ()
    code_version: str | None = None

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._cancel = CancelSwitch()
        self._loop = asyncio.get_running_loop()
        self._capture = ThreadOutputCapture(self._deliver)
        self._on_lines: LineSink | None = None
        self._updates: asyncio.Queue[RunUpdate] = asyncio.Queue()

    def begin(self, job: RunJob, on_lines: LineSink | None = None) -> None:
        self._on_lines = on_lines
        # A daemon, so that an abandoned flow does not keep the caller's program from ending.
        threading.Thread(target=self._run, args=(job,), name=f"pyoco-run-{job.run_id}", daemon=True).start()

    async def updates(self) -> AsyncIterator[RunUpdate]:
        while True:
            update = await self._updates.get()
            yield update
            if update.end is not None:
                return

    def cancel(self) -> None:
        self._cancel.set()

    def kill(self) -> None:
        self._cancel.set()
        self._updates.put_nowait(RunUpdate(end=RunnerDied(exit_code=None, signal_name=None, last_lines=())))

    def _run(self, job: RunJob) -> None:
        with self._capture.capturing():
            ended = run_job(self._resolver, job, self._step, self._cancel)
        self._send(RunUpdate(end=ended))

    def _deliver(self, lines: Sequence[LogLine]) -> None:
        if self._on_lines is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_lines, lines)

    def _step(self, step: Step) -> None:
        self._capture.note(step)
        self._send(RunUpdate(steps=(step,)))

    def _send(self, update: RunUpdate) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._updates.put_nowait, update)
