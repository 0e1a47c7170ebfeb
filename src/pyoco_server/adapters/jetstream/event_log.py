"""The event log on a stream: one message per commit, appended by compare-and-set; decides nothing about runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import Refused, acknowledged
from pyoco_server.adapters.jetstream.messages import headers
from pyoco_server.adapters.jetstream.reads import StoredMessage, StreamReader
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import Commit, StoredCommit
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, InternalError, Unanswered
from pyoco_server.ports import Conflict, Stored

MAX_TRIES = 3
# No further try after this: a caller waits, and wants to be told within two seconds.
TRY_FOR_SEC = 1.0


class JetStreamEventLog:
    """EventLog. No `Nats-Msg-Id` on events: after a purge the broker would swallow one and call it stored."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._connection = connection
        self._stream = config.events_stream
        self._subjects = Subjects(config)
        self._reader = StreamReader(connection, self._stream, direct=self._stream in facts.direct)

    async def append(self, run_id: RunId, commit: Commit, *, after: int) -> Stored | Conflict:
        subject = self._subjects.event(run_id)
        payload = codec.encode(run_id, commit)
        expected = headers((subjects.EXPECTED_LAST, after))
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + TRY_FOR_SEC
        tries = 0
        while True:
            tries += 1
            try:
                message = await self._connection.request(subject, payload, headers=expected)
                return Stored(version=acknowledged(message))
            except Refused as refused:
                if refused.number not in failures.WRONG_LAST_SEQUENCE:
                    raise
                return await self._settle(run_id, commit, after)
            except Unanswered as unanswered:
                newer = await self._look(run_id, after, unanswered)
                if newer:
                    return _find(newer, commit)
                # Not there yet, but it may still be on its way. The same append again settles it: of two copies with
                # the same expectation the broker stores one.
                if tries == MAX_TRIES or clock() > give_up_at:
                    raise

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        messages = await self._reader.after(self._subjects.event(run_id), after, limit)
        return [_decode(message) for message in messages]

    async def purge(self, run_id: RunId) -> None:
        await self._connection.api(subjects.stream_purge(self._stream), {"filter": self._subjects.event(run_id)})

    async def _look(self, run_id: RunId, after: int, unanswered: Unanswered) -> Sequence[StoredCommit]:
        """Whether it was done in spite of the missing answer; when that cannot be told, it stays unanswered."""
        try:
            return await self.read(run_id, after=after)
        except BrokerUnavailable:
            raise unanswered from None

    async def _settle(self, run_id: RunId, commit: Commit, after: int) -> Stored | Conflict:
        """The append was refused: because an earlier try of ours is stored, or because somebody else was faster."""
        newer = await self.read(run_id, after=after)
        if newer:
            return _find(newer, commit)
        return Conflict()


def _find(newer: Sequence[StoredCommit], commit: Commit) -> Stored | Conflict:
    # Others may have written after us, so ours need not be the first or the last.
    for stored in newer:
        if stored.commit.commit_id == commit.commit_id:
            return Stored(version=stored.sequence, found=True)
    return Conflict()


def _decode(message: StoredMessage) -> StoredCommit:
    try:
        return StoredCommit(sequence=message.sequence, commit=codec.decode(message.data))
    except codec.UnreadableCommit as error:
        raise InternalError(f"{message.subject}, sequence {message.sequence}: {error}") from error
