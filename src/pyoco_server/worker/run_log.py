"""Stores what one attempt writes, chunk by chunk, behind what is in the run's log; it never makes anybody wait for it.

    hear ─▶ LogBuffer ─▶ gathered for a moment ─▶ append behind the last chunk ─▶ …
                                                    └─ conflict: a later attempt's chunk is there ─▶ write no more

There is a task of its own while there is something to store, and none otherwise: a run that prints nothing costs
nothing. While the broker is away lines wait in the buffer, which is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LogChunk, LogLine, chunk_of
from pyoco_server.errors import BrokerUnavailable, InternalError, LogNotRecorded, RequestTooLarge
from pyoco_server.ports import LogStore, Stored, StoredChunk
from pyoco_server.trace import NodeBegan, Step
from pyoco_server.worker.log_buffer import LogBuffer
from pyoco_server.worker.output_lines import FIRST_TASK

logger = logging.getLogger(__name__)

# With the batch that goes over it still far below what a broker takes in one message, whatever JSON makes of the text.
CHUNK_BYTES = 64 * 1024
# Also long enough for the name of the first task, which comes by another way than lines do.
GATHER_SEC = 0.05
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 2.0
FLUSH_SEC = 1.0
# A broker whose disk is full takes nothing for hours; the lines of all the runs that end meanwhile cannot be kept.
GIVE_UP_AFTER_SEC = 120.0


class RunLog:
    """What one attempt at one run has written, on its way into the store."""

    def __init__(
        self,
        logs: LogStore,
        run_id: RunId,
        attempt: int,
        limit_bytes: int,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        is_away: Callable[[], bool] = lambda: False,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        self._logs = logs
        self._run_id = run_id
        self._attempt = attempt
        self._spawn = spawn
        self._is_away = is_away
        self._more_facts = facts or {}
        self._buffer = LogBuffer(limit_bytes)
        self._first_task: str | None = None
        self._last: StoredChunk | None = None
        self._is_placed = attempt == 1  # the first attempt begins an empty log; others look where they stand
        self._is_closed = self._gives_up = False
        self._over_at: float | None = None
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """The attempt begins. A later one takes its place in the log at once: then its forerunners write no more."""
        if self._attempt > 1:
            self._write_on()

    def hear(self, lines: Sequence[LogLine]) -> None:
        """Take in what was written."""
        if self._is_closed:
            return
        self._buffer.add(lines)
        if self._buffer.waiting_bytes >= CHUNK_BYTES:
            self._hurry.set()
        if self._buffer.has_waiting:
            self._write_on()

    def note(self, steps: Iterable[Step]) -> None:
        """Learn which task began first: what a runner's programs write belongs to it until another one begins."""
        if self._first_task is None:
            self._first_task = next((step.node for step in steps if isinstance(step, NodeBegan)), None)

    async def settle(self) -> None:
        """The attempt is over: wait until everything is stored, but not for long; the rest is stored later."""
        self._over_at = asyncio.get_running_loop().time()
        if self._is_closed:
            return
        self._buffer.end()
        if self._buffer.has_waiting:
            self._write_on()
        self._hurry.set()
        while not self._idle.is_set():
            # Without a broker nobody hears of the end either, so it waits for its lines: stored first, it would be seen
            # without them, and a worker that is killed then would have lost them.
            was_away = self._is_away()
            try:
                async with asyncio.timeout(FLUSH_SEC):
                    await self._idle.wait()
            except TimeoutError:
                if self._gives_up or not (was_away or self._is_away()):
                    logger.warning(LogNotRecorded.message(), extra=self._facts())
                    return

    def give_up_soon(self) -> None:
        """The worker stops: a broker that is away is not waited for."""
        self._gives_up = True

    def close(self) -> None:
        """Write no more: somebody else has the run."""
        self._is_closed = True
        self._hurry.set()

    def _write_on(self) -> None:
        if self._idle.is_set():
            self._idle.clear()
            self._spawn(self._write())

    async def _write(self) -> None:
        try:
            if not self._is_placed:
                await self._patiently(self._take_place)
            while self._buffer.has_waiting and not self._is_closed:
                await self._gather()
                await self._store(self._buffer.take(CHUNK_BYTES))
        finally:
            self._idle.set()

    async def _gather(self) -> None:
        if self._over_at is not None or self._buffer.waiting_bytes >= CHUNK_BYTES:
            return
        self._hurry.clear()
        try:
            async with asyncio.timeout(GATHER_SEC):
                await self._hurry.wait()
        except TimeoutError:
            return

    async def _take_place(self) -> None:
        """Stand behind the forerunner's last chunk, and leave an empty one of ours there: the fence."""
        self._last = await self._logs.last(self._run_id)
        if self._last is not None:
            self._buffer.used(self._last.chunk.next_byte)
        await self._append(())
        self._is_placed = True

    async def _store(self, lines: Sequence[LogLine]) -> None:
        named = [line._replace(task=self._first_task) if line.task == FIRST_TASK else line for line in lines]
        try:
            await self._patiently(lambda: self._append(named))
        except RequestTooLarge:
            if len(lines) < 2:
                await self._store_in_place_of(named[0])
                return
            half = len(lines) // 2
            await self._store(lines[:half])
            await self._store(lines[half:])

    async def _store_in_place_of(self, line: LogLine) -> None:
        marker = f"[pyoco: 1 line dropped: its {len(line.text)} characters are more than the broker takes]"
        if line.text != marker:
            await self._store([line._replace(stream="pyoco", level="WARNING", text=marker)])

    async def _append(self, lines: Sequence[LogLine]) -> None:
        while not self._is_closed:
            chunk = self._chunk(lines)
            after = self._last.sequence if self._last else 0
            stored = await self._logs.append(self._run_id, chunk, after=after)
            if isinstance(stored, Stored):
                self._last = StoredChunk(sequence=stored.version, chunk=chunk)
                return
            last = await self._logs.last(self._run_id)
            if last is None or last.chunk.attempt > self._attempt or last.sequence <= after:
                # A later attempt has the run, or retention has taken it: nobody waits for these lines.
                logger.info("the log has another writer", extra=self._facts())
                self.close()
                return
            self._last = last  # a forerunner was not through yet

    def _chunk(self, lines: Sequence[LogLine]) -> LogChunk:
        behind, sequence = (self._last.chunk, self._last.sequence) if self._last else (None, 0)
        return chunk_of(lines, attempt=self._attempt, behind=behind, sequence=sequence)

    async def _patiently(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause = FIRST_PAUSE_SEC
        while not self._is_closed:
            try:
                return await attempt()
            except BrokerUnavailable as error:
                level = logging.WARNING if pause == FIRST_PAUSE_SEC else logging.DEBUG
                logger.log(level, LogNotRecorded.message(), extra=self._facts() | {"error": error.detail})
                if self._gives_up or self._over_for_sec() > GIVE_UP_AFTER_SEC:
                    logger.warning("lines are given up", extra=self._facts())
                    self.close()
            except InternalError:
                # What is stored cannot be read: whoever wrote it, nothing can be put behind it.
                logger.exception("the log cannot be written on", extra=self._facts())
                self.close()
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 2, FLUSH_SEC / 2 if self._is_away() else LONGEST_PAUSE_SEC)
        return None

    def _over_for_sec(self) -> float:
        return 0.0 if self._over_at is None else asyncio.get_running_loop().time() - self._over_at

    def _facts(self) -> dict[str, object]:
        ids = {"err_id": LogNotRecorded.err_id, "msg_id": LogNotRecorded.msg_id}
        return {"run_id": self._run_id, "attempt": self._attempt, **self._more_facts} | ids
