"""One runner process as its supervisor sees it: give it a job, hear its messages, stop it; it starts no process."""

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
from pyoco_server.worker.executor import Hear
from pyoco_server.worker.fork_link import ForkLink
from pyoco_server.worker.log_pipe import LogPipe
from pyoco_server.worker.pipe import CorruptFrame, Decoder, encode
from pyoco_server.worker.steps import (
    Died,
    Ended,
    Report,
    RunJob,
    Step,
    announcement_from_wire,
    ended_from_wire,
    job_to_wire,
    step_from_wire,
)

Message = tuple[Step, ...] | Ended | Died
OnOutput = Callable[[str, Sequence[LogLine]], None]

LAST_WORDS_SEC = 0.2  # a program that a task left behind can hold the channels of a dead runner open for ever
EXIT_WORD_SEC = 1.0
KILL_LIMIT_SEC = 5.0

logger = logging.getLogger(__name__)


class Runner(asyncio.Protocol):
    """A runner is free, or busy with one job from `begin` until it says Ended; when it is gone it says Died."""

    def __init__(
        self,
        *,
        pid: int,
        link: ForkLink,
        log_descriptor: int,
        on_output: OnOutput,
        wheels: tuple[WheelUsed, ...] = (),
    ) -> None:
        self.pid = pid
        self.wheels = wheels
        self.is_alive = True
        self.is_busy = False
        self.has_served = False
        self.loaded: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._flows: asyncio.Future[FlowAnnouncement] = asyncio.get_running_loop().create_future()
        self._link = link
        self._exit = link.exit_of(pid)
        self._log = LogPipe(log_descriptor, self._heard)
        self._on_output = on_output
        self._hear: Hear | None = None
        self._run_id = ""
        self._job_may_lie_unread = False
        self._job_lay_unread = False
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._hung_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox: deque[Message] = deque()
        self._died: Died | None = None
        self._hearer: asyncio.Future[None] | None = None

    def begin(self, job: RunJob, hear: Hear | None = None) -> None:
        """Give it a job, and `hear` what it writes; FrameTooLarge if the job does not fit into a frame."""
        if self.is_busy:
            raise RuntimeError(f"runner {self.pid} is busy with run {self._run_id}")
        frame = encode(["run", job_to_wire(job)])
        self._inbox.clear()
        self._run_id = job.run_id
        self.is_busy = self.has_served = True
        self._job_may_lie_unread = True
        self._job_lay_unread = self._hung_up.done()  # it had gone, and nobody had told us
        self._log.begin_run()
        self._hear = hear
        self._write(frame)

    def ask_for_flows(self, names: Sequence[str]) -> asyncio.Future[FlowAnnouncement]:
        """Becomes the flows that it knows, or is cancelled with it; give it no job afterwards."""
        self._write(encode(["announce", names]))
        return self._flows

    def cancel(self) -> None:
        """Ask the present run to stop: the engine starts nothing more, tasks see `ctx.is_cancelled`."""
        if self.is_busy:
            self._job_may_lie_unread = False  # from now on what lies unread may be this word instead
            self._write(encode(["cancel", self._run_id]))

    def kill(self) -> None:
        """SIGKILL it with everything it started; Died follows."""
        self._link.kill(self.pid)

    async def messages(self) -> AsyncIterator[Message]:
        """What the present run has to say, up to Ended or Died; all its output has been delivered by then."""
        while True:
            message = await self._next()
            yield message
            if not isinstance(message, tuple):
                return

    async def reports(self) -> AsyncIterator[Report]:
        """The messages of the present run, those that are here already taken together: a short run is one report."""
        steps: tuple[Step, ...] = ()
        async for message in self.messages():
            if not isinstance(message, tuple):
                yield Report(steps=steps, end=message, last_lines=self._log.last_lines)
                return
            steps += message
            if not self._inbox:
                yield Report(steps=steps)
                steps = ()

    async def gone(self) -> Died:
        """Wait until the process is gone, collect its last words, and say how it ended."""
        try:
            signs: list[asyncio.Future[Any]] = [self._hung_up, self._exit]
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            status = await self._exit_status()
            self.is_alive = False
            await self._hear_last_words()
        finally:
            self.is_alive = False
            self.close()
            self._link.forget(self.pid)
        self._died = replace(_died(status, self._log.last_lines), never_began=self._job_lay_unread, at=time.time())
        self._wake()
        return self._died

    def close(self) -> None:
        self._log.close()
        if self._transport is not None:
            self._transport.abort()
        self.loaded.cancel()
        self._flows.cancel()

    async def _exit_status(self) -> int | None:
        await asyncio.wait([self._exit], timeout=EXIT_WORD_SEC)
        if not self._exit.done():
            self.kill()  # it closed its control socket and lives: of no use to anyone
            await asyncio.wait([self._exit], timeout=KILL_LIMIT_SEC)
        return self._exit.result() if self._exit.done() else None

    async def _hear_last_words(self) -> None:
        self._log.read_on()
        await asyncio.wait([self._hung_up, self._log.ended], timeout=LAST_WORDS_SEC)
        self._log.end_run()

    def _heard(self, lines: Sequence[LogLine]) -> None:
        if self._hear is not None:
            self._hear(lines)
        self._on_output(self._run_id, lines)

    async def _next(self) -> Message:
        while not self._inbox:
            if self._died is not None:
                return self._died
            self._hearer = asyncio.get_running_loop().create_future()
            await self._hearer
        return self._inbox.popleft()

    def _wake(self) -> None:
        if self._hearer is not None and not self._hearer.done():
            self._hearer.set_result(None)

    def _write(self, frame: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._decoder.feed(data):
                self._take_in(message)
        except (CorruptFrame, ValueError) as error:
            # User code shares the process with the other end of this socket and has written to it.
            logger.warning("a runner spoke nonsense", extra={"runner_pid": self.pid, "reason": str(error)})
            self.kill()
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # A socket that is closed before all was read says so (ECONNRESET; EPIPE to the writer); otherwise it just ends.
        self._job_lay_unread = self._job_may_lie_unread and isinstance(exc, ConnectionResetError | BrokenPipeError)
        self.is_alive = False  # how it ended is told later, but it will take no job
        if not self._hung_up.done():
            self._hung_up.set_result(None)

    def _take_in(self, message: Any) -> None:
        match message:
            case ["steps", steps, ended]:
                self._job_may_lie_unread = False
                if steps:
                    self._inbox.append(tuple([step_from_wire(step) for step in steps]))
                if ended is not None:
                    self._log.end_run()
                    self._hear = None  # what a left-over thread writes later is not of the run any more
                    self._inbox.append(ended_from_wire(ended))
                    self.is_busy = False
                self._wake()
            case ["ready", trouble]:
                if not self.loaded.done():
                    self.loaded.set_result(trouble)
            case ["announced", flows, left_out]:
                if not self._flows.done():
                    self._flows.set_result(announcement_from_wire(flows, left_out))
            case _:
                raise ValueError(f"not a word of a runner: {message!r:.200}")


def _died(status: int | None, last_lines: tuple[str, ...]) -> Died:
    if status is None:
        return Died(exit_code=None, signal_name=None, last_lines=last_lines)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return Died(exit_code=code, signal_name=None, last_lines=last_lines)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return Died(exit_code=None, signal_name=name, last_lines=last_lines)
