"""The counted results of requests: a projection of the event log that can be deleted and rebuilt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.counting import Counted, CountedRequest
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.strategies import StoredResult
from pyoco_server.domain.pdca.strategy_table import Latest


class StrategyResults(Protocol):
    """A local, synchronous store. Raises `IndexUnavailable` while it is damaged and waits for `reset`.

    The position is per request: the version up to which its log is counted, stored in one transaction with its rows.
    """

    def stream(self) -> str | None:
        """When the counted event stream was created; None when the store is empty or damaged."""

    def reset(self, stream: str) -> None:
        """Start empty, for this event stream."""

    def load(self, run_id: RunId) -> CountedRequest | None: ...
    def versions(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        """The counted versions of these requests; unknown ones are left out."""

    def save(self, counted: Counted) -> Sequence[Latest]:
        """Store a request with the results of its changed batches; returns what is newest of the strategies affected.

        A version that is not newer than the stored one changes nothing.
        """

    def remove(self, run_id: RunId) -> Sequence[Latest]:
        """Remove a request and its results; returns as `save`."""

    def ended_before(self, at: float, limit: int) -> Sequence[RunId]:
        """Requests that ended earlier, oldest first."""

    def latest(self) -> Iterator[Latest]:
        """The newest result of every strategy."""

    def results(
        self,
        tenant_id: str | None,
        strategy_id: StrategyId,
        *,
        checked_from: float | None = None,
        checked_to: float | None = None,
        limit: int,
    ) -> Sequence[StoredResult]:
        """The results of a strategy between two times, both included, newest first."""

    def averages(self, tenant_id: str | None, strategy_id: StrategyId, *, checked_from: float) -> Mapping[str, float]:
        """The average of each indicator since that time; one that no result has is left out."""

    def close(self) -> None: ...
