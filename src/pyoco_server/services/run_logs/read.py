"""Reads pages of run logs, from a position on or from the end, and waits for more lines.

However long a log is, a page costs what it contains: a position names the chunk, and chunks name the one before. The
size of a page is bounded too: a filter that takes few lines of many gets them in several pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import ALL_LINES, LineFilter
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.run_logs.search import chunk_at
from pyoco_server.services.streaming.chunks import NumberedLine
from pyoco_server.services.streaming.topics import RunTopics
from pyoco_server.stores import LogStore, StoredChunk

# A page ends with the chunk that makes it larger than this, whatever its limit of lines.
PAGE_BYTES = 4 * 1024 * 1024
# A filtered page also ends after this many chunks: a run that prints now and then has a chunk per line.
SEARCHED_CHUNKS = 1000
# Lines of a chunk that are filtered at once; more, as of a chunk of short lines, in a thread.
QUICK_LINES = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a log at one moment, and whether its run was over by then. Lines before it never change."""

    last: StoredChunk | None
    is_over: bool = False

    @property
    def place(self) -> LogPosition:
        return LogPosition(self.last.chunk.next_line, self.last.sequence) if self.last else START

    @property
    def lines(self) -> int:
        return self.last.chunk.next_line - 1 if self.last else 0

    @property
    def size_bytes(self) -> int:
        return self.last.chunk.next_byte if self.last else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Some lines in order, and the position behind them; `complete`: the run is over and there are no more."""

    lines: Sequence[NumberedLine]
    following: LogPosition
    at_end: bool
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """At most `limit` lines from `place` on, waiting up to `wait_sec` for the first; or the last `tail` lines.

    With a filter a page may have fewer lines, even none, before the end; continue at its `following`.
    """

    place: LogPosition = START
    limit: int = 1000
    tail: int | None = None
    only: LineFilter = ALL_LINES
    wait_sec: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLogService:
    """Reads the logs of runs; `heavy` bounds how many large pages are made at a time, and how many searched ones."""

    executions: ExecutionService
    topics: RunTopics
    heavy: asyncio.Semaphore

    @property
    def _logs(self) -> LogStore:
        return self.executions.stores.run_logs

    async def end(self, run_id: RunId, *, tenant_filter: str | None) -> LogEnd:
        """Where the log ends now; `RunNotFound` for another tenant's run."""
        # Before the lines are read: a log whose run is over is complete.
        snapshot = await self.executions.get_snapshot(run_id, tenant_filter=tenant_filter)
        is_over = snapshot["status"] in TERMINAL_RUN_STATUSES
        return LogEnd(last=await self._logs.last(run_id), is_over=is_over)

    async def page(
        self, run_id: RunId, query: LogQuery, end: LogEnd, *, caller: Caller, holder: str = ""
    ) -> tuple[LogPage, LogEnd]:
        """The lines before this end, or before a later one if the query waits; and that end.

        The same query and the same end give the same lines, at any time.
        """
        page = await self._page_before(run_id, query, end)
        if page.lines or not page.at_end or end.is_over or query.wait_sec <= 0:
            return page, end
        later = await self._wait_for_lines(run_id, query, page.following, caller, holder)
        return await self._page_before(run_id, query, later), later

    async def _page_before(self, run_id: RunId, query: LogQuery, end: LogEnd) -> LogPage:
        # A page of a filter reads megabytes, whatever it finds. The wait for lines holds no turn.
        async with nullcontext() if query.only.takes_all else self.heavy:
            if query.tail is not None:
                page = await last_lines(self._logs, run_id, query.tail, only=query.only, end=end)
            else:
                page = await lines_from(self._logs, run_id, query.place, query.limit, only=query.only, end=end)
        return replace(page, complete=end.is_over and page.at_end)

    async def _wait_for_lines(
        self, run_id: RunId, query: LogQuery, behind: LogPosition, caller: Caller, holder: str
    ) -> LogEnd:
        """The end of the log as soon as a matching line follows the position, the run is over, or the time is up."""
        async with self.topics.join(run_id, tenant_filter=caller.tenant_filter, caller=caller, holder=holder) as topic:
            try:
                async with (
                    asyncio.timeout(query.wait_sec),
                    aclosing(topic.follow_log(await topic.open_log(behind), query.only)) as updates,
                ):
                    async for update in updates:
                        if update.batches or update.ended:
                            break
            except TimeoutError:
                pass  # the page is empty
            is_over = topic.is_over  # before the read: a run that is over has written all its lines
            return LogEnd(last=await self._logs.last(run_id), is_over=is_over)


async def lines_from(
    logs: LogStore,
    run_id: RunId,
    place: LogPosition,
    limit: int,
    *,
    only: LineFilter = ALL_LINES,
    end: LogEnd | None = None,
) -> LogPage:
    """At most `limit` lines from a position on, before an end (None: the present one)."""
    end = end or LogEnd(last=await logs.last(run_id))
    lines: list[NumberedLine] = []
    size, chunks, stored = 0, 0, await chunk_at(logs, run_id, place, end.last)
    while stored is not None and stored.sequence <= end.place.sequence:
        chosen = await _chosen(stored, place.line, only)
        taken = chosen[: limit - len(lines)]
        lines += taken
        if len(taken) < len(chosen):
            place = LogPosition(taken[-1].number + 1, stored.chunk.previous)
            break
        place = LogPosition(max(place.line, stored.chunk.next_line), stored.sequence)
        size, chunks = size + stored.chunk.size_bytes, chunks + 1
        if place.line >= end.place.line or len(lines) == limit or _is_enough(size, chunks, lines, only):
            break
        stored = await logs.next(run_id, after=place.sequence)
    return LogPage(lines=lines, following=place, at_end=place.line >= end.place.line)


async def last_lines(
    logs: LogStore, run_id: RunId, count: int, *, only: LineFilter = ALL_LINES, end: LogEnd | None = None
) -> LogPage:
    """The last `count` lines; chunks are read backwards from the end, within the limits of a page."""
    end = end or LogEnd(last=await logs.last(run_id))
    stored = end.last
    parts: list[list[NumberedLine]] = []
    size = chunks = found = 0
    while stored is not None:
        chosen = await _chosen(stored, 1, only)
        parts.append(chosen)
        size, chunks, found = size + stored.chunk.size_bytes, chunks + 1, found + len(chosen)
        if found >= count or size >= PAGE_BYTES or (chunks >= SEARCHED_CHUNKS and not only.takes_all):
            break
        stored = await logs.at(run_id, stored.chunk.previous) if stored.chunk.previous else None
    lines = [line for part in reversed(parts) for line in part]
    return LogPage(lines=lines[-count:], following=end.place, at_end=True)


def _is_enough(size: int, chunks: int, lines: Sequence[NumberedLine], only: LineFilter) -> bool:
    """Whether a page ends before its limit of lines."""
    if only.takes_all:
        return size >= PAGE_BYTES and bool(lines)
    return size >= PAGE_BYTES or chunks >= SEARCHED_CHUNKS


async def _chosen(stored: StoredChunk, first: int, only: LineFilter) -> list[NumberedLine]:
    if len(stored.chunk.lines) <= QUICK_LINES:
        return _filtered(stored, first, only)
    return await asyncio.to_thread(_filtered, stored, first, only)


def _filtered(stored: StoredChunk, first: int, only: LineFilter) -> list[NumberedLine]:
    chunk = stored.chunk
    skipped = max(0, first - chunk.first_line)
    return [
        NumberedLine(number, chunk.attempt, line)
        for number, line in enumerate(chunk.lines[skipped:], start=chunk.first_line + skipped)
        if only.takes_all or only.takes(line)
    ]
