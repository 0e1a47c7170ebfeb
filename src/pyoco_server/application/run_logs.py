"""Reads what runs have written, from a place on or from the end, and waits for more; it writes nothing.

However long a log is, reading at a place costs what is read: a place names the chunk, and chunks name the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.application.gateway import Gateway
from pyoco_server.application.log_parts import NumberedLine as NumberedLine
from pyoco_server.application.ports import LogStore, StoredChunk
from pyoco_server.application.watcher import Watcher
from pyoco_server.execution.ids import RunId
from pyoco_server.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.runlog.tokens import START, Place

# A page ends behind the chunk with which it grows larger than this, however many lines were asked for.
PAGE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Some lines in order, and where to go on; `complete`: the run is over and there are no more."""

    lines: Sequence[NumberedLine]
    following: Place
    at_end: bool
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """From `place` on at most `limit` lines, waiting up to `wait_sec` for the first; or the last `tail` lines."""

    place: Place = START
    limit: int = 1000
    tail: int | None = None
    wait_sec: float = 0.0


async def read_log(gateway: Gateway, run_id: RunId, query: LogQuery, *, sees: str | None) -> LogPage:
    """What the run has written; `RunNotFound` where the caller sees no such run."""
    snapshot = await gateway.get_snapshot(run_id, sees=sees)  # before the lines: an end that is seen has all of them
    is_over = snapshot["status"] in TERMINAL_RUN_STATUSES
    logs = gateway.stores.logs
    if query.tail is not None:
        page = await last_lines(logs, run_id, query.tail)
    else:
        page = await lines_from(logs, run_id, query.place, query.limit)
    if page.lines or is_over or query.wait_sec <= 0:
        return replace(page, complete=is_over and page.at_end)
    return await _wait_for_lines(gateway, run_id, replace(query, place=page.following), sees)


async def lines_from(logs: LogStore, run_id: RunId, place: Place, limit: int) -> LogPage:
    """At most so many lines from a place on."""
    lines: list[NumberedLine] = []
    size, stored = 0, await _chunk_for(logs, run_id, place)
    while stored is not None:
        unread = _numbered(stored, place.line)
        if unread and len(lines) == limit:
            return LogPage(lines=lines, following=place, at_end=False)
        taken = unread[: limit - len(lines)]
        lines += taken
        if len(taken) < len(unread):
            return LogPage(lines=lines, following=Place(taken[-1].number + 1, place.sequence), at_end=False)
        place = Place(max(place.line, stored.chunk.next_line), stored.sequence)
        size += stored.chunk.size_bytes
        if size >= PAGE_BYTES and lines:
            return LogPage(lines=lines, following=place, at_end=False)
        stored = await logs.next(run_id, after=place.sequence)
    return LogPage(lines=lines, following=place, at_end=True)


async def last_lines(logs: LogStore, run_id: RunId, count: int) -> LogPage:
    """The last so many lines; chunks are read from the end back."""
    last = stored = await logs.last(run_id)
    lines: list[NumberedLine] = []
    size = 0
    while stored is not None and len(lines) < count and size < PAGE_BYTES:
        lines = [*_numbered(stored, 1), *lines]
        size += stored.chunk.size_bytes
        stored = await logs.at(run_id, stored.chunk.previous) if stored.chunk.previous else None
    following = START if last is None else Place(last.chunk.next_line, last.sequence)
    return LogPage(lines=lines[-count:], following=following, at_end=True)


async def _chunk_for(logs: LogStore, run_id: RunId, place: Place) -> StoredChunk | None:
    """The first chunk behind the place; from the start of the log where its sequence means nothing any more."""
    stored = await logs.next(run_id, after=place.sequence)
    if place.sequence == 0 or (stored is not None and stored.chunk.first_line <= place.line):
        return stored
    last = await logs.last(run_id)
    if stored is None and (last is None or last.chunk.next_line <= place.line):
        return None  # as it should be: everything was read
    return await logs.next(run_id, after=0)


def _numbered(stored: StoredChunk, first: int) -> list[NumberedLine]:
    chunk = stored.chunk
    skipped = max(0, first - chunk.first_line)
    return [
        NumberedLine(number, chunk.attempt, line)
        for number, line in enumerate(chunk.lines[skipped:], start=chunk.first_line + skipped)
    ]


async def _wait_for_lines(gateway: Gateway, run_id: RunId, query: LogQuery, sees: str | None) -> LogPage:
    logs, news = gateway.stores.logs, asyncio.Event()
    watcher = await gateway.watches.open(run_id, sees=sees, timeout_sec=query.wait_sec)
    if watcher is None:
        page = await lines_from(logs, run_id, query.place, query.limit)
        return replace(page, complete=page.at_end)
    over = asyncio.ensure_future(_is_over(watcher))
    try:
        stop = await logs.listen(run_id, news.set)
        try:
            return await _first_news(logs, run_id, query, news, over)
        finally:
            stop()
    finally:
        watcher.close()
        over.cancel()
        await asyncio.gather(over, return_exceptions=True)


async def _first_news(
    logs: LogStore, run_id: RunId, query: LogQuery, news: asyncio.Event, over: asyncio.Future[bool]
) -> LogPage:
    place = query.place
    while True:
        waited_enough, is_over = over.done(), over.done() and over.result()
        news.clear()
        page = await lines_from(logs, run_id, place, query.limit)
        if page.lines or waited_enough:
            return replace(page, complete=is_over and page.at_end)
        place = page.following
        hearing = asyncio.ensure_future(news.wait())
        try:
            signs: list[asyncio.Future[Any]] = [hearing, over]
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hearing.cancel()


async def _is_over(watcher: Watcher) -> bool:
    """Whether the run has ended; False when the time ended first."""
    while (told := await watcher.next()) is not None:
        if told.view.is_terminal:
            return True
    return False
