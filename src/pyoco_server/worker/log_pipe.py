"""Reads what a runner writes and delivers it line by line, a slice per turn of the loop; it never blocks the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from pyoco_server.worker.output_lines import OutputLines

READ_BYTES = 64 * 1024
LINES_PER_TURN = 500
READS_AT_ONCE = 64  # more than a pipe holds, fewer than a writer who never stops could keep us busy with


class LogPipe:
    """The reading end of one runner's pipe. `deliver` is called in the loop and must neither wait nor raise."""

    def __init__(self, descriptor: int, deliver: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._deliver = deliver
        self._lines = OutputLines()
        self._loop = asyncio.get_running_loop()
        self._delivery: asyncio.Handle | None = None
        self._all_delivered = asyncio.Event()
        self._all_delivered.set()
        # Done when every process that holds the writing end has closed it.
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._is_open = True
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    @property
    def last_lines(self) -> tuple[str, ...]:
        return self._lines.last_lines

    def begin_run(self) -> None:
        """From here on the last lines are those of a new run."""
        self._lines.forget_last_lines()

    def end_run(self) -> None:
        """Read all that has been written so far, the last line even without its newline."""
        for _ in range(READS_AT_ONCE):
            if not self._read():
                break
        self._lines.finish()
        self._deliver_some()

    @property
    def has_backlog(self) -> bool:
        return self._lines.waiting

    async def all_delivered(self) -> None:
        await self._all_delivered.wait()

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
        self._lines.feed(data)
        if self._delivery is None:
            self._deliver_some()
        return True

    def _deliver_some(self) -> None:
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None
        for line in self._lines.take(LINES_PER_TURN):
            self._deliver(line)
        if self._lines.waiting:
            self._all_delivered.clear()
            self._delivery = self._loop.call_soon(self._deliver_some)
        else:
            self._all_delivered.set()
