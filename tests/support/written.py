"""Writes the log of a run chunk by chunk, as a worker does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import Level, LogChunk, LogLine, chunk_of
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.ports import Conflict, Stored
from pyoco_server.stores import LogStore

AT = 1_700_000_000.25
PATIENCE_SEC = 30.0
RETRY_SEC = 0.1


class Writer:
    """The only writer of one log."""

    def __init__(self, logs: LogStore, run_id: RunId) -> None:
        self._logs = logs
        self._run_id = run_id
        self._behind: LogChunk | None = None
        self._sequence = 0

    async def write(self, *texts: str, task: str | None = "load", level: Level = "INFO", attempt: int = 1) -> None:
        """One chunk of these lines."""
        await self.write_lines([LogLine(AT, task, "stdout", level, text) for text in texts], attempt)

    async def write_lines(self, lines: Sequence[LogLine], attempt: int = 1) -> None:
        chunk = chunk_of(lines, attempt=attempt, behind=self._behind, sequence=self._sequence)
        stored = await self._append(chunk)
        assert isinstance(stored, Stored)
        self._behind, self._sequence = chunk, stored.version

    async def _append(self, chunk: LogChunk) -> Stored | Conflict:
        """Appends once, like a worker: a reply that is late under load is waited for by asking again."""
        async with asyncio.timeout(PATIENCE_SEC):
            while True:
                try:
                    return await self._logs.append(self._run_id, chunk, after=self._sequence)
                except BrokerUnavailable:
                    await asyncio.sleep(RETRY_SEC)


def numbered(first: int, last: int) -> list[str]:
    """Lines whose text is their own number in the log."""
    return [str(number) for number in range(first, last + 1)]
