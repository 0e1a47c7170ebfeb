"""All changes in order, for gateways: of the snapshot bucket, and of the event log."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec
import orjson

from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import Commit
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.ports.broker import Entry, KeyValue, StreamState, SubjectLog

logger = logging.getLogger(__name__)

# As the codec writes an actor.
_OF_A_USER = b'"kind":"user"'


class LogSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of any run: its run and its sequence, not its content."""

    sequence: int
    run_id: RunId


class Feed:
    """Changes without gaps, across reconnects. An iteration ends with `BrokerUnavailable` when its stream was
    recreated; readers then compare their position with the stream."""

    def __init__(self, snapshots: KeyValue, events: SubjectLog) -> None:
        self._snapshots = snapshots
        self._events = events

    async def snapshot_stream(self) -> tuple[str, int]:
        """When the snapshot stream was created, and its last sequence."""
        state = await self._snapshots.state()
        return state.created, state.last_sequence

    async def snapshot_key_at(self, sequence: int) -> str | None:
        """The key stored under this sequence, None when it was replaced since."""
        return await self._snapshots.key_at(sequence)

    async def snapshots(self, *, after: int) -> AsyncGenerator[Sequence[SnapshotSeen], None]:
        """Batches of changes of the snapshot bucket behind `after`, then live.

        An empty batch says that nothing is pending. Sequences alone do not show that a reader has caught up: the last
        one of a stream may be a removal that has expired.
        """
        async with aclosing(self._snapshots.follow(after=after)) as batches:
            async for batch in batches:
                yield [_seen(entry) for entry in batch]

    async def commit_stream(self) -> tuple[str, int]:
        """When the event stream was created, and its last sequence."""
        state = await self._events.state()
        return state.created, state.last_sequence

    async def commit_state(self) -> StreamState:
        """The extent of the event stream."""
        return await self._events.state()

    async def user_commits(self, *, after: int, upto: int) -> Sequence[tuple[RunId, Commit]]:
        """The commits of users between these sequences, in order; unreadable ones are left out."""
        found = []
        for message in await self._events.read_range(after=after, upto=upto):
            # Most commits are of workers, and are not decoded.
            if _OF_A_USER not in message.data:
                continue
            try:
                found.append((RunId(message.key), codec.decode(message.data)))
            except codec.UnreadableCommit as error:
                logger.warning("unreadable commit", extra={"run_id": message.key, "reason": str(error)})
        return found

    async def commits(self, *, after: int) -> AsyncGenerator[Sequence[LogSeen], None]:
        """Batches of commits of all runs behind the sequence `after`, then live."""
        async with aclosing(self._events.follow(after=after)) as batches:
            async for batch in batches:
                yield [LogSeen(sequence=message.sequence, run_id=RunId(message.key)) for message in batch]


def _seen(entry: Entry) -> SnapshotSeen:
    plain = None
    if entry.value is not None:
        try:
            plain = orjson.loads(entry.value)
        except orjson.JSONDecodeError:
            plain = None
        if not isinstance(plain, dict):
            logger.warning("unreadable snapshot", extra={"run_id": entry.key})
            plain = None
    return SnapshotSeen(sequence=entry.revision, run_id=RunId(entry.key), plain=plain)
