"""The work queue in memory: at-least-once delivery with acks, delays, redelivery and a delivery limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from pyoco_server.domain.ids import is_tag
from pyoco_server.ports import Job, QueueState, StoredJob


@dataclass(slots=True, eq=False)
class _Entry:
    job: StoredJob
    num_delivered: int = 0
    given_up: bool = False
    again: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class _Tag:
    max_deliver: int
    notify_given_up: Callable[[], None]
    stored: dict[int, _Entry] = field(default_factory=dict)
    ready: deque[_Entry] = field(default_factory=deque)
    grew: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, entry: _Entry) -> None:
        if entry.job.sequence not in self.stored or entry in self.ready or entry.given_up:
            return
        if entry.num_delivered >= self.max_deliver:
            entry.given_up = True
            self.notify_given_up()
            return
        self.ready.append(entry)
        self.grew.set()

    def offer_in(self, delay_sec: float, entry: _Entry) -> None:
        # One timer per job and not per delivery: on the real queue, too, acks name the message.
        if entry.again is not None:
            entry.again.cancel()
        entry.again = asyncio.get_running_loop().call_later(delay_sec, self.offer, entry)

    def forget(self, entry: _Entry) -> None:
        if entry.again is not None:
            entry.again.cancel()
        self.stored.pop(entry.job.sequence, None)
        if entry in self.ready:
            self.ready.remove(entry)


class MemoryJobQueue:
    """JobQueue."""

    def __init__(self, *, ack_wait_sec: float = 30.0, max_deliver: int = 20) -> None:
        self._ack_wait_sec = ack_wait_sec
        self._max_deliver = max_deliver
        self._tags: dict[str, _Tag] = {}
        self._published: set[str] = set()
        self._last_sequence = 0
        self._listeners: list[Callable[[], None]] = []

    async def publish(self, job: Job, *, created_sequence: int, nth: int = 1) -> None:
        message_id = f"{job.run_id}.{nth}"
        if message_id in self._published:
            return
        self._published.add(message_id)
        await self.put(msgspec.json.encode(job), tag=job.tag, created_sequence=created_sequence)

    async def put(self, payload: bytes, *, tag: str, created_sequence: int | None = None) -> None:
        """Enqueue any bytes, as a foreign producer may do."""
        self._last_sequence += 1
        job = StoredJob(
            sequence=self._last_sequence,
            tag=tag,
            subject=f"memory.{tag}",
            payload=payload,
            created_sequence=created_sequence,
        )
        entry = self._tag(tag).stored[job.sequence] = _Entry(job)
        self._tag(tag).offer(entry)

    async def open(self, tag: str) -> MemoryTagQueue:
        return MemoryTagQueue(self._tag(tag), self._ack_wait_sec)

    async def state(self, tag: str) -> QueueState:
        entries = self._tag(tag).stored
        delivered = [entry.num_delivered for entry in entries.values()]
        alive = [sequence for sequence, entry in entries.items() if not entry.given_up]
        first_alive = min(alive, default=self._last_sequence + 1)
        given_up = [sequence for sequence, entry in entries.items() if entry.given_up and sequence < first_alive]
        return QueueState(
            waiting=delivered.count(0),
            in_work=len(delivered) - delivered.count(0),
            redelivered=sum(times > 1 for times in delivered),
            given_up_through=max(given_up, default=0),
        )

    async def give_back(self, return_to: str) -> None:
        tag, _, sequence = return_to.rpartition(":")
        entry = self._tag(tag).stored.get(int(sequence))
        if entry is not None:
            self._tag(tag).offer_in(0.0, entry)

    async def take_back(self, jobs: Sequence[StoredJob], *, like: str) -> None:
        for job in jobs:
            stored = self._tag(job.tag).stored.get(job.sequence)
            if stored is not None and stored.num_delivered:
                self._tag(job.tag).offer_in(0.0, stored)

    async def tags(self) -> Sequence[str]:
        return [tag for tag, queue in self._tags.items() if queue.stored and is_tag(tag)]

    async def stored(
        self, tag: str, *, after: int = 0, upto: int | None = None, limit: int = 100
    ) -> Sequence[StoredJob]:
        last = float("inf") if upto is None else upto
        found = [entry.job for sequence, entry in self._tag(tag).stored.items() if after < sequence <= last]
        return found[:limit]

    async def discard(self, job: StoredJob) -> None:
        queue = self._tag(job.tag)
        if job.sequence in queue.stored:
            queue.forget(queue.stored[job.sequence])

    async def on_given_up(self, notify: Callable[[], None]) -> None:
        self._listeners.append(notify)

    def _tag(self, tag: str) -> _Tag:
        return self._tags.setdefault(tag, _Tag(self._max_deliver, self._notify_given_up))

    def _notify_given_up(self) -> None:
        for notify in self._listeners:
            notify()


class MemoryDelivery:
    """Delivery."""

    def __init__(self, queue: _Tag, entry: _Entry, ack_wait_sec: float) -> None:
        self._queue = queue
        self._entry = entry
        self._ack_wait_sec = ack_wait_sec
        entry.num_delivered += 1
        job = entry.job
        self.payload, self.tag, self.subject = job.payload, job.tag, job.subject
        self.num_delivered = entry.num_delivered
        self.created_sequence = job.created_sequence
        self.return_to = f"{job.tag}:{job.sequence}"
        queue.offer_in(ack_wait_sec, entry)

    async def ack(self) -> None:
        self._queue.forget(self._entry)

    async def term(self) -> None:
        await self.ack()

    async def nak(self, delay_sec: float) -> None:
        self._queue.offer_in(delay_sec, self._entry)

    async def in_progress(self) -> None:
        self._queue.offer_in(self._ack_wait_sec, self._entry)


class MemoryTagQueue:
    """TagQueue. Jobs stay in the queue until `receive` returns them."""

    def __init__(self, queue: _Tag, ack_wait_sec: float) -> None:
        self._queue = queue
        self.ack_wait_sec = ack_wait_sec

    async def receive(self, credit: int) -> Sequence[MemoryDelivery]:
        ready = self._queue.ready
        while not ready:
            self._queue.grew.clear()
            await self._queue.grew.wait()
        entries = [ready.popleft() for _ in range(min(credit, len(ready)))]
        return [MemoryDelivery(self._queue, entry, self.ack_wait_sec) for entry in entries]

    async def close(self) -> None:
        """Nothing to give back."""
