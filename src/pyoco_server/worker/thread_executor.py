"""Runs flows in a thread of the caller's process, because a library's resolver may be any callable.

A thread cannot be killed: one that does not stop when it is told is abandoned, and its run ends without it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pyoco_server.domain.execution.state import StopHow, WheelUsed
from pyoco_server.domain.fleet.flows import AnnouncedFlow, FlowAnnouncement
from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.worker.announce import ANNOUNCE_LIMIT_SEC, announce, warn_of_left_out
from pyoco_server.worker.executor import Hear
from pyoco_server.worker.flow_run import CancelSwitch, Resolver, run_job
from pyoco_server.worker.steps import Died, Report, RunJob, Step
from pyoco_server.worker.thread_voice import ThreadVoice


class ThreadExecutor:
    """One flow at a time: pyoco mixes up the output of flows that run side by side in one process."""

    stopped_by_kill = StopHow.ABANDONED

    def __init__(self, resolver: Resolver, flow_names: Sequence[str] = ()) -> None:
        self.flows: tuple[AnnouncedFlow, ...] = ()
        self._resolver = resolver
        self._flow_names = flow_names
        self._free = asyncio.Lock()

    async def start(self) -> None:
        """Learn what there is to announce: from what lies ready, for here flows are built where they run."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[FlowAnnouncement] = loop.create_future()

        def tell(announcement: FlowAnnouncement) -> None:
            if not answer.done():
                answer.set_result(announcement)

        def ask() -> None:
            announcement = announce(self._resolver, self._flow_names, build=False)
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, announcement)

        # A daemon: whoever does not answer must not keep the caller's program from ending.
        threading.Thread(target=ask, name="pyoco-announce", daemon=True).start()
        await asyncio.wait([answer], timeout=ANNOUNCE_LIMIT_SEC)
        late = FlowAnnouncement(left_out=(f"not told in {ANNOUNCE_LIMIT_SEC:g} s",))
        announcement = answer.result() if answer.done() else late
        self.flows = announcement.flows
        warn_of_left_out(announcement)

    async def close(self) -> None:
        """Nothing to end: what was abandoned cannot be reached any more."""

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[ThreadRunner]:
        async with self._free:
            runner = ThreadRunner(self._resolver)
            try:
                yield runner
            finally:
                runner.cancel()  # whoever borrowed it is gone; a flow that still runs is nobody's


class ThreadRunner:
    """One run in one thread; it has what the caller's program has, and no wheels of the registry."""

    wheels: tuple[WheelUsed, ...] = ()

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._cancel = CancelSwitch()
        self._loop = asyncio.get_running_loop()
        self._voice = ThreadVoice(self._heard)
        self._hear: Hear | None = None
        self._reports: asyncio.Queue[Report] = asyncio.Queue()

    def begin(self, job: RunJob, hear: Hear | None = None) -> None:
        self._hear = hear
        # A daemon, so that an abandoned flow does not keep the caller's program from ending.
        threading.Thread(target=self._run, args=(job,), name=f"pyoco-run-{job.run_id}", daemon=True).start()

    async def reports(self) -> AsyncIterator[Report]:
        while True:
            report = await self._reports.get()
            yield report
            if report.end is not None:
                return

    def cancel(self) -> None:
        self._cancel.set()

    def kill(self) -> None:
        self._cancel.set()
        self._reports.put_nowait(Report(end=Died(exit_code=None, signal_name=None, last_lines=())))

    def _run(self, job: RunJob) -> None:
        with self._voice.overhearing():
            ended = run_job(self._resolver, job, self._step, self._cancel)
        self._tell(Report(end=ended))

    def _heard(self, lines: Sequence[LogLine]) -> None:
        if self._hear is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hear, lines)

    def _step(self, step: Step) -> None:
        self._voice.note(step)
        self._tell(Report(steps=(step,)))

    def _tell(self, report: Report) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._reports.put_nowait, report)
