"""The bytes of uploads in an object store: pieces under one subject per upload.

Only a few pieces are in memory at a time, however slow the reader or writer is.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing, suppress

import msgspec

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.connect import API_SEC, Connection
from pyoco_server.adapters.jetstream.failures import ReadInterrupted, RequestRejected
from pyoco_server.adapters.jetstream.pull import PAUSE_SEC
from pyoco_server.adapters.jetstream.reads import read_range, unix_time
from pyoco_server.errors import BrokerUnavailable

logger = logging.getLogger(__name__)

# The chunk size of NATS clients.
PIECE_BYTES = 128 * 1024
# Enough to keep a broker busy that syncs each piece; two megabytes.
IN_FLIGHT = 16
# Restarts of a read without progress.
MAX_RESTARTS = 5


class Written(msgspec.Struct, frozen=True, kw_only=True):
    size_bytes: int
    pieces: int
    sha256: bytes


class PiecesMissing(Exception):
    """Some pieces of an upload are missing."""


class Pieces:
    """The pieces of all uploads of one object store."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self._connection = connection
        self._bucket = bucket
        self._stream = subjects.object_stream(bucket)

    async def write(self, nuid: str, chunks: AsyncIterator[bytes]) -> Written:
        """Store the bytes in order; on failure some of them may be stored."""
        digest, size, count = hashlib.sha256(), 0, 0
        # Pieces of one connection are stored in the order in which they are sent. None is sent again: it would be
        # stored behind its successors.
        in_flight: deque[asyncio.Task[None]] = deque()
        try:
            async for piece in _cut(chunks, min(PIECE_BYTES, self._connection.max_payload)):
                digest.update(piece)
                size, count = size + len(piece), count + 1
                if len(in_flight) == IN_FLIGHT:
                    await in_flight.popleft()
                in_flight.append(asyncio.create_task(self._send(nuid, piece)))
            while in_flight:
                await in_flight.popleft()
        finally:
            # Not cancelled: pieces in flight would be stored after the caller has purged the upload.
            await asyncio.gather(*in_flight, return_exceptions=True)
        return Written(size_bytes=size, pieces=count, sha256=digest.digest())

    async def read(self, nuid: str, count: int) -> AsyncGenerator[bytes, None]:
        """The pieces in order; `PiecesMissing` when there are fewer than `count`."""
        done, after, restarts = 0, 0, 0
        while done < count:
            before = done
            pieces = read_range(
                self._connection,
                self._stream,
                after=after,
                filter_subject=self._piece(nuid),
                batch_messages=IN_FLIGHT,
            )
            with suppress(ReadInterrupted):
                async with aclosing(pieces) as batches:
                    async for batch in batches:
                        for after, message in batch:  # noqa: B007 - where a restart continues
                            done += 1
                            yield message.data
                            if done == count:
                                return
            if await self.count(nuid) < count:
                raise PiecesMissing
            restarts = restarts + 1 if done == before else 0
            if restarts > MAX_RESTARTS:
                raise BrokerUnavailable(f"reading {self._stream} makes no progress")
            if restarts:
                await asyncio.sleep(PAUSE_SEC)

    async def count(self, nuid: str) -> int:
        """How many pieces of an upload are stored, from the stream's leader."""
        return (await self._uploads(self._piece(nuid))).get(self._piece(nuid), 0)

    async def purge(self, nuid: str) -> None:
        await self._connection.api(subjects.stream_purge(self._stream), {"filter": self._piece(nuid)})

    async def upload_ids(self) -> frozenset[str]:
        found = await self._uploads(self._piece(">"))
        return frozenset(subjects.last_token(subject) for subject in found)

    async def purge_idle(self, nuids: Collection[str], *, quiet_sec: float) -> None:
        """Remove those of these uploads that got no piece for `quiet_sec`, by the broker's clock."""
        for nuid in nuids:
            if await self._idle_sec(nuid) >= quiet_sec:
                logger.info("pieces of an unfinished upload removed", extra={"stream": self._stream, "nuid": nuid})
                await self.purge(nuid)

    async def _idle_sec(self, nuid: str) -> float:
        """How long ago the last piece of an upload was stored; 0 when it has none."""
        body = {"last_by_subj": self._piece(nuid)}
        try:
            last = await self._connection.api(subjects.message_get(self._stream), body)
        except RequestRejected as rejected:
            if rejected.err_code == failures.NO_MESSAGE:
                return 0.0
            raise
        info = await self._connection.api(subjects.stream_info(self._stream))
        return unix_time(info["ts"]) - unix_time(last["message"]["time"])

    async def _send(self, nuid: str, piece: bytes) -> None:
        await self._connection.store(self._piece(nuid), piece, timeout_sec=API_SEC)

    async def _uploads(self, subject: str) -> dict[str, int]:
        info = await self._connection.api(subjects.stream_info(self._stream), {"subjects_filter": subject})
        return info["state"].get("subjects") or {}

    def _piece(self, nuid: str) -> str:
        return subjects.object_piece(self._bucket, nuid)


async def _cut(chunks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes in pieces of one size, except for the last."""
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        while len(rest) >= size:
            yield bytes(rest[:size])
            del rest[:size]
    if rest:
        yield bytes(rest)
