"""Records the commands of users from the event log. All gateways may do so at once.

recorded up to ──▶ read the commits behind it ──▶ batch of records ──append behind the last batch──▶ audit stream
      ▲                                                                    │ conflict: another gateway was first
      └────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.audit import AuditRecord, record_of
from pyoco_server.domain.execution.state import Execution
from pyoco_server.ports import Clock
from pyoco_server.stores.audit import AuditLog, CommitBatch, RecordedUpTo
from pyoco_server.stores.feed import Feed

# Commits read at a time; one may be as large as a message of the broker.
STEP = 250
# Without commands of users the position is stored at least this often: a restart reads no more than this again.
MARK_EVERY = 10_000

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class AuditRecorder:
    """One gateway's part in recording."""

    feed: Feed
    log: AuditLog
    config: NatsBackendConfig
    clock: Clock
    # How far this gateway has looked, in which event stream: at least as far as it has stored.
    _looked: tuple[str, int] = ("", 0)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_recorded(self, execution: Execution) -> bool:
        """Whether all commits of the execution are recorded, so that retention may remove them."""
        return execution.version <= self._looked[1]

    async def catch_up(self) -> None:
        """Record everything that was stored before this call."""
        async with self._lock:
            state = await self.feed.commit_state()
            while (recorded := await self._recorded(state.created)) is not None:
                behind = max(recorded.upto, self._looked[1], state.first_sequence - 1)
                if behind >= state.last_sequence:
                    self._looked = (state.created, state.last_sequence)
                    return
                await self._record(state.created, behind, min(behind + STEP, state.last_sequence), recorded)

    async def _recorded(self, created: str) -> RecordedUpTo:
        recorded = await self.log.recorded()
        if self._looked[0] != created:
            self._looked = (created, 0)
        # A recreated event stream begins anew.
        return recorded if recorded.events == created else RecordedUpTo(sequence=recorded.sequence)

    async def _record(self, created: str, after: int, upto: int, recorded: RecordedUpTo) -> None:
        records = await self._records(after, upto)
        if records or upto - recorded.upto >= MARK_EVERY:
            batch = CommitBatch(events=created, upto=upto, records=tuple(records))
            if not await self.log.append(batch, behind=recorded):
                return  # the next round continues behind the other gateway's batch
        self._looked = (created, upto)

    async def _records(self, after: int, upto: int) -> list[AuditRecord]:
        keep_sec = self.config.audit_retention_sec
        oldest = self.clock.now() - keep_sec if keep_sec else 0.0
        found = [record_of(run_id, commit) for run_id, commit in await self.feed.user_commits(after=after, upto=upto)]
        return [record for record in found if record is not None and record.at > oldest]
