"""A request with an idempotency key is carried out once, across retries and crashes. Independent of HTTP.

    create the record ──▶ ours ──────────────────────▶ work ──▶ store the answer ──▶ answered
          │                                             ▲
          └─ it exists ────▶ other request: conflict    │ continue: same commit id, same resource id
                             finished: its answer       │
                             in work: wait until it is finished, or its lease has ended

The record holds a lease, renewed during the work, so that a concurrent retry waits. Correctness does not depend on the
lease: clocks may differ and processes may pause. Two attempts at once use one commit id and one resource id, of which
the event log and the stores accept one; of two answers one is stored, and both return it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

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
# Each is the success of another attempt.
MAX_RACES = 20
# A refusal: the state does not allow it, has no such node, or offers other choices. Invalid input never gets here.
REFUSED = (404, 409, 422)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request with a key: the place of its record, and what identifies the same request."""

    record_key: RecordKey
    key: IdempotencyKey
    endpoint: str
    request_hash: str
    context: CommandContext


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the caller; `replayed`: it is the stored answer of an earlier attempt."""

    answer: Answer
    replayed: bool


async def find_earlier(stores: Stores, record_key: RecordKey, request_hash: str) -> Record | None:
    """The record of an earlier attempt; None for a new request, `IdempotencyConflict` for another request.

    For work that may have to wait before it starts: it needs no record until then.
    """
    stored = await stores.idempotency.get(record_key)
    if stored is None:
        return None
    if stored.record.request_hash != request_hash:
        raise IdempotencyConflict(endpoint=stored.record.endpoint)
    return stored.record


class IdempotentAttempt(msgspec.Struct):
    """One attempt of a request: the context of its commands, and the id of the resource it makes.

    A continued request keeps the resource id of the first attempt. It ends with `finish` or `abandon`; until then its
    lease is renewed. Without a key there is no lease.
    """

    context: CommandContext
    resource_id: str
    lease: _Lease | None = None

    async def choose(self, resource_id: str) -> str:
        """Store another resource id before it is used; returns the one that counts.

        The choice of a concurrent attempt that was stored first counts instead.
        """
        self.resource_id = resource_id if self.lease is None else await self.lease.choose(resource_id)
        return self.resource_id

    async def finish(self, answer: Answer) -> Answered:
        """Store a success or a refusal, or return the answer of a concurrent attempt that was stored first."""
        if self.lease is None:
            return Answered(answer=answer, replayed=False)
        if answer.status >= 400 and answer.status not in REFUSED:
            await self.abandon()
            return Answered(answer=answer, replayed=False)
        await self.lease.stop_renewing()
        return await self.lease.keep(answer)

    async def abandon(self) -> None:
        """End the lease without an answer: the next attempt continues at once, because a part may be done."""
        if self.lease is not None:
            await self.lease.stop_renewing()
            await self.lease.let_go()


async def begin(stores: Stores, asked: Asked, new_resource_id: Callable[[], str]) -> IdempotentAttempt | Answer:
    """A new attempt, or the stored answer; `IdempotencyConflict` for another request with the same key."""
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
        return stored.record.answer
    lease = _Lease(stores, asked.record_key, stored)
    lease.start_renewing()
    context = replace(
        asked.context,
        idempotency_key=asked.key,
        commit_id=stored.record.commit_id,
        resumed=created is None,
        begun_at=begun_at,
        hold=lease,
    )
    return IdempotentAttempt(context, stored.record.resource_id, lease)


async def _waited_for(stores: Stores, asked: Asked, ours: Record) -> StoredRecord:
    """The record when it is finished, or its lease is ours.

    The lease has ended by its holder's time, or when the record was not written for the length of a lease by our own
    clock: a clock that is ahead must not block the request for ever.
    """
    pause_sec, seen, since = FIRST_PAUSE_SEC, 0, stores.clock.monotonic()
    while True:
        stored = await stores.idempotency.get(asked.record_key)
        if stored is None:  # it has just expired
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
                logger.info("continuing a request", extra={"endpoint": asked.endpoint})
                return taken
            continue
        await asyncio.sleep(pause_sec)
        pause_sec = min(2 * pause_sec, LONGEST_PAUSE_SEC)


class _Lease:
    """The record of the present attempt; writes are serialised."""

    def __init__(self, stores: Stores, key: RecordKey, stored: StoredRecord) -> None:
        self._stores = stores
        self._key = key
        self._stored = stored
        self._holder = stored.record.holder
        self._resource_id = stored.record.resource_id
        self._writing = asyncio.Lock()
        self._event_ids: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    def start_renewing(self) -> None:
        """Most attempts end before the first renewal: the task is created only then."""
        self._timer = asyncio.get_running_loop().call_later(RENEW_EVERY_SEC, self._renew_from_now)

    def _renew_from_now(self) -> None:
        self._renewing = asyncio.create_task(self.renew())

    async def stop_renewing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])

    def emitted(self, commit_id: CommitId, events: int) -> None:
        self._event_ids.update(dict.fromkeys(event_id(commit_id, place) for place in range(events)))

    async def overtaken(self) -> bool:
        stored = await self._stores.idempotency.get(self._key)
        return stored is None or stored.record.holder != self._holder

    async def renew(self) -> None:
        """Until cancelled, or until another attempt has taken over."""
        while True:
            try:
                if not await self._write(lease_until=self._stores.clock.now() + LEASE_SEC):
                    return
            except PyocoError as error:
                logger.warning("lease not renewed", extra=error.ids() | {"error": error.detail})
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
        """Store the answer, or return the one that a concurrent attempt has stored first."""
        answer = replace(answer, event_ids=tuple(self._event_ids))
        try:
            for _ in range(MAX_RACES):
                if await self._write(answer=answer, lease_until=ENDED):
                    break
                if self._stored.record.answer is not None:
                    return Answered(answer=self._stored.record.answer, replayed=True)
        except PyocoError as error:
            if answer.status in REFUSED:
                raise  # no event has it: a retry would get an answer to a later state
            # It is done. A retry continues, finds it done, and gets the same answer.
            facts = {"endpoint": self._stored.record.endpoint, "err_id": error.err_id, "error": error.detail}
            logger.warning("answer not stored", extra=facts)
        return Answered(answer=answer, replayed=False)

    async def let_go(self) -> None:
        """End the lease, so that a retry need not wait for it."""
        try:
            for _ in range(MAX_RACES):
                # Another attempt's lease stays.
                if self._stored.record.holder != self._holder or await self._write(lease_until=ENDED):
                    return
        except PyocoError as error:
            logger.warning("lease not ended", extra=error.ids() | {"error": error.detail})

    async def _write(self, **changes: Any) -> bool:
        """Change the record; False when another attempt has written it, which is then the known one."""
        store = self._stores.idempotency
        async with self._writing:
            record = replace(self._stored.record, **changes)
            written = await store.replace(self._key, record, revision=self._stored.revision)
            if written is None:
                present = await store.get(self._key)
                if present is not None:
                    self._stored = present
                    return False
                written = await store.create(self._key, record)  # it has expired during the work
            self._stored = written or self._stored
            return written is not None
