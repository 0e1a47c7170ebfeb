"""Reads a log as plain text: any part of it, chunk by chunk, from a byte on; keeps one chunk at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import text_of
from pyoco_server.errors import RunNotFound
from pyoco_server.services.run_logs.search import chunk_with, in_bytes
from pyoco_server.stores import LogStore, StoredChunk


async def text_between(
    logs: LogStore, run_id: RunId, start: int, stop: int, *, last: StoredChunk
) -> AsyncIterator[bytes]:
    """The bytes from `start` up to `stop`, which `last` is not before: just so many, however much is written meanwhile.

    `RunNotFound` where the log is removed on the way.
    """
    at = start
    stored = await chunk_with(logs, run_id, start, in_bytes, last=last) if at < stop else None
    while at < stop:
        if stored is None or not stored.chunk.first_byte <= at <= stored.chunk.next_byte:
            raise RunNotFound("the log was removed while it was read", run_id=run_id)
        before = stored.chunk.first_byte
        piece = text_of(stored.chunk.lines)[at - before : stop - before]
        if piece:
            yield piece
            at += len(piece)
        if at < stop:
            stored = await logs.next(run_id, after=stored.sequence)
