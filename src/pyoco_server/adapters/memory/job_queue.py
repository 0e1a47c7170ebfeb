"""The work queue in memory: at least once, with acknowledgements, delays and redelivery, as the real one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyoco_server.adapters.payloads import encode_job
from pyoco_server.application.ports import Job, QueueState


@dataclass(slots=True, eq=False)
class _Stored:
    tag: str
    payload: bytes
    created_sequence: int | None
    num_delivered: int = 0


@dataclass(slots=True, eq=False)
class _Tag:
    stored: set[_Stored] = field(default_factory=set)
    ready: deque[_Stored] = field(default_factory=deque)
    grew: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, job: _Stored) -> None:
        if job in self.stored and job not in self.ready:
            self.ready.append(job)
            self.grew.set()

    def forget(self, job: _Stored) -> None:
        # Also when the job was offered again meanwhile: as on the real queue, whose acks carry the message's number.
        self.stored.discard(job)
        if job in self.ready:
            self.ready.remove(job)


class MemoryJobQueue:
    """JobQueue."""

    def __init__(self, *, ack_wait_sec: float = 30.0) -> None:
        self._ack_wait_sec = ack_wait_sec
        self._tags: dict[str, _Tag] = {}
        self._published: set[str] = set()

    async def publish(self, job: Job, *, created_sequence: int, nth: int = 1) -> None:
        message_id = f"{job.run_id}.{nth}"
        if message_id in self._published:
            return
        self._published.add(message_id)
        await self.put(encode_job(job), tag=job.tag, created_sequence=created_sequence)

    async def put(self, payload: bytes, *, tag: str, created_sequence: int | None = None) -> None:
        """Put in any bytes, as a foreign producer may do."""
        stored = _Stored(tag=tag, payload=payload, created_sequence=created_sequence)
        queue = self._tag(tag)
        queue.stored.add(stored)
        queue.offer(stored)

    async def open(self, tag: str) -> MemoryTagQueue:
        return MemoryTagQueue(self._tag(tag), self._ack_wait_sec)

    async def depth(self, tag: str) -> int:
        return len(self._tag(tag).stored)

    async def state(self, tag: str) -> QueueState:
        delivered = [job.num_delivered for job in self._tag(tag).stored]
        return QueueState(
            waiting=delivered.count(0),
            in_work=len(delivered) - delivered.count(0),
            redelivered=sum(times > 1 for times in delivered),
        )

    def _tag(self, tag: str) -> _Tag:
        return self._tags.setdefault(tag, _Tag())


class MemoryDelivery:
    """Delivery."""

    def __init__(self, queue: _Tag, job: _Stored, ack_wait_sec: float) -> None:
        self._queue = queue
        self._job = job
        self._ack_wait_sec = ack_wait_sec
        job.num_delivered += 1
        self.num_delivered = job.num_delivered
        self._again = self._offer_in(ack_wait_sec)

    @property
    def payload(self) -> bytes:
        return self._job.payload

    @property
    def tag(self) -> str:
        return self._job.tag

    @property
    def subject(self) -> str:
        return f"memory.{self._job.tag}"

    @property
    def created_sequence(self) -> int | None:
        return self._job.created_sequence

    async def ack(self) -> None:
        self._again.cancel()
        self._queue.forget(self._job)

    async def term(self) -> None:
        await self.ack()

    async def nak(self, delay_sec: float) -> None:
        self._again.cancel()
        self._again = self._offer_in(delay_sec)

    async def in_progress(self) -> None:
        self._again.cancel()
        self._again = self._offer_in(self._ack_wait_sec)

    def _offer_in(self, delay_sec: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_sec, self._queue.offer, self._job)


class MemoryTagQueue:
    """TagQueue. Nothing is on its way in memory: jobs stay in the queue until they are handed out."""

    def __init__(self, queue: _Tag, ack_wait_sec: float) -> None:
        self._queue = queue
        self._ack_wait_sec = ack_wait_sec

    @property
    def ack_wait_sec(self) -> float:
        return self._ack_wait_sec

    async def receive(self, credit: int) -> Sequence[MemoryDelivery]:
        ready = self._queue.ready
        while not ready:
            self._queue.grew.clear()
            await self._queue.grew.wait()
        jobs = [ready.popleft() for _ in range(min(credit, len(ready)))]
        return [MemoryDelivery(self._queue, job, self._ack_wait_sec) for job in jobs]

    async def close(self) -> None:
        """Nothing to give back."""
