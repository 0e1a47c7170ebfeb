"""The index of the audit trail as a dictionary: the reference model of the contract suite."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pyoco_server.domain.audit import AuditPlace, AuditQuery, AuditRecord
from pyoco_server.ports.audit import AuditPosition


class MemoryAuditIndex:
    """See `ports.audit.AuditIndex`."""

    def __init__(self) -> None:
        self.reset()

    def position(self) -> AuditPosition | None:
        return self._position

    def reset(self) -> None:
        self._records: dict[str, AuditRecord] = {}
        self._position: AuditPosition | None = None

    def apply(self, records: Sequence[AuditRecord], position: AuditPosition) -> None:
        for record in records:
            known = self._records.get(record.key)
            if record.outcome == "void":
                self._records.pop(record.key, None)
            elif known is None:
                self._records[record.key] = record
            else:
                self._records[record.key] = replace(known, outcome=record.outcome)
        self._position = position

    def forget_before(self, at: float) -> None:
        self._records = {key: record for key, record in self._records.items() if record.at >= at}

    def page(self, query: AuditQuery, *, before: AuditPlace | None, limit: int) -> Sequence[AuditRecord]:
        found = [
            record
            for record in self._records.values()
            if query.fits(record) and (before is None or (record.at, record.key) < before)
        ]
        return sorted(found, key=lambda record: (record.at, record.key), reverse=True)[:limit]
