"""Reads a runner's log pipe and delivers lines, a slice per iteration of the loop; never blocks the loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.worker.output.tagged_lines import OutputDecoder

READ_BYTES = 32 * 1024
PIPE_BYTES = 256 * 1024  # a task that prints much need not wait while the supervisor is busy
# Small amounts are left to accumulate: waking up costs more than reading. A pipe takes longer to fill at full speed.
PAUSE_SEC = 0.005
MAX_READS = 64  # more than a pipe holds, and a bound against a writer that never stops


class LogPipe:
    """The reading end of one runner's pipe. `deliver` is called in the loop and must neither wait nor raise."""

    def __init__(self, descriptor: int, deliver: Callable[[Sequence[LogLine]], None]) -> None:
        self._descriptor = descriptor
        self._deliver = deliver
        self._lines = OutputDecoder(time.time)
        self._loop = asyncio.get_running_loop()
        # Done when every process has closed the writing end.
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._is_open = True
        self._pause: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        with suppress(AttributeError, OSError):  # not supported or not permitted: keep the default size
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._loop.add_reader(descriptor, self._readable)

    @property
    def last_lines(self) -> tuple[str, ...]:
        return self._lines.last_lines

    def begin_run(self) -> None:
        self._lines.begin_run()

    def end_run(self) -> None:
        """Reads all that has been written so far, including an incomplete last line."""
        for _ in range(MAX_READS):
            if not self._read():
                break
        if lines := self._lines.finish():
            self._deliver(lines)

    def resume(self) -> None:
        """Reads again without waiting for the rest of the pause."""
        if self._pause is not None and self._is_open:
            self._pause.cancel()
            self._pause = None
            self._loop.add_reader(self._descriptor, self._readable)

    def close(self) -> None:
        """Stops reading; what has been read is delivered."""
        if not self._is_open:
            return
        self._is_open = False
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        if not self.ended.done():
            self.ended.set_result(None)

    def _readable(self) -> None:
        if self._read() < READ_BYTES and self._is_open:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(PAUSE_SEC, self.resume)

    def _read(self) -> int:
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
