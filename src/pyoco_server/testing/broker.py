"""The broker ports in memory: the same guarantees as on JetStream, kept by dictionaries; nothing expires."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from pyoco_server.ports import Conflict, Entry, LogMessage, RevisionConflict, Stored, StreamState

T = TypeVar("T")

BATCH = 500
CREATED = "1970-01-01T00:00:00Z"


class MemoryStream(Generic[T]):
    """Items under rising sequences; a removed one leaves a gap."""

    def __init__(self) -> None:
        self.last_sequence = 0
        self.items: dict[int, T] = {}
        self._grew = asyncio.Event()

    def append(self, item: T) -> int:
        self.last_sequence += 1
        self.items[self.last_sequence] = item
        self._grew.set()
        self._grew = asyncio.Event()
        return self.last_sequence

    def range(self, *, after: int, upto: int) -> list[tuple[int, T]]:
        return [(sequence, item) for sequence, item in self.items.items() if after < sequence <= upto]

    def state(self) -> StreamState:
        return StreamState(
            created=CREATED,
            first_sequence=next(iter(self.items), self.last_sequence + 1),
            last_sequence=self.last_sequence,
            messages=len(self.items),
        )

    async def follow(self, after: int) -> AsyncGenerator[list[tuple[int, T]], None]:
        """Batches of items behind `after`, then one empty batch, then live."""
        caught_up = False
        while True:
            grew = self._grew
            batch = self.range(after=after, upto=self.last_sequence)[:BATCH]
            if batch:
                after = batch[-1][0]
                yield batch
                continue
            if not caught_up:
                caught_up = True
                yield []
            await grew.wait()


class MemoryKeyValue:
    """KeyValue. The clock gives the ages of entries."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._stream: MemoryStream[tuple[str, bytes | None, float]] = MemoryStream()
        self._revisions: dict[str, int] = {}

    async def get(self, key: str) -> Entry | None:
        revision = self._revisions.get(key)
        return None if revision is None else self._entry(revision)

    async def put(self, key: str, value: bytes, *, revision: int) -> Stored | RevisionConflict:
        if self._revisions.get(key, 0) == revision:
            return Stored(version=self._write(key, value))
        present = await self.get(key)
        if present is not None and present.value == value:
            return Stored(version=present.revision, found=True)
        return RevisionConflict(entry=present)

    async def purge(self, key: str, *, revision: int | None = None) -> int | None:
        return self._write(key, None) if revision in (None, self._revisions.get(key, 0)) else None

    async def all(self, prefix: str = "") -> Sequence[Entry]:
        entries = [self._entry(revision) for key, revision in self._revisions.items() if key.startswith(prefix)]
        return [entry for entry in sorted(entries, key=lambda entry: entry.revision) if entry.value is not None]

    async def revisions(self, prefix: str = "") -> Mapping[str, int]:
        return {entry.key: entry.revision for entry in await self.all(prefix)}

    async def read(self, *, after: int, upto: int) -> Sequence[Entry]:
        return [self._entry(revision) for revision, _ in self._stream.range(after=after, upto=upto)]

    async def key_at(self, revision: int) -> str | None:
        found = self._stream.items.get(revision)
        return None if found is None else found[0]

    async def state(self) -> StreamState:
        return self._stream.state()

    async def follow(self, *, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        now: float | None = self._monotonic()
        async with aclosing(self._stream.follow(after)) as batches:
            async for batch in batches:
                yield [
                    Entry(key, revision, value, 0.0 if now is None else now - stored_at)
                    for revision, (key, value, stored_at) in batch
                ]
                now = now if batch else None

    def _entry(self, revision: int) -> Entry:
        key, value, _ = self._stream.items[revision]
        return Entry(key, revision, value)

    def _write(self, key: str, value: bytes | None) -> int:
        self._stream.items.pop(self._revisions.get(key, 0), None)
        self._revisions[key] = self._stream.append((key, value, self._monotonic()))
        return self._revisions[key]


class MemorySubjectLog:
    """SubjectLog. Listeners are called before an append returns; `interrupt` does what a reconnect does."""

    def __init__(self) -> None:
        self._stream: MemoryStream[LogMessage] = MemoryStream()
        self._messages: defaultdict[str, list[LogMessage]] = defaultdict(list)
        self._listeners: defaultdict[str, list[Callable[[LogMessage | None], None]]] = defaultdict(list)

    @property
    def listened_to(self) -> set[str]:
        return {key for key, listeners in self._listeners.items() if listeners}

    async def append(
        self,
        key: str,
        data: bytes,
        *,
        after: int,
        is_ours: Callable[[LogMessage], bool],
        search_limit: int | None = None,
    ) -> Stored | Conflict:
        messages = self._messages[key]
        if (messages[-1].sequence if messages else 0) == after:
            return Stored(version=self._store(key, data))
        newer = await self.read(key, after=after, limit=search_limit)
        found = next((message for message in newer if is_ours(message)), None)
        return Conflict() if found is None else Stored(version=found.sequence, found=True)

    async def publish(self, key: str, data: bytes) -> None:
        self._store(key, data)

    async def read(self, key: str, *, after: int = 0, limit: int | None = None) -> Sequence[LogMessage]:
        return [message for message in self._messages[key] if message.sequence > after][:limit]

    async def next(self, key: str, *, after: int) -> LogMessage | None:
        return next((message for message in self._messages[key] if message.sequence > after), None)

    async def last(self, key: str) -> LogMessage | None:
        return self._messages[key][-1] if self._messages[key] else None

    async def at(self, sequence: int) -> LogMessage | None:
        return self._stream.items.get(sequence)

    async def read_range(self, *, after: int, upto: int, key: str | None = None) -> Sequence[LogMessage]:
        found = [message for _, message in self._stream.range(after=after, upto=upto)]
        return [message for message in found if key in (None, message.key)]

    async def listen(self, key: str, notify: Callable[[LogMessage | None], None]) -> Callable[[], None]:
        self._listeners[key].append(notify)

        def stop() -> None:
            if notify in self._listeners[key]:
                self._listeners[key].remove(notify)

        return stop

    async def purge(self, key: str) -> None:
        for message in self._messages.pop(key, ()):
            del self._stream.items[message.sequence]

    async def state(self) -> StreamState:
        return self._stream.state()

    async def follow(self, *, after: int) -> AsyncGenerator[Sequence[LogMessage], None]:
        async with aclosing(self._stream.follow(after)) as batches:
            async for batch in batches:
                yield [message._replace(data=b"") for _, message in batch]

    def interrupt(self) -> None:
        """Report to all listeners that messages may have been missed."""
        for listeners in list(self._listeners.values()):
            for notify in list(listeners):
                notify(None)

    def _store(self, key: str, data: bytes) -> int:
        message = LogMessage(key, self._stream.last_sequence + 1, data)
        self._stream.append(message)
        self._messages[key].append(message)
        for notify in list(self._listeners[key]):
            notify(message)
        return message.sequence
