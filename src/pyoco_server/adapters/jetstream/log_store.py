"""What runs have written, on a stream: one message per chunk, appended by compare-and-set; numbers no lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.connect import Connection, Subscription
from pyoco_server.adapters.jetstream.failures import Refused, acknowledged
from pyoco_server.adapters.jetstream.messages import headers
from pyoco_server.adapters.jetstream.reads import StoredMessage, StreamReader
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import codec
from pyoco_server.domain.run_logs.lines import LogChunk
from pyoco_server.errors import InternalError, Unanswered
from pyoco_server.ports import Conflict, Stored, StoredChunk

# Chunks that are read at a time. They may be large: with hundreds on their way the gateway would come to its other
# answers from the broker too late, and to so many that the broker hangs up on it.
MOST_READS = 8


class JetStreamLogStore:
    """LogStore. A listener is told by what the broker republishes, which has no lines in it."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._connection = connection
        self._stream = config.logs_stream
        self._subjects = Subjects(config)
        self._reader = StreamReader(connection, self._stream, direct=self._stream in facts.direct)
        self._reads = asyncio.Semaphore(MOST_READS)
        self._listeners: dict[Subscription, Callable[[], None]] = {}
        connection.on_reconnect(self._reconnected)

    async def append(self, run_id: RunId, chunk: LogChunk, *, after: int) -> Stored | Conflict:
        expected = headers((subjects.EXPECTED_LAST, after))
        try:
            message = await self._connection.request(self._subjects.log(run_id), codec.encode(chunk), headers=expected)
            return Stored(version=acknowledged(message))
        except Refused as refused:
            if refused.number not in failures.WRONG_LAST_SEQUENCE:
                raise
            return await self._settle(run_id, chunk, after) or Conflict()
        except Unanswered:
            # It may be stored, or still on its way; whoever tries again meets it then.
            settled = await self._settle(run_id, chunk, after)
            if settled is None:
                raise
            return settled

    async def last(self, run_id: RunId) -> StoredChunk | None:
        async with self._reads:
            return _decoded(await self._reader.last(self._subjects.log(run_id)))

    async def next(self, run_id: RunId, *, after: int) -> StoredChunk | None:
        async with self._reads:
            return _decoded(await self._reader.next(self._subjects.log(run_id), after))

    async def at(self, run_id: RunId, sequence: int) -> StoredChunk | None:
        async with self._reads:
            message = await self._reader.at(sequence)
        return _decoded(message) if message is not None and message.subject == self._subjects.log(run_id) else None

    async def listen(self, run_id: RunId, heard: Callable[[], None]) -> Callable[[], None]:
        subscription = await self._connection.subscribe(self._subjects.log_stored(run_id), lambda _: heard())
        self._listeners[subscription] = heard

        def stop() -> None:
            subscription.close()
            self._listeners.pop(subscription, None)

        return stop

    async def purge(self, run_id: RunId) -> None:
        await self._connection.api(subjects.stream_purge(self._stream), {"filter": self._subjects.log(run_id)})

    async def _settle(self, run_id: RunId, chunk: LogChunk, after: int) -> Stored | Conflict | None:
        """Whether it is an earlier try of ours that stands behind `after`; None where nothing stands there."""
        newer = await self.next(run_id, after=after)
        if newer is None:
            return None
        ours = (newer.chunk.attempt, newer.chunk.first_line) == (chunk.attempt, chunk.first_line)
        return Stored(version=newer.sequence) if ours else Conflict()

    def _reconnected(self) -> None:
        for heard in list(self._listeners.values()):
            # Of its own turn: a listener that stops must not change what is being walked through.
            asyncio.get_running_loop().call_soon(heard)


def _decoded(message: StoredMessage | None) -> StoredChunk | None:
    if message is None:
        return None
    try:
        return StoredChunk(sequence=message.sequence, chunk=codec.decode(message.data))
    except codec.NotAChunk as error:
        raise InternalError(f"the log has an unreadable chunk at {message.sequence}: {error}") from error
