"""Everything that is stored, for gateways: changes of the snapshot bucket and commits of all runs, in order."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import REQUEST_SEC, Connection
from pyoco_server.adapters.jetstream.follower import Followed, Follower
from pyoco_server.adapters.jetstream.messages import Message
from pyoco_server.adapters.jetstream.reads import StreamReader
from pyoco_server.adapters.jetstream.subjects import Subjects, last_token
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import LogSeen, SnapshotSeen

logger = logging.getLogger(__name__)

_KV_OPERATION = subjects.KV_OPERATION.encode()
_MARKER_REASON = subjects.MARKER_REASON.encode()


class JetStreamFeed:
    """Feed. `StreamReplaced` ends an iteration when the stream was made anew; whoever reads compares positions then."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._connection = connection
        self._events_stream = config.events_stream
        self._runs_stream = Subjects(config).runs_stream
        self._reader = StreamReader(connection, self._runs_stream, direct=self._runs_stream in facts.direct)

    async def snapshot_stream(self) -> tuple[str, int]:
        info = await self._connection.api(subjects.stream_info(self._runs_stream), timeout_sec=REQUEST_SEC)
        return info["created"], info["state"]["last_seq"]

    async def snapshot_key_at(self, sequence: int) -> str | None:
        message = await self._reader.at(sequence)
        return None if message is None else last_token(message.subject)

    async def snapshots(self, *, after: int) -> AsyncIterator[Sequence[SnapshotSeen]]:
        follower = Follower(self._connection, self._runs_stream, after=after)
        async with aclosing(follower.batches()) as batches:
            async for batch in batches:
                yield [
                    SnapshotSeen(sequence=sequence, run_id=_run_id(message), plain=_plain(message))
                    for sequence, message in batch
                ]

    async def commit_stream(self) -> tuple[str, int]:
        info = await self._connection.api(subjects.stream_info(self._events_stream))
        return info["created"], info["state"]["last_seq"]

    async def commits(self, *, after: int) -> AsyncIterator[Sequence[LogSeen]]:
        follower = Follower(self._connection, self._events_stream, after=after, headers_only=True)
        async with aclosing(follower.batches()) as batches:
            async for batch in batches:
                yield [_seen(followed) for followed in batch]


def _seen(followed: Followed) -> LogSeen:
    return LogSeen(sequence=followed.sequence, run_id=_run_id(followed.message))


def _run_id(message: Message) -> RunId:
    return RunId(last_token(message.subject.decode()))


def _plain(message: Message) -> Mapping[str, Any] | None:
    if _KV_OPERATION in message.headers or _MARKER_REASON in message.headers:
        return None
    try:
        plain = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        plain = None
    if not isinstance(plain, dict):
        logger.warning("snapshot cannot be read", extra={"subject": message.subject.decode()})
        return None
    return plain
