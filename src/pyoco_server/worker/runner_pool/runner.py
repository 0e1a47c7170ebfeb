"""The supervisor's view of one runner process: send it a job, receive its messages, stop it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from pyoco_server.domain.execution.state import WheelUsed
from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.trace import Step
from pyoco_server.worker.output.log_pipe import LogPipe
from pyoco_server.worker.runner_pool.executor import LineSink
from pyoco_server.worker.runner_pool.fork_client import ForkClient
from pyoco_server.worker.runner_process.protocol import (
    CorruptFrame,
    Decoder,
    RunEnded,
    RunJob,
    RunnerDied,
    RunUpdate,
    announcement_from_wire,
    encode,
    ended_from_wire,
    step_from_wire,
)

Message = tuple[Step, ...] | RunEnded | RunnerDied
OnOutput = Callable[[str, Sequence[LogLine]], None]

DRAIN_SEC = 0.2  # a program that a task left behind can hold the channels of a dead runner open forever
EXIT_REPORT_SEC = 1.0
KILL_LIMIT_SEC = 5.0

logger = logging.getLogger(__name__)


class ProcessRunner(asyncio.Protocol):
    """Free, or busy with one job from `begin` until RunEnded; RunnerDied when the process has exited."""

    def __init__(
        self,
        pid: int,
        client: ForkClient,
        log_descriptor: int,
        on_output: OnOutput,
        wheels: tuple[WheelUsed, ...],
        code_version: str | None,
    ) -> None:
        self.pid = pid
        self.wheels = wheels
        self.code_version = code_version
        self.is_alive = True
        self.is_busy = False
        self.has_served = False
        self.exited: asyncio.Task[RunnerDied]  # of `wait_exit`; cancelling it would leave the runner unobserved
        self.loaded: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._flows: asyncio.Future[FlowAnnouncement] = asyncio.get_running_loop().create_future()
        self._client = client
        self._exit = client.exit_of(pid)
        self._log = LogPipe(log_descriptor, self._on_lines_read)
        self._on_output = on_output
        self._on_lines: LineSink | None = None
        self._run_id = ""
        self._job_may_be_unread = False
        self._job_was_unread = False
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._disconnected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox: deque[Message] = deque()
        self._died: RunnerDied | None = None
        self._waiter: asyncio.Future[None] | None = None

    def begin(self, job: RunJob, on_lines: LineSink | None = None) -> None:
        """Starts a job; `FrameTooLarge` if it does not fit into a frame."""
        if self.is_busy:
            raise RuntimeError(f"runner {self.pid} is busy with run {self._run_id}")
        frame = encode(["run", job])
        self._inbox.clear()
        self._run_id = job.run_id
        self.is_busy = self.has_served = True
        self._job_may_be_unread = True
        self._job_was_unread = self._disconnected.done()  # it had died before, unnoticed
        self._log.begin_run()
        self._on_lines = on_lines
        self._write(frame)

    def request_flows(self, names: Sequence[str]) -> asyncio.Future[FlowAnnouncement]:
        """Resolves to its flows, or is cancelled when it dies; give it no job afterwards."""
        self._write(encode(["announce", names]))
        return self._flows

    def cancel(self) -> None:
        """Requests the run to stop: the engine starts nothing more, tasks see `ctx.is_cancelled`."""
        if self.is_busy:
            self._job_may_be_unread = False  # from now on the unread message may be this one
            self._write(encode(["cancel", self._run_id]))

    def kill(self) -> None:
        """Kills it with its descendants; RunnerDied follows."""
        self._client.kill(self.pid)

    async def updates(self) -> AsyncIterator[RunUpdate]:
        """The messages of the run; those that are already here are combined, so that a short run is one update."""
        steps: tuple[Step, ...] = ()
        while True:
            message = await self._next()
            if not isinstance(message, tuple):
                yield RunUpdate(steps=steps, end=message, last_lines=self._log.last_lines)
                return
            steps += message
            if not self._inbox:
                yield RunUpdate(steps=steps)
                steps = ()

    async def wait_exit(self) -> RunnerDied:
        """Waits until the process has exited, reads the rest of its output, and returns how it ended."""
        try:
            ends: list[asyncio.Future[Any]] = [self._disconnected, self._exit]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            status = await self._exit_status()
            self.is_alive = False
            await self._drain_output()
        finally:
            self.is_alive = False
            self.close()
            self._client.forget(self.pid)
        self._died = replace(_died(status, self._log.last_lines), never_began=self._job_was_unread, at=time.time())
        self._wake()
        return self._died

    def close(self) -> None:
        self._log.close()
        if self._transport is not None:
            self._transport.abort()
        self.loaded.cancel()
        self._flows.cancel()

    async def _exit_status(self) -> int | None:
        await asyncio.wait([self._exit], timeout=EXIT_REPORT_SEC)
        if not self._exit.done():
            self.kill()  # it closed its control socket and is alive: unusable
            await asyncio.wait([self._exit], timeout=KILL_LIMIT_SEC)
        return self._exit.result() if self._exit.done() else None

    async def _drain_output(self) -> None:
        self._log.resume()
        await asyncio.wait([self._disconnected, self._log.ended], timeout=DRAIN_SEC)
        self._log.end_run()

    def _on_lines_read(self, lines: Sequence[LogLine]) -> None:
        if self._on_lines is not None:
            self._on_lines(lines)
        self._on_output(self._run_id, lines)

    async def _next(self) -> Message:
        while not self._inbox:
            if self._died is not None:
                return self._died
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._inbox.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _write(self, frame: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    # --- called by the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._decoder.feed(data):
                self._dispatch(message)
        except (CorruptFrame, ValueError) as error:
            # User code shares the process with the other end of this socket and has written to it.
            logger.warning("invalid frame from runner", extra={"runner_pid": self.pid, "reason": str(error)})
            self.kill()
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # A socket that is closed with unread data fails with ECONNRESET (EPIPE for the writer); otherwise it just ends.
        self._job_was_unread = self._job_may_be_unread and isinstance(exc, ConnectionResetError | BrokenPipeError)
        self.is_alive = False  # how it ended is known later, but it takes no job
        if not self._disconnected.done():
            self._disconnected.set_result(None)

    def _dispatch(self, message: Any) -> None:
        match message:
            case ["steps", steps, ended]:
                self._job_may_be_unread = False
                if steps:
                    self._inbox.append(tuple([step_from_wire(step) for step in steps]))
                if ended is not None:
                    self._log.end_run()
                    self._on_lines = None  # what a left-over thread writes later does not belong to the run
                    self._inbox.append(ended_from_wire(ended))
                    self.is_busy = False
                self._wake()
            case ["ready", error]:
                if not self.loaded.done():
                    self.loaded.set_result(error)
            case ["announced", flows, left_out, is_complete]:
                if not self._flows.done():
                    self._flows.set_result(announcement_from_wire(flows, left_out, is_complete))
            case _:
                raise ValueError(f"not a message of a runner: {message!r:.200}")


def _died(status: int | None, last_lines: tuple[str, ...]) -> RunnerDied:
    if status is None:
        return RunnerDied(exit_code=None, signal_name=None, last_lines=last_lines)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return RunnerDied(exit_code=code, signal_name=None, last_lines=last_lines)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return RunnerDied(exit_code=None, signal_name=name, last_lines=last_lines)
