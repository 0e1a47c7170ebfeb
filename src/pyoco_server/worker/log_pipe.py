"""Reads what a runner writes and delivers it as lines, a slice per turn of the loop; it never blocks the loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence

from pyoco_server.runlog.lines import LogLine
from pyoco_server.worker.output_lines import OutputLines

READ_BYTES = 32 * 1024
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
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

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

    def close(self) -> None:
        """Stop reading; what has been read is delivered."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        if not self.ended.done():
            self.ended.set_result(None)

    def _read(self) -> bool:
        """Take one gulp; False when there was nothing."""
        if not self._is_open:
            return False
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        if lines := self._lines.feed(data):
            self._deliver(lines)
        return True
