"""A request with a key is done once, however often it is sent and whoever dies over it; knows nothing of HTTP.

    create the record ──▶ ours ──────────────────────▶ work ──▶ keep the answer ──▶ answered
          │                                             ▲
          └─ there is one ─▶ other request: conflict    │ carry on: same commit id, same resource id
                             finished: its answer       │
                             in work: wait until it is finished, or its lease has ended

The record holds a lease, renewed while the work goes on, so that a twin waits instead of working too. Nothing hangs on
the lease being right: clocks may differ and processes may sleep. Two who work at once use one commit id and one
resource id, of which the log and the stores take one; and of two answers one is kept, which both then give.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyoco_server.domain.execution.codec import event_id
from pyoco_server.domain.idempotency.keys import IdempotencyKey, RecordKey
from pyoco_server.domain.idempotency.record import ENDED, Answer, Record
from pyoco_server.domain.ids import CommitId
from pyoco_server.errors import AppendConflict, IdempotencyConflict, PyocoError
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.stores import StoredRecord

logger = logging.getLogger(__name__)

LEASE_SEC = 5.0
RENEW_EVERY_SEC = 2.0
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.005, 0.1
# Each is somebody else's success.
MAX_RACES = 20
# What guards answer: the state does not allow it, or has no such node.
REFUSED = (404, 409)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request with a key: where its record is kept, and what it must be the same in to be the same request."""

    record_key: RecordKey
    key: IdempotencyKey
    endpoint: str
    request_hash: str
    origin: CommandContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What to tell the caller; `replayed`: it was told before."""

    answer: Answer
    replayed: bool


class IdempotentAttempt:
    """What the work needs to be done once: whom it is for, with which commit id, and the id for what it makes."""

    __slots__ = ("_hold", "_resource_id", "origin")

    def __init__(self, origin: CommandContext, resource_id: str, hold: _Hold | None = None) -> None:
        self.origin = origin
        self._resource_id = resource_id
        self._hold = hold

    @property
    def resource_id(self) -> str:
        """The id for the new resource; for one who carries on, that of the one before."""
        return self._resource_id

    async def choose(self, resource_id: str) -> str:
        """Use another resource, which the work has found only now; the answer is the id that counts from here on.

        It is stored before it is used. A twin's choice that was stored first counts instead of ours.
        """
        self._resource_id = resource_id if self._hold is None else await self._hold.choose(resource_id)
        return self._resource_id


Work = Callable[[IdempotentAttempt], Awaitable[Answer]]


async def once(stores: Stores, asked: Asked, new_resource_id: Callable[[], str], work: Work) -> Answered:
    """What the work answers, or what was answered when it was done before; `IdempotencyConflict` for another request.

    Answers that are a success or a guard's refusal are kept. Whatever else comes of the work is not: the next who sends
    the request carries on at once, because a part of it may be done.
    """
    begun_at = stores.clock.monotonic()
    first = Record(
        idempotency_key=asked.key,
        endpoint=asked.endpoint,
        request_hash=asked.request_hash,
        holder=stores.ids.instance_id(),
        lease_until=stores.clock.now() + LEASE_SEC,
        commit_id=stores.ids.commit_id(),
        resource_id=new_resource_id(),
    )
    created = await stores.idempotency.create(asked.record_key, first)
    stored = created or await _waited_for(stores, asked, first)
    if stored.record.answer is not None:
        return Answered(answer=stored.record.answer, replayed=True)
    hold = _Hold(stores, asked.record_key, stored)
    origin = replace(
        asked.origin,
        idempotency_key=asked.key,
        commit_id=stored.record.commit_id,
        resumed=created is None,
        begun_at=begun_at,
        hold=hold,
    )
    return await _done(hold, IdempotentAttempt(origin, stored.record.resource_id, hold), work)


async def _done(hold: _Hold, turn: IdempotentAttempt, work: Work) -> Answered:
    is_kept = False
    try:
        async with _renewed(hold):
            answer = await work(turn)
        is_kept = answer.status < 400 or answer.status in REFUSED
    finally:
        if not is_kept:
            await hold.let_go()
    return await hold.keep(answer) if is_kept else Answered(answer=answer, replayed=False)


async def _waited_for(stores: Stores, asked: Asked, ours: Record) -> StoredRecord:
    """The record when it is finished, or ours to carry on with.

    Its lease has ended when its holder's clock says so, or when nobody has written it for as long as a lease lasts by
    our own clock: a clock that is ahead must not make anybody wait for ever.
    """
    pause_sec, seen, since = FIRST_PAUSE_SEC, 0, stores.clock.monotonic()
    while True:
        stored = await stores.idempotency.get(asked.record_key)
        if stored is None:  # it has had its time, just now
            stored = await stores.idempotency.create(asked.record_key, ours)
            if stored is not None:
                return stored
            continue
        if stored.record.request_hash != asked.request_hash:
            raise IdempotencyConflict(endpoint=asked.endpoint)
        if stored.record.answer is not None:
            return stored
        now = stores.clock.monotonic()
        if stored.revision != seen:
            seen, since = stored.revision, now
        if now - since >= LEASE_SEC or stored.record.lease_until <= stores.clock.now():
            mine = replace(stored.record, holder=ours.holder, lease_until=stores.clock.now() + LEASE_SEC)
            taken = await stores.idempotency.replace(asked.record_key, mine, revision=stored.revision)
            if taken is not None:
                logger.info("carrying on with a request", extra={"endpoint": asked.endpoint})
                return taken
            continue
        await asyncio.sleep(pause_sec)
        pause_sec = min(2 * pause_sec, LONGEST_PAUSE_SEC)


@asynccontextmanager
async def _renewed(hold: _Hold) -> AsyncIterator[None]:
    """Renew the lease for as long as the block lasts, and not a moment longer; most are over before the first time."""
    renewing: list[asyncio.Task[None]] = []
    begin = asyncio.get_running_loop().call_later(
        RENEW_EVERY_SEC, lambda: renewing.append(asyncio.create_task(hold.renew()))
    )
    try:
        yield
    finally:
        begin.cancel()
        for task in renewing:
            task.cancel()
            await asyncio.wait([task])


class _Hold:
    """A record that we work on. Whatever we write to it is written here, one thing after the other."""

    def __init__(self, stores: Stores, key: RecordKey, stored: StoredRecord) -> None:
        self._stores = stores
        self._key = key
        self._stored = stored
        self._holder = stored.record.holder
        self._resource_id = stored.record.resource_id
        self._writing = asyncio.Lock()
        self._event_ids: dict[str, None] = {}

    def emitted(self, commit_id: CommitId, events: int) -> None:
        self._event_ids.update(dict.fromkeys(event_id(commit_id, place) for place in range(events)))

    async def overtaken(self) -> bool:
        stored = await self._stores.idempotency.get(self._key)
        return stored is None or stored.record.holder != self._holder

    async def renew(self) -> None:
        """Until cancelled, or until somebody else carries on."""
        while True:
            try:
                if not await self._write(lease_until=self._stores.clock.now() + LEASE_SEC):
                    return
            except PyocoError as error:
                logger.warning("a lease was not renewed", extra={"err_id": error.err_id, "error": error.detail})
            await asyncio.sleep(RENEW_EVERY_SEC)

    async def choose(self, resource_id: str) -> str:
        for _ in range(MAX_RACES):
            present = self._stored.record
            is_theirs = present.resource_id != self._resource_id or present.answer is not None
            if is_theirs or await self._write(resource_id=resource_id):
                self._resource_id = self._stored.record.resource_id
                return self._resource_id
        raise AppendConflict(endpoint=self._stored.record.endpoint)

    async def keep(self, answer: Answer) -> Answered:
        """Store the answer, or give the one that a twin has stored before us: both are asked for the same."""
        answer = replace(answer, event_ids=tuple(self._event_ids))
        try:
            for _ in range(MAX_RACES):
                if await self._write(answer=answer, lease_until=ENDED):
                    break
                if self._stored.record.answer is not None:
                    return Answered(answer=self._stored.record.answer, replayed=True)
        except PyocoError as error:
            if answer.status in REFUSED:
                raise  # no log has it: whoever asked again would be told what is so then
            # It is done. Whoever asks again carries on, finds it done, and is told the same.
            facts = {"endpoint": self._stored.record.endpoint, "err_id": error.err_id, "error": error.detail}
            logger.warning("an answer was not kept", extra=facts)
        return Answered(answer=answer, replayed=False)

    async def let_go(self) -> None:
        """End the lease: whoever asks again need not wait for it."""
        try:
            for _ in range(MAX_RACES):
                # One that is somebody else's by now stays as it is.
                if self._stored.record.holder != self._holder or await self._write(lease_until=ENDED):
                    return
        except PyocoError as error:
            logger.warning("a lease was not ended", extra={"err_id": error.err_id, "error": error.detail})

    async def _write(self, **changes: Any) -> bool:
        """Change the record; False when somebody else has written it since, and then their word is the one we know."""
        store = self._stores.idempotency
        async with self._writing:
            record = replace(self._stored.record, **changes)
            written = await store.replace(self._key, record, revision=self._stored.revision)
            if written is None:
                present = await store.get(self._key)
                if present is not None:
                    self._stored = present
                    return False
                written = await store.create(self._key, record)  # it has had its time while we worked on it
            self._stored = written or self._stored
            return written is not None
