"""The audit trail in a stream: batches of records of the event log under one key, each other change under its own.

A batch says up to which commit the event log is recorded, and is appended behind the batch before: of two gateways that
record the same commits one wins, and a killed one leaves a whole batch or none. Another change begins with a message
`attempted`, before it is made, and ends with `made` or `void`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pyoco_server.domain.audit import AuditRecord, Outcome
from pyoco_server.errors import AppendConflict
from pyoco_server.ports.broker import LogMessage, Stored, StreamState, SubjectLog

logger = logging.getLogger(__name__)

COMMITS = "commits"
CHANGE = "change-"
MAX_CONFLICTS = 16


class CommitBatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The records of the commits up to the sequence `upto`, behind those of the batch before.

    `events` is when the event stream was created: sequences of another one mean nothing.
    """

    events: str
    upto: int
    records: tuple[AuditRecord, ...]


class RecordedUpTo(msgspec.Struct, frozen=True, kw_only=True):
    """How far the event log is recorded, and the sequence to append the next batch behind."""

    events: str = ""
    upto: int = 0
    sequence: int = 0


class AuditLog:
    """The stored audit trail."""

    def __init__(self, log: SubjectLog) -> None:
        self._log = log

    async def recorded(self) -> RecordedUpTo:
        """How far the event log is recorded."""
        last = await self._log.last(COMMITS)
        if last is None:
            return RecordedUpTo()
        batch = msgspec.json.decode(last.data, type=CommitBatch)
        return RecordedUpTo(events=batch.events, upto=batch.upto, sequence=last.sequence)

    async def append(self, batch: CommitBatch, *, behind: RecordedUpTo) -> bool:
        """Store the batch; False when another gateway has recorded meanwhile."""
        data = msgspec.json.encode(batch)

        def is_ours(message: LogMessage) -> bool:
            return message.data == data

        # The same batch of another gateway counts as ours: both hold the same records.
        return isinstance(await self._log.append(COMMITS, data, after=behind.sequence, is_ours=is_ours), Stored)

    async def outcome_of(self, key: str) -> Outcome | None:
        """The outcome of a change so far; None when it has not begun."""
        last = await self._log.last(CHANGE + key)
        return None if last is None else msgspec.json.decode(last.data, type=AuditRecord).outcome

    async def put(self, record: AuditRecord) -> None:
        """Store this outcome of a change; `made` is final. Repeating it changes nothing."""
        subject, data = CHANGE + record.key, msgspec.json.encode(record)
        for _ in range(MAX_CONFLICTS):
            last = await self._log.last(subject)
            if last is not None:
                known = msgspec.json.decode(last.data, type=AuditRecord)
                if known.outcome in (record.outcome, "made"):
                    return
            after = 0 if last is None else last.sequence
            stored = await self._log.append(subject, data, after=after, is_ours=lambda message: message.data == data)
            if isinstance(stored, Stored):
                return
        raise AppendConflict(audit=record.key)

    async def state(self) -> StreamState:
        return await self._log.state()

    async def read(self, *, after: int, upto: int) -> Sequence[AuditRecord]:
        """The records of the messages in this range, in the order in which they were stored."""
        records: list[AuditRecord] = []
        for message in await self._log.read_range(after=after, upto=upto):
            records += _records_in(message)
        return records


def settled(record: AuditRecord, outcome: Outcome) -> AuditRecord:
    return replace(record, outcome=outcome)


def _records_in(message: LogMessage) -> Sequence[AuditRecord]:
    try:
        if message.key == COMMITS:
            return msgspec.json.decode(message.data, type=CommitBatch).records
        return [msgspec.json.decode(message.data, type=AuditRecord)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        logger.warning("unreadable audit record", extra={"sequence": message.sequence, "reason": str(error)})
        return []
