"""Appends the output of one attempt to the run's log, chunk by chunk, without blocking the run.

    add ─▶ LogBuffer ─▶ batched for a moment ─▶ append after the last chunk ─▶ …
                                                  └─ conflict: a later attempt has written ─▶ stop writing

A task exists only while there is something to store: a run that prints nothing costs nothing. While the broker is away,
lines wait in the buffer, which is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LogChunk, LogLine, chunk_of
from pyoco_server.errors import BrokerUnavailable, InternalError, LogNotRecorded, RequestTooLarge
from pyoco_server.ports import Stored
from pyoco_server.services.loops import wait_event
from pyoco_server.stores import LogStore, StoredChunk
from pyoco_server.trace import Step, TaskStarted
from pyoco_server.worker.backoff import Backoff
from pyoco_server.worker.output.log_buffer import LogBuffer
from pyoco_server.worker.output.tagged_lines import FIRST_TASK

logger = logging.getLogger(__name__)

# With one batch more still far below the broker's message size, however JSON escapes the text.
CHUNK_BYTES = 64 * 1024
BATCH_SEC = 0.05
# For the name of the first task, which arrives separately from the lines; usually it is there before the first batch.
NAME_SEC = 2.0
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 2.0
FLUSH_SEC = 1.0
# A broker with a full disk may accept nothing for hours; the lines of all ended runs cannot be kept that long.
GIVE_UP_AFTER_SEC = 120.0


class RunLogWriter:
    def __init__(
        self,
        logs: LogStore,
        run_id: RunId,
        attempt: int,
        limit_bytes: int,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        is_broker_away: Callable[[], bool] = lambda: False,
        log_fields: Mapping[str, object] | None = None,
    ) -> None:
        self._logs = logs
        self._run_id = run_id
        self._attempt = attempt
        self._spawn = spawn
        self._is_broker_away = is_broker_away
        self._run_fields = log_fields or {}
        self._buffer = LogBuffer(limit_bytes)
        self._first_task: str | None = None
        self._is_named = asyncio.Event()  # or no name will come
        self._last: StoredChunk | None = None
        self._is_positioned = attempt == 1  # the first attempt starts an empty log; later ones look up the position
        self._is_closed = self._stops_waiting = False
        self._ended_at: float | None = None
        self._flush_now = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """Starts the attempt. A later attempt writes to the log at once, which stops earlier ones."""
        if self._attempt > 1:
            self._ensure_writing()

    def add(self, lines: Sequence[LogLine]) -> None:
        if self._is_closed:
            return
        self._buffer.add(lines)
        if self._buffer.waiting_bytes >= CHUNK_BYTES:
            self._flush_now.set()
        if self._buffer.has_waiting:
            self._ensure_writing()

    def note_steps(self, steps: Iterable[Step]) -> None:
        """Finds the first task: untagged output belongs to it until another task starts."""
        if self._first_task is None:
            self._first_task = next((step.node for step in steps if isinstance(step, TaskStarted)), None)
            if self._first_task is not None:
                self._is_named.set()

    async def flush(self) -> None:
        """Ends the attempt: waits briefly until everything is stored; the rest is stored later."""
        self._ended_at = asyncio.get_running_loop().time()
        self._is_named.set()
        if self._is_closed:
            return
        self._buffer.end()
        if self._buffer.has_waiting:
            self._ensure_writing()
        self._flush_now.set()
        while not self._idle.is_set():
            # Without a broker the end cannot be stored either, so it waits for its lines: stored first, it would be
            # visible without them, and a worker that is killed then would lose them.
            was_away = self._is_broker_away()
            try:
                async with asyncio.timeout(FLUSH_SEC):
                    await self._idle.wait()
            except TimeoutError:
                if self._stops_waiting or not (was_away or self._is_broker_away()):
                    logger.warning(LogNotRecorded.message(), extra=self._log_fields())
                    return

    def stop_waiting(self) -> None:
        """Stops waiting for an unreachable broker, because the worker stops."""
        self._stops_waiting = True

    def close(self) -> None:
        """Stops writing: another attempt has the run."""
        self._is_closed = True
        self._is_named.set()
        self._flush_now.set()

    def _ensure_writing(self) -> None:
        if self._idle.is_set():
            self._idle.clear()
            self._spawn(self._write())

    async def _write(self) -> None:
        try:
            if not self._is_positioned:
                await self._retry(self._take_position)
            while self._buffer.has_waiting and not self._is_closed:
                await self._wait_for_batch()
                await self._store(self._buffer.take(CHUNK_BYTES))
        finally:
            self._idle.set()

    async def _wait_for_batch(self) -> None:
        if self._ended_at is not None or self._buffer.waiting_bytes >= CHUNK_BYTES:
            return
        self._flush_now.clear()
        try:
            async with asyncio.timeout(BATCH_SEC):
                await self._flush_now.wait()
        except TimeoutError:
            return

    async def _take_position(self) -> None:
        """Appends an empty chunk after the last one of the earlier attempt: the fence."""
        self._last = await self._logs.last(self._run_id)
        if self._last is not None:
            self._buffer.used(self._last.chunk.next_byte)
        await self._append(())
        self._is_positioned = True

    async def _store(self, lines: Sequence[LogLine]) -> None:
        if any(line.task == FIRST_TASK for line in lines):
            await wait_event(self._is_named, NAME_SEC)
        named = [line._replace(task=self._first_task) if line.task == FIRST_TASK else line for line in lines]
        try:
            await self._retry(lambda: self._append(named))
        except RequestTooLarge:
            if len(lines) < 2:
                await self._store_marker(named[0])
                return
            half = len(lines) // 2
            await self._store(lines[:half])
            await self._store(lines[half:])

    async def _store_marker(self, line: LogLine) -> None:
        marker = f"[pyoco: 1 line dropped: its {len(line.text)} characters are more than the broker accepts]"
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
                # A later attempt has the run, or retention has removed it.
                logger.info("log has another writer", extra=self._log_fields())
                self.close()
                return
            self._last = last  # an earlier attempt was still writing

    def _chunk(self, lines: Sequence[LogLine]) -> LogChunk:
        behind, sequence = (self._last.chunk, self._last.sequence) if self._last else (None, 0)
        return chunk_of(lines, attempt=self._attempt, behind=behind, sequence=sequence)

    async def _retry(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        backoff = Backoff(FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC)
        while not self._is_closed:
            try:
                return await attempt()
            except BrokerUnavailable as error:
                level = logging.WARNING if backoff.is_first else logging.DEBUG
                logger.log(level, LogNotRecorded.message(), extra=self._log_fields() | {"error": error.detail})
                if self._stops_waiting or self._ended_for_sec() > GIVE_UP_AFTER_SEC:
                    logger.warning("log lines dropped", extra=self._log_fields())
                    self.close()
            except InternalError:
                # The last chunk cannot be read, so nothing can be appended after it.
                logger.exception("log cannot be appended to", extra=self._log_fields())
                self.close()
                return None
            longest_sec = FLUSH_SEC / 2 if self._is_broker_away() else LONGEST_PAUSE_SEC
            await asyncio.sleep(min(backoff.next_sec(), longest_sec))
        return None

    def _ended_for_sec(self) -> float:
        return 0.0 if self._ended_at is None else asyncio.get_running_loop().time() - self._ended_at

    def _log_fields(self) -> dict[str, object]:
        return {"run_id": self._run_id, "attempt": self._attempt, **self._run_fields, **LogNotRecorded.ids()}
