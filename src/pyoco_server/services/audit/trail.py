"""Records changes that are not in the event log: of keys, wheels, graphs, workers and strategies.

The record is stored before the change: a process that is killed in between leaves a record `attempted`, never a change
without one. While the trail cannot be written nothing is changed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from pyoco_server.domain.audit import AuditRecord
from pyoco_server.errors import BrokerUnavailable, Kind, PyocoError
from pyoco_server.ports import Clock, Ids
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.stores.audit import AuditLog, settled

logger = logging.getLogger(__name__)

# After these it is unknown whether the change was made.
_UNKNOWN = (Kind.UNAVAILABLE, Kind.INTERNAL)


@dataclass(slots=True)
class Change:
    """A change under way. `unchanged`: it turned out that there was nothing to change, so it leaves no record."""

    unchanged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTrail:
    """Writes the audit trail."""

    log: AuditLog
    clock: Clock
    ids: Ids

    @classmethod
    def of(cls, stores: Stores) -> Self:
        return cls(log=stores.audit, clock=stores.clock, ids=stores.ids)

    @asynccontextmanager
    async def change(
        self,
        action: str,
        resource_kind: str,
        resource_id: str,
        context: CommandContext,
        *,
        tenant_id: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Change]:
        """The block makes one change; it leaves one record, also when the request is repeated with its key.

        Enter it when the change is known to be allowed. A block that is refused leaves no record.
        """
        record = AuditRecord(
            key=context.commit_id or self.ids.commit_id(),
            at=self.clock.now(),
            action=action,
            actor=context.actor,
            resource_kind=resource_kind,
            resource_id=resource_id,
            tenant_id=tenant_id,
            address=context.address,
            request_id=context.request_id,
            correlation_id=context.correlation_id,
            outcome="attempted",
            detail=detail or {},
        )
        is_first = await self.log.outcome_of(record.key) in (None, "void")
        if is_first:
            await self.log.put(record)
        change = Change()
        try:
            yield change
        except PyocoError as error:
            # An earlier try of the same request may have made the change before it was killed.
            if is_first and error.kind not in _UNKNOWN:
                await self._settle(settled(record, "void"))
            raise
        if is_first or not change.unchanged:
            await self._settle(settled(record, "void" if change.unchanged else "made"))

    async def _settle(self, record: AuditRecord) -> None:
        try:
            await self.log.put(record)
        except BrokerUnavailable as error:
            # The change is made or refused, and the request must say so. The record stays `attempted`.
            facts = {"action": record.action, "resource_id": record.resource_id, "outcome": record.outcome}
            logger.warning("outcome of an audit record not stored", extra=facts | {"reason": error.detail})
