"""Reads the audit trail from this gateway's index, which it fills from the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.audit import AuditPlace, AuditQuery, AuditRecord
from pyoco_server.domain.queries.page_token import seal, unseal
from pyoco_server.errors import InvalidRequest
from pyoco_server.ports import Clock
from pyoco_server.ports.audit import AuditIndex, AuditPosition
from pyoco_server.services.audit.recorder import AuditRecorder
from pyoco_server.stores.audit import AuditLog

# Messages at a time; a batch of the event log has up to 250 records.
STEP = 500


class AuditPage(NamedTuple):
    """Records, newest first, and the cursor of the next page: None when this was the last one."""

    records: Sequence[AuditRecord]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReader:
    """The audit trail as one gateway shows it."""

    recorder: AuditRecorder
    log: AuditLog
    index: AuditIndex
    config: NatsBackendConfig
    clock: Clock
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def page(self, query: AuditQuery, *, limit: int, cursor: str | None = None) -> AuditPage:
        """The next records, with everything that was changed before this call, at any gateway."""
        about = ("audit", *query.__struct_fields__, *(getattr(query, name) for name in query.__struct_fields__))
        before = None if cursor is None else _place(cursor, about)
        await self.catch_up()
        found = await asyncio.to_thread(self.index.page, query, before=before, limit=limit + 1)
        shown = found[:limit]
        more = len(found) > limit
        return AuditPage(shown, seal((shown[-1].at, shown[-1].key), about=about) if more else None)

    async def catch_up(self) -> None:
        """Record what the event log has, and index what the trail has."""
        await self.recorder.catch_up()
        async with self._lock:
            state = await self.log.state()
            known = await asyncio.to_thread(self.index.position)
            if known is None or known.stream != state.created or known.sequence > state.last_sequence:
                await asyncio.to_thread(self.index.reset)
                known = AuditPosition(state.created, 0)
            after = max(known.sequence, state.first_sequence - 1)
            while after < state.last_sequence:
                upto = min(after + STEP, state.last_sequence)
                records = await self.log.read(after=after, upto=upto)
                await asyncio.to_thread(self.index.apply, records, AuditPosition(state.created, upto))
                after = upto

    async def forget(self) -> None:
        """Remove records that are kept no longer; the broker removes them from the stream by itself."""
        if self.config.audit_retention_sec:
            oldest = self.clock.now() - self.config.audit_retention_sec
            await asyncio.to_thread(self.index.forget_before, oldest)


def _place(cursor: str, about: tuple[object, ...]) -> AuditPlace:
    restart = "start without one, and keep the filters"
    at, key = unseal(cursor, tuple[float, str], about=about, name="cursor", restart=restart, error=InvalidRequest)
    return AuditPlace(at, key)
