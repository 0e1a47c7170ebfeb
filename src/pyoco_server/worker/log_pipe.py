"""Reads what a runner writes and delivers it as lines, a slice per turn of the loop; it never blocks the loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.worker.output_lines import OutputLines

READ_BYTES = 32 * 1024
PIPE_BYTES = 256 * 1024  # a task that prints much need not wait each time the supervisor does something else
# A little at a time is left to gather: waking up costs more than reading. Less than a pipe fills in at full speed.
REST_SEC = 0.005
READS_AT_ONCE = 64  # more than a pipe holds, fewer than a writer who never stops could keep us busy with


class LogPipe:
    """The reading end of one runner's pipe. `deliver` is called in the loop and must neither wait nor raise."""

    def __init__(self, descriptor: int, deliver: Callable[[Sequence[LogLine]], None]) -> None:
        self._descriptor = descriptor
        self._deliver = deliver
        self._lines = OutputLines(time.time)
        self._loop = asyncio.get_running_loop()
        # Done when every process that holds the writing end has closed it.
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._is_open = True
        self._resting: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        with suppress(AttributeError, OSError):  # not everywhere, and not for everybody: then it stays as it is
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._loop.add_reader(descriptor, self._readable)

    @property
    def last_lines(self) -> tuple[str, ...]:
        return self._lines.last_lines

    def begin_run(self) -> None:
        """From here on lines are those of a new run."""
        self._lines.begin_run()

    def end_run(self) -> None:
        """Read all that has been written so far, the last line even without its newline."""
        for _ in range(READS_AT_ONCE):
            if not self._read():
                break
        if lines := self._lines.finish():
            self._deliver(lines)

    def read_on(self) -> None:
        """Rest no longer."""
        if self._resting is not None and self._is_open:
            self._resting.cancel()
            self._resting = None
            self._loop.add_reader(self._descriptor, self._readable)

    def close(self) -> None:
        """Stop reading; what has been read is delivered."""
        if not self._is_open:
            return
        self._is_open = False
        if self._resting is not None:
            self._resting.cancel()
        else:
            self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        if not self.ended.done():
            self.ended.set_result(None)

    def _readable(self) -> None:
        if self._read() < READ_BYTES and self._is_open:
            self._loop.remove_reader(self._descriptor)
            self._resting = self._loop.call_later(REST_SEC, self.read_on)

    def _read(self) -> int:
        """Take one gulp; how many bytes there were."""
        if not self._is_open:
            return 0
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
            return 0
        if lines := self._lines.feed(data):
            self._deliver(lines)
        return len(data)
