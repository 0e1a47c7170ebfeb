"""The index of the audit trail: a cache in each gateway that answers any filter and page in bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pyoco_server.domain.audit import AuditPlace, AuditQuery, AuditRecord


class AuditPosition(NamedTuple):
    """How far an index has read: when the stream was created, and the sequence."""

    stream: str
    sequence: int


class AuditIndex(Protocol):
    """A local, synchronous cache, for any thread. Raises `IndexUnavailable` while it is damaged, until `reset`."""

    def position(self) -> AuditPosition | None:
        """How far it has read; None when it is empty or damaged."""

    def reset(self) -> None:
        """Start empty."""

    def apply(self, records: Sequence[AuditRecord], position: AuditPosition) -> None:
        """Store records, in the order of the stream, and the position behind them in one transaction.

        The first record of a key stays; a later one changes its outcome, and `void` removes it.
        """

    def forget_before(self, at: float) -> None:
        """Remove older records."""

    def page(self, query: AuditQuery, *, before: AuditPlace | None, limit: int) -> Sequence[AuditRecord]:
        """The matching records in front of a place (None: the newest), newest first; at the same time by key."""
